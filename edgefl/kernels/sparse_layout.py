"""The layout of a masked convolution's structure in memory, as csrc/core/sparse_convolution.h describes it.

Blocks of channels, parts of rows, bands and words follow from the layer and from the number of its weights. The
structure itself says which weights there are. reference/sparse_convolution.py builds and reads a structure.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from .arrays import Pair

HEADER, OFFSETS, WINDOW, LIST, WHOLE_LIST = 16, 65535, 400, 10, 120
PART, PHASES, PLANES, BAND = 128, 4096, 8192, 6


@dataclass(frozen=True)
class ConvolutionShape:
    """A convolution without groups, with the size of its images."""

    ins: int
    outs: int
    size: Pair
    kernel: Pair
    stride: Pair
    padding: Pair
    dilation: Pair

    @property
    def taps(self) -> int:
        return self.kernel[0] * self.kernel[1]


@dataclass(frozen=True)
class CorrelationAxis:
    """One axis of a correlation: position q and tap k read cell q + shift(k) of the source.

    phase(k) is the phase of the source that is read or, in a transposed structure, the phase of the result.
    """

    size: int
    kernel: int
    stride: int
    pad: int
    dil: int
    is_transposed: bool

    @property
    def positions(self) -> int:
        if self.is_transposed:
            return -(-self.size // self.stride)
        return (self.size + 2 * self.pad - self.dil * (self.kernel - 1) - 1) // self.stride + 1

    def _upwards(self, tap: int) -> int:
        return -((tap * self.dil - self.pad) // self.stride)

    def shift(self, tap: int) -> int:
        if self.is_transposed:
            return self._upwards(tap) - self._upwards(self.kernel - 1)
        return tap * self.dil // self.stride

    def phase(self, tap: int) -> int:
        if self.is_transposed:
            return self._upwards(tap) * self.stride - (self.pad - tap * self.dil)
        return tap * self.dil % self.stride

    @property
    def start(self) -> int:
        """The row of the source that shift 0 reads at position 0."""
        return self._upwards(self.kernel - 1) if self.is_transposed else -self.pad

    @property
    def step(self) -> int:
        """The distance from a position's row of the source to the next position's row."""
        return 1 if self.is_transposed else self.stride

    @property
    def extent(self) -> int:
        return self.shift(0 if self.is_transposed else self.kernel - 1)

    @property
    def source_phases(self) -> int:
        return 1 if self.is_transposed else min(self.stride, (self.kernel - 1) * self.dil + 1)

    @property
    def row_phases(self) -> int:
        return self.stride if self.is_transposed else 1


def _shares(total: int, most: int) -> int:
    return -(-total // most)


@dataclass(frozen=True)
class SparseConvolutionLayout:
    """The layout of the structure of `count` weights of a layer, forward or transposed."""

    layer: ConvolutionShape
    count: int
    is_transposed: bool

    @cached_property
    def axes(self) -> tuple[CorrelationAxis, CorrelationAxis]:
        layer = self.layer
        settings = zip(layer.size, layer.kernel, layer.stride, layer.padding, layer.dilation, strict=True)
        down, along = (CorrelationAxis(*of_axis, self.is_transposed) for of_axis in settings)
        return down, along

    @cached_property
    def is_whole(self) -> bool:
        layer = self.layer
        plain = (layer.kernel, layer.stride, layer.padding, layer.dilation) == ((3, 3), (1, 1), (1, 1), (1, 1))
        return plain and layer.size in ((2, 2), (4, 4))

    @cached_property
    def kinds(self) -> int:
        return self.layer.taps if self.is_whole else 3

    @cached_property
    def row_phases(self) -> int:
        return self.axes[0].row_phases * self.axes[1].row_phases

    @cached_property
    def source_phases(self) -> int:
        return self.axes[0].source_phases * self.axes[1].source_phases

    @cached_property
    def rows(self) -> int:
        return (self.layer.ins if self.is_transposed else self.layer.outs) * self.row_phases

    @cached_property
    def channels(self) -> int:
        return self.layer.outs if self.is_transposed else self.layer.ins

    @cached_property
    def extents(self) -> Pair:
        """The largest shift of each axis. A whole map has no halo."""
        return (0, 0) if self.is_whole else (self.axes[0].extent, self.axes[1].extent)

    @cached_property
    def pitch(self) -> int:
        return self.axes[1].positions + self.extents[1]

    def _plane(self, band: int) -> int:
        return self.source_phases * (band + self.extents[0]) * self.pitch

    @cached_property
    def band(self) -> int:
        band = self.axes[0].positions
        is_cut = not self.is_whole and band > 8 and self.channels * self._plane(band) > PLANES
        return BAND if is_cut else band

    @cached_property
    def plane(self) -> int:
        plane = self._plane(self.band)
        return plane if self.is_whole else plane | 1

    @cached_property
    def _widest_block(self) -> int:
        down, along = (
            min(most, axis.positions) + extent
            for most, axis, extent in zip((3, 8), self.axes, self.extents, strict=True)
        )
        window = self.plane if self.is_whole else self.source_phases * down * along
        least = WHOLE_LIST if self.is_whole else LIST
        long_enough = 1 if self.count == 0 else _shares(self.rows * self.channels * least, self.count)
        most = OFFSETS // max(self.plane, self.layer.taps)
        return max(1, min(max(WINDOW // max(window, 1), long_enough), most, self.channels))

    @cached_property
    def blocks(self) -> int:
        return _shares(self.channels, self._widest_block)

    @cached_property
    def block(self) -> int:
        return _shares(self.channels, self.blocks) if self.blocks else 1

    @cached_property
    def part(self) -> int:
        return max(1, PART // self.row_phases) * self.row_phases

    @cached_property
    def parts(self) -> int:
        return _shares(self.rows, self.part)

    @cached_property
    def list_words(self) -> int:
        return (1 + self.kinds + 1) // 2

    @cached_property
    def fits(self) -> bool:
        """True if the structure's offsets fit in 16 bits."""
        return self.plane <= OFFSETS and self.layer.taps < OFFSETS and self.row_phases <= PHASES

    @cached_property
    def lists_at(self) -> int:
        return HEADER + 3 * self.parts * self.blocks

    @cached_property
    def runs_at(self) -> int:
        return self.lists_at + self.list_words * self.rows * self.blocks

    @cached_property
    def words(self) -> int:
        return self.runs_at + (self.count + 1) // 2

    def run_length(self, kind: int) -> int:
        return 1 if self.is_whole else 3 - kind

    def offset(self, tap: int) -> int:
        """Return the cell of a tap at position 0 within its channel."""
        if self.is_whole:
            return 0
        down, along = self.axes
        i, j = divmod(tap, self.layer.kernel[1])
        phase = 0 if self.is_transposed else down.phase(i) * along.source_phases + along.phase(j)
        return phase * (self.band + self.extents[0]) * self.pitch + down.shift(i) * self.pitch + along.shift(j)

    def row_phase(self, tap: int) -> int:
        """Return the phase of the rows to which a tap contributes."""
        if not self.is_transposed:
            return 0
        down, along = self.axes
        i, j = divmod(tap, self.layer.kernel[1])
        return down.phase(i) * along.row_phases + along.phase(j)

    @cached_property
    def header(self) -> list[int]:
        layer = self.layer
        pairs = [layer.size, layer.kernel, layer.stride, layer.padding, layer.dilation]
        settings = [number for pair in pairs for number in pair]
        return [0x43505345 + self.is_transposed, layer.ins, layer.outs, *settings, self.block, self.band, self.count]
