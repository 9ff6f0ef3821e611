"""GRU and LSTM over all steps of sequences, and the way from sequences to steps and back: csrc/cuda/recurrent.cuh.

Layers of up to 128 units take one launch, in which a block goes through all steps with a few examples, so that no step
waits for a launch. Larger layers take a launch for each step, in which many blocks share the weight.
"""

from __future__ import annotations

from typing import NamedTuple

from .arrange import tiles_of, transposed
from .elementwise import fill_zero
from .launch import Field, Ids, KernelArray, Launches, PlannedLaunch, Scratch, tiled

_THROUGH = 128  # most units of a layer that takes one launch
_FEW, _MANY = 256, 512  # threads, of which a row of the weight takes one
_EXAMPLES, _GROUPS = 2, 8  # examples of a thread, and most groups of examples in a block
_SIDE = 16  # of the sums of a block that makes one step: examples, and rows or units


class _Layer(NamedTuple):
    name: str
    gates: int
    steps: int
    batch: int
    units: int

    @classmethod
    def of(cls, name: str, gates: KernelArray, weight: KernelArray) -> _Layer:
        (steps, batch, _), (rows, units) = gates.shape, weight.shape
        return cls(name, rows // max(units, 1), steps, batch, units)

    @property
    def rows(self) -> int:
        return self.gates * self.units

    @property
    def extents(self) -> tuple[int, int, int]:
        return self.steps, self.batch, self.units

    @property
    def is_one_launch(self) -> bool:
        return self.units <= _THROUGH

    @property
    def is_empty(self) -> bool:
        return not self.steps * self.batch * self.units


def to_steps(x: KernelArray, y: KernelArray) -> Launches:
    batch, channels, steps = x.shape
    grid = tiles_of(batch, channels, steps)
    return [tiled("to_steps", grid, x, y, batch, channels, steps, 0)]


def from_steps(y: KernelArray, x: KernelArray) -> Launches:
    batch, channels, steps = x.shape
    grid = tiles_of(batch, steps, channels)
    return [tiled("from_steps", grid, y, x, batch, channels, steps, y.shape[0] - steps)]


def gru_forward(
    gates: KernelArray, weight: KernelArray, bias: KernelArray | None, hidden: KernelArray | None, states: KernelArray
) -> Launches:
    return _forward(_Layer.of("gru", gates, weight), gates, weight, bias, (hidden, None), states)


def lstm_forward(
    gates: KernelArray, weight: KernelArray, bias: KernelArray | None, cells: KernelArray, states: KernelArray
) -> Launches:
    layer = _Layer.of("lstm", gates, weight)
    return _forward(layer, gates, weight, bias, (_after_first(cells, layer), cells), states)


def gru_backward(
    dy: KernelArray,
    gates: KernelArray,
    hidden: KernelArray,
    states: KernelArray,
    weight: KernelArray,
    dhidden: KernelArray,
    units: KernelArray | None,
) -> Launches:
    return _backward(_Layer.of("gru", gates, weight), (dy, gates, states, hidden, weight, dhidden), units)


def lstm_backward(
    dy: KernelArray, gates: KernelArray, cells: KernelArray, weight: KernelArray, units: KernelArray | None
) -> Launches:
    layer = _Layer.of("lstm", gates, weight)
    return _backward(layer, (dy, gates, cells, _after_first(cells, layer), weight, None), units)


def _forward(
    layer: _Layer,
    gates: KernelArray,
    weight: KernelArray,
    bias: KernelArray | None,
    beside: tuple[KernelArray | None, KernelArray | None],
    states: KernelArray,
) -> Launches:
    if layer.is_empty:
        return [each for to in (states, beside[1]) if to is not None for each in fill_zero(to)]
    if not layer.is_one_launch:
        grid = -(-layer.units // (_SIDE // layer.gates)), -(-layer.batch // _SIDE), 1
        fields = gates, weight, bias, *beside, states, *layer.extents
        return [tiled(f"{layer.name}_step", grid, *fields, step) for step in range(layer.steps)]
    turned = Scratch(0, 4 * weight.size)
    turn = transposed(weight, turned, 1, layer.rows, layer.units)
    return [*turn, _through(layer, "through", gates, turned, bias, *beside, states, *layer.extents)]


def _backward(layer: _Layer, arrays: tuple[KernelArray | None, ...], units: KernelArray | None) -> Launches:
    if layer.is_empty:
        return []
    passing = Ids.of(units, layer.units)
    if layer.is_one_launch:
        return [_through(layer, "back_through", *arrays, passing, None, None, *layer.extents)]
    carried = Scratch(0, 4 * layer.batch * layer.units)
    marks = None if units is None else Scratch(carried.size, 4 * layer.units)
    mark = [] if marks is None else [tiled("mark_units", (1, 1, 1), passing, marks, layer.units)]
    grid = -(-layer.units // _SIDE), -(-layer.batch // _SIDE), 1
    fields = *arrays, passing, carried, marks, *layer.extents
    return [*mark, *(tiled(f"{layer.name}_back_step", grid, *fields, step) for step in reversed(range(layer.steps)))]


def _through(layer: _Layer, kernel: str, *fields: Field) -> PlannedLaunch:
    """Plan a launch whose blocks take as many groups of examples as there are threads for."""
    many = layer.rows > _FEW
    threads = _MANY if many else _FEW
    groups = min(_GROUPS, threads // layer.rows)
    grid = -(-layer.batch // (groups * _EXAMPLES)), 1, 1
    return tiled(f"{layer.name}_{kernel}_{'many' if many else 'few'}", grid, *fields, groups, threads=threads)


def _after_first(cells: KernelArray, layer: _Layer) -> KernelArray:
    """Return the cells after each step, without the state before the first. An array without steps is not read."""
    return KernelArray(cells.array, cells.offset + 4 * layer.batch * layer.units)
