"""ONNX's RNN, LSTM and GRU. ONNX has the gates in another order than torch: i o f c of an LSTM, and z r h of a GRU."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from edgefl.errors import GraphError
from edgefl.models.graph.operations import GRU, LSTM, RNN, Recurrent, Slice
from edgefl.models.onnx.axis_atoms import BATCH, OnnxResult, laid
from edgefl.models.onnx.onnx_call import Constant, OnnxCall, parameter

ORDERS: dict[type[Recurrent], tuple[int, ...]] = {RNN: (0,), GRU: (1, 0, 2), LSTM: (0, 2, 3, 1)}
"""For each of torch's gates in torch's order, the position of ONNX's gate, by operation."""
ACTIVATIONS = {RNN: ["Tanh"], GRU: ["Sigmoid", "Tanh"], LSTM: ["Sigmoid", "Tanh", "Tanh"]}


def lstm(call: OnnxCall) -> tuple[OnnxResult, ...]:
    call.expect("input_forget", call.attribute("input_forget", 0), 0)
    if call.has(7) and _first_values(call.constant(7).array).any():
        raise GraphError("peephole weights; expected an LSTM without them")
    return _recurrent(call, LSTM)


def gru(call: OnnxCall) -> tuple[OnnxResult, ...]:
    call.expect("linear_before_reset", call.attribute("linear_before_reset", 0), 1)
    return _recurrent(call, GRU)


def rnn(call: OnnxCall) -> tuple[OnnxResult, ...]:
    return _recurrent(call, RNN)


def _recurrent(call: OnnxCall, kind: type[Recurrent]) -> tuple[OnnxResult, ...]:
    value, hidden = call.value(), call.attribute("hidden_size", 0)
    _check(call, kind)
    if value.rank != 3 or value.axes[1] != (BATCH,) or hidden < 1:
        raise GraphError(f"input {value}, hidden_size={hidden}; expected [steps, batch, features]")
    steps, _, features = value.extents
    constants = {"weight_ih_l0": call.constant(1), "weight_hh_l0": call.constant(2)}
    op = RNN(features, hidden, call.has(3), _is_rectified(call)) if kind is RNN else kind(features, hidden, call.has(3))
    if call.has(3):
        bias = call.constant(3)
        halves = parameter(bias, (2, op.gates * hidden))
        constants |= {"bias_ih_l0": Constant(halves[0], bias.origin), "bias_hh_l0": Constant(halves[1], bias.origin)}
    call.budget.spend(sum(constant.array.size for constant in constants.values()))
    values = {part: _gates(constants[part], info.shape, op) for part, info in op.parameters().items()}
    origins = {part: _origin(constants[part], part) for part in values}
    name = call.assembly.placed(value, [value.axes[2], value.axes[0]])
    added = call.assembly.add(op, (name,), values, origins)
    whole = laid(added, (hidden, steps), [(3, hidden), (0, steps)], 4, value.batch, 2)
    if len(call.node.outputs) < 2 or not call.uses.get(call.node.outputs[1]):
        return (whole,)
    end = call.assembly.add(Slice(steps - 1, 1), (added,)) if steps > 1 else added
    return whole, laid(end, call.assembly.shape(end), [(2, hidden)], 3, value.batch, 1)


def _is_rectified(call: OnnxCall) -> bool:
    return bool(call.node.attributes.get("activations") == ["Relu"])


def _check(call: OnnxCall, kind: type[Recurrent]) -> None:
    call.expect("direction", call.attribute("direction", "forward"), "forward")
    call.expect("layout", call.attribute("layout", 0), 0)
    call.expect("clip", call.node.attributes.get("clip"), None)
    given = call.node.attributes.get("activations")
    if not (kind is RNN and _is_rectified(call)):
        call.expect("activations", given, None, ACTIVATIONS[kind])
    if call.has(4) and not isinstance(call.inputs[4], Constant):
        raise GraphError("sequence_lens that follow from the input; expected sequences of one length")
    for at in (5, 6) if kind is LSTM else (5,):
        given = call.inputs[at] if call.has(at) else None
        if given is not None and not (isinstance(given, Constant) and not _first_values(given.array).any()):
            raise GraphError("an initial state that is not 0; expected zeros")


def _first_values(array: np.ndarray) -> np.ndarray:
    """Return one of the values that are repeated along an axis, and all other values."""
    return array[tuple(slice(0, 1) if step == 0 else slice(None) for step in array.strides)]


def _gates(constant: Constant, shape: tuple[int, ...], op: Recurrent) -> np.ndarray:
    parts = np.split(parameter(constant, shape), op.gates)
    return np.concatenate([parts[position] for position in ORDERS[type(op)]])


def _origin(constant: Constant, part: str) -> str:
    """Return the name of a parameter, from the name of the constant that holds it, such as "rnn:weight_ih_l0"."""
    owner, _, last = constant.lineage.replace(":", ".").rpartition(".")
    return f"{owner}.{part}" if owner and (last == part or last.startswith("bias")) else ""


SEQUENCES: dict[str, Callable[[OnnxCall], tuple[OnnxResult, ...]]] = {"LSTM": lstm, "GRU": gru, "RNN": rnn}
"""The meanings of operators on sequences, by name."""
