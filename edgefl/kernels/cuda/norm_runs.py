"""The runs of values that a normalisation is over, and how blocks and their threads share them: csrc/cuda/runs.cuh."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .divisor import divisor
from .launch import THREADS, Field, Ids, PlannedLaunch, Scratch, StructValues, struct_values, tiled
from .structs import declare

declare(
    {
        # The number of images with runs of their own is 1 for channels. There are `all` ids, and `size` planes from one
        # run to the next. The powers of two `beside` and `team` count the runs side by side in a block, and the threads
        # of each. So many blocks as `pieces` share a run.
        "runs::Runs": "ids:Ids images all size rows step inner lanes beside team pieces by_lanes,by_count:Divisor",
    }
)

FEW = 8  # values of a thread, where there are threads to spare
BLOCK = 4096  # values that a block sums, where that leaves a run to several
MANY_BLOCKS = 1024  # enough for any device
MOST_PIECES = 256
WORD = 32  # threads that read memory together
PAIR = 16  # bytes of two sums


@dataclass(frozen=True)
class Runs:
    """The runs of x [images, channels, inner, lanes], and the threads that share them: csrc/cuda/runs.cuh.

    A run is one lane of `rows` planes.
    """

    ids: Ids
    images: int
    all: int
    size: int
    rows: int
    step: int
    inner: int
    lanes: int = 1
    is_group: bool = False  # of channels, one for each row
    abreast: int = 1
    team: int = 1
    pieces: int = 1

    @property
    def count(self) -> int:
        return self.images * self.ids.count * self.lanes

    @property
    def values(self) -> int:
        """The number of values in a run."""
        return self.rows * self.inner

    @property
    def struct(self) -> StructValues:
        planes = {"images": self.images, "all": self.all, "size": self.size, "rows": self.rows, "step": self.step}
        planes |= {"inner": self.inner, "lanes": self.lanes, "pieces": self.pieces}
        threads = {"beside": self.abreast.bit_length() - 1, "team": self.team.bit_length() - 1}
        divisors = {"by_lanes": divisor(self.lanes), "by_count": divisor(self.ids.count)}
        return struct_values("runs::Runs", ids=self.ids, **planes, **threads, **divisors)

    @property
    def per_value(self) -> float:
        return 1 / max(self.values, 1)

    @property
    def unbiased(self) -> float:
        """The factor by which a mean of squares becomes unbiased."""
        return self.values / max(self.values - 1, 1)

    @property
    def is_split(self) -> bool:
        return self.pieces > 1

    @property
    def sums(self) -> Scratch:
        """Room for two sums of each piece of each run."""
        return Scratch(0, self.pieces * self.count * PAIR)

    def launch(self, kernel: str, /, **fields: Field) -> PlannedLaunch:
        return tiled(kernel, (self._blocks, self.pieces, 1), **fields)

    def shared(self, values: int | None = None) -> Runs:
        """Return the runs with a team of threads for each run, and several blocks for a run where there are few runs.

        `values` is the number of values that are read of a run, if not all are.
        """
        values = self.values if values is None else values
        abreast = self._abreast
        most = THREADS // abreast
        teams = replace(self, abreast=abreast, team=min(most, _power_of_two(-(-values // FEW))))
        if teams.team < most or values * abreast <= BLOCK:
            return teams
        return replace(teams, pieces=min(-(-values * abreast // BLOCK), teams._times(MANY_BLOCKS), MOST_PIECES))

    def spread(self, values: int | None = None) -> Runs:
        """Return the runs as `shared` does, but for work without sums: in as many blocks as there is work for."""
        runs = self.shared(values)
        values = self.values if values is None else values
        return replace(runs, pieces=max(1, min(-(-values // (runs.team * FEW)), runs._times(2 * MANY_BLOCKS))))

    @property
    def _abreast(self) -> int:
        """The number of runs whose values are neighbours in memory."""
        is_beside = self.lanes > 1 or (self.inner == 1 and self.step > 1)
        return min(_power_of_two(self.lanes if self.lanes > 1 else self.count), WORD) if is_beside else 1

    def _times(self, blocks: int) -> int:
        """Return the number of pieces that make `blocks` blocks."""
        return -(-blocks // max(self._blocks, 1))

    @property
    def _blocks(self) -> int:
        return -(-self.count * self.team // THREADS)


def _power_of_two(size: int) -> int:
    """Return the least power of two that is not below `size`."""
    return 1 << max(size - 1, 0).bit_length()
