"""RNN, GRU and LSTM over all steps of sequences, and the way from sequences to steps and back: csrc/cuda/recurrent.cuh.

Layers of up to 128 units take one launch, in which a block goes through all steps with a few examples, so that no step
waits for a launch. Larger layers take a launch for each step, in which many blocks share the weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .arrange import tiles_of, transposed
from .elementwise import fill_zero
from .launch import (
    Field,
    Fields,
    Ids,
    KernelArray,
    Launches,
    PlannedLaunch,
    Scratch,
    StructValues,
    struct_values,
    tiled,
)
from .structs import declare

declare(
    {
        # The first `passed` steps are not taken.
        "StepsArgs: to_steps from_steps": "source:float[] to:float[]! batch channels steps passed",
        # Gates have so many values for each unit of [steps, batch, units]. States and start hold one step more.
        "recurrent::Extents": "steps batch units",
        # What lies beside the gates is hidden of a GRU, or None, and the cells of an LSTM after the first step. An LSTM
        # starts from its cells, and a GRU has no start. The turn is the number of groups of examples of a block, or the
        # step.
        "recurrent::ForwardArgs: {gru,lstm}_step {gru,lstm}_through_{few,many} rnn_{tanh,relu}_step "
        "rnn_{tanh,relu}_through_few": (
            "gates:float[]! weight:float[] bias:float[]? beside,start:float[]?! states:float[]! "
            "extents:recurrent::Extents turn"
        ),
        # The states or cells before each step are `before`. An LSTM has no dhidden, because its products get the
        # gradients of the gates. Gradients pass the units `passing`. Nothing is carried [batch, units] where a thread
        # keeps it. Without marks all units pass.
        "recurrent::BackwardArgs: {gru,lstm}_back_step {gru,lstm}_back_through_{few,many} rnn_{tanh,relu}_back_step "
        "rnn_{tanh,relu}_back_through_few": (
            "dy:float[] gates:float[]! before,beside,weight:float[] dhidden:float[]?! passing:Ids carried:float[]?! "
            "marks:float[]? extents:recurrent::Extents turn"
        ),
        "mark_units": "listed:Ids marks:float[]! units",
    }
)

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
    def extents(self) -> StructValues:
        return struct_values("recurrent::Extents", steps=self.steps, batch=self.batch, units=self.units)

    @property
    def is_one_launch(self) -> bool:
        return self.units <= _THROUGH

    @property
    def is_empty(self) -> bool:
        return not self.steps * self.batch * self.units


def to_steps(x: KernelArray, y: KernelArray) -> Launches:
    batch, channels, steps = x.shape
    extents = {"batch": batch, "channels": channels, "steps": steps, "passed": 0}
    return [tiled("to_steps", tiles_of(batch, channels, steps), source=x, to=y, **extents)]


def from_steps(y: KernelArray, x: KernelArray) -> Launches:
    batch, channels, steps = x.shape
    extents = {"batch": batch, "channels": channels, "steps": steps, "passed": y.shape[0] - steps}
    return [tiled("from_steps", tiles_of(batch, steps, channels), source=y, to=x, **extents)]


def rnn_forward(
    gates: KernelArray, weight: KernelArray, bias: KernelArray | None, relu: bool, states: KernelArray
) -> Launches:
    return _forward(_Layer.of(_rnn(relu), gates, weight), gates, weight, bias, (None, None), states)


def rnn_backward(
    dy: KernelArray, gates: KernelArray, weight: KernelArray, relu: bool, units: KernelArray | None
) -> Launches:
    arrays = {"dy": dy, "gates": gates, "before": gates, "beside": gates, "weight": weight, "dhidden": None}
    return _backward(_Layer.of(_rnn(relu), gates, weight), arrays, units)


def _rnn(relu: bool) -> str:
    return "rnn_relu" if relu else "rnn_tanh"


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
    arrays = {"dy": dy, "gates": gates, "before": states, "beside": hidden, "weight": weight, "dhidden": dhidden}
    return _backward(_Layer.of("gru", gates, weight), arrays, units)


def lstm_backward(
    dy: KernelArray, gates: KernelArray, cells: KernelArray, weight: KernelArray, units: KernelArray | None
) -> Launches:
    layer = _Layer.of("lstm", gates, weight)
    later = _after_first(cells, layer)
    arrays = {"dy": dy, "gates": gates, "before": cells, "beside": later, "weight": weight, "dhidden": None}
    return _backward(layer, arrays, units)


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
    fields: Fields = {"gates": gates, "bias": bias, "beside": beside[0], "start": beside[1], "states": states}
    if not layer.is_one_launch:
        grid = -(-layer.units // (_SIDE // layer.gates)), -(-layer.batch // _SIDE), 1
        common: Fields = {**fields, "weight": weight, "extents": layer.extents}
        return [tiled(f"{layer.name}_step", grid, **common, turn=step) for step in range(layer.steps)]
    turned = Scratch(0, 4 * weight.size)
    turn = transposed(weight, turned, 1, layer.rows, layer.units)
    return [*turn, _through(layer, "through", weight=turned, **fields)]


def _backward(layer: _Layer, arrays: Mapping[str, KernelArray | None], units: KernelArray | None) -> Launches:
    if layer.is_empty:
        return []
    passing = Ids.of(units, layer.units)
    if layer.is_one_launch:
        return [_through(layer, "back_through", **arrays, passing=passing, carried=None, marks=None)]
    carried = Scratch(0, 4 * layer.batch * layer.units)
    marks = None if units is None else Scratch(carried.size, 4 * layer.units)
    mark = [] if marks is None else [tiled("mark_units", (1, 1, 1), listed=passing, marks=marks, units=layer.units)]
    grid = -(-layer.units // _SIDE), -(-layer.batch // _SIDE), 1
    common: Fields = {**arrays, "passing": passing, "carried": carried, "marks": marks, "extents": layer.extents}
    kernel, steps = f"{layer.name}_back_step", reversed(range(layer.steps))
    return [*mark, *(tiled(kernel, grid, **common, turn=step) for step in steps)]


def _through(layer: _Layer, kernel: str, /, **fields: Field) -> PlannedLaunch:
    """Plan a launch whose blocks take as many groups of examples as there are threads for."""
    many = layer.rows > _FEW
    threads = _MANY if many else _FEW
    groups = min(_GROUPS, threads // layer.rows)
    grid = -(-layer.batch // (groups * _EXAMPLES)), 1, 1
    name = f"{layer.name}_{kernel}_{'many' if many else 'few'}"
    return tiled(name, grid, threads, **fields, extents=layer.extents, turn=groups)


def _after_first(cells: KernelArray, layer: _Layer) -> KernelArray:
    """Return the cells after each step, without the state before the first. An array without steps is not read."""
    return KernelArray(cells.array, cells.offset + 4 * layer.batch * layer.units)
