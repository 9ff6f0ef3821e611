"""The lowering of RNN, GRU and LSTM, both passes: Linear layers over all steps at once, and the recurrence between.

A sequence is turned into steps, [T, B, features]. The products with the input's weight, and the gradients of both
weights, are then products of a Linear layer for T B examples. Saved for the backward pass are the steps of the input
(active features, or the whole), the gates and the states. A GRU also saves the hidden part of n, and an LSTM its cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from edgefl.learning.lowering.channel_sets import count, is_empty
from edgefl.learning.lowering.gradient_needs import own_rows
from edgefl.learning.lowering.gradients import ActivationGradients, DeferredWeightGradient, Gradients, trained_block
from edgefl.learning.lowering.recorder import Readers, Recorder, SavedInput
from edgefl.learning.lowering.schedule import Index, Param, Tensor
from edgefl.models.graph import Node
from edgefl.models.graph.operations import GRU, LSTM, RNN, Operation, Recurrent


def _forward(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    op, y = node.op, recorder.result(node)
    assert isinstance(op, Recurrent)
    batch, steps, units = y.shape[0], y.shape[-1], op.hidden_size
    x = _to_steps(recorder, recorder.source(node))
    gates, states = recorder.new((steps, batch, op.gates * units)), recorder.new((steps + 1, batch, units))
    recorder.call("linear_forward", _rows(x), *_parameters(recorder, node, "ih"), _rows(gates))
    beside = op.relu if isinstance(op, RNN) else _beside(recorder, node, states)
    recorder.call(f"{op.title.lower()}_forward", gates, *_parameters(recorder, node, "hh"), beside, states)
    _from_steps(recorder, states, y)
    if recorder.needed(node.name):
        recorder.extras |= {(node.name, "gates"): gates, (node.name, "states"): states}
        _save_input(recorder, node, _rows(x))
    return y


def _beside(recorder: Recorder, node: Node, states: Tensor) -> Tensor | None:
    """Return the buffer of what the recurrence writes besides gates and states, if any.

    An LSTM writes its cells. A GRU writes the hidden part of n, which only its backward pass reads.
    """
    needed, (after_all, batch, units) = recorder.needed(node.name), states.shape
    if isinstance(node.op, GRU) and not needed:
        return None
    beside = recorder.new((after_all - isinstance(node.op, GRU), batch, units))
    if needed:
        recorder.extras[node.name, "beside"] = beside
    return beside


def _save_input(recorder: Recorder, node: Node, x: Tensor) -> None:
    ids = recorder.scope.active.saved[node.name]
    if is_empty(ids):
        return
    if ids is None or not recorder.scope.copies:
        recorder.inputs[node.name] = SavedInput(x, ids)
        return
    active = recorder.new((x.shape[0], ids.size))
    recorder.call("take_channels", x, ids, active)
    recorder.inputs[node.name] = SavedInput(active, None)


def _backward(recorder: Recorder, output_grads: ActivationGradients, node: Node, dy: Tensor) -> Gradients:
    gates, states = (recorder.extras[node.name, what] for what in ("gates", "states"))
    steps, weight = _to_steps(recorder, dy), recorder.param(node, "weight_hh_l0")
    passing = recorder.channels_needed(node.name)  # only a cut gradient leaves out units
    dhidden = gates
    if isinstance(node.op, RNN):
        recorder.call("rnn_backward", steps, gates, weight, node.op.relu, passing)
    elif isinstance(node.op, GRU):
        dhidden, beside = recorder.like(gates), recorder.extras[node.name, "beside"]
        recorder.call("gru_backward", steps, gates, beside, states, weight, dhidden, passing)
    else:
        recorder.call("lstm_backward", steps, gates, recorder.extras[node.name, "beside"], weight, passing)
    gradients = _parameter_gradients(recorder, node, _rows(gates), _rows(dhidden), states)
    below = node.inputs[0]
    if recorder.needed(below):
        dx = recorder.like(recorder.read(below, node))
        _input_gradient(recorder, node, _rows(gates), dx)
        output_grads.give(below, dx)
    return gradients


def _parameter_gradients(recorder: Recorder, node: Node, dinput: Tensor, dhidden: Tensor, states: Tensor) -> Gradients:
    assert isinstance(node.op, Recurrent)
    blocks, gradients = recorder.scope.active.blocks, Gradients()
    if is_empty(own_rows(node, blocks)):
        return gradients
    before = states.view(dhidden.shape[0], states.shape[2])  # the state before each step: all states but the last
    if node.name in recorder.inputs:
        gradients |= _weight(recorder, node, "weight_ih_l0", *recorder.inputs[node.name], dinput)
    if node.full_name("weight_hh_l0") in blocks:
        units = blocks[node.full_name("weight_hh_l0")][1]
        gradients |= _weight(recorder, node, "weight_hh_l0", before, units, dhidden)
    for name, dy in (("bias_ih_l0", dinput), ("bias_hh_l0", dhidden)):
        if node.full_name(name) not in blocks:
            continue
        bias = trained_block(recorder, node, name)
        recorder.call("channel_sum", dy, bias.values, bias.rows)
        gradients[node.full_name(name)] = bias
    return gradients


def _weight(recorder: Recorder, node: Node, name: str, x: Tensor, ids: Index, dy: Tensor) -> Gradients:
    full = node.full_name(name)
    if recorder.scope.defers(full):
        return {full: DeferredWeightGradient(*recorder.scope.active.blocks[full], x, ids, dy)}
    dw = trained_block(recorder, node, name)
    recorder.call("linear_grad_weight", x, dy, dw.values, dw.rows, ids)
    return {full: dw}


def _input_gradient(recorder: Recorder, node: Node, dinput: Tensor, dx: Tensor) -> None:
    batch, features, steps = dx.shape[0], dx.shape[1], dx.shape[-1]
    ins = recorder.channels_needed(node.inputs[0])
    ins = ins if count(ins, features) < features / 2 else None  # with more, all take no longer
    turned = recorder.new((steps, batch, features))
    recorder.call("linear_grad_input", dinput, recorder.param(node, "weight_ih_l0"), _rows(turned), None, ins)
    _from_steps(recorder, turned, dx)


def _parameters(recorder: Recorder, node: Node, of: str) -> tuple[Param | Tensor, Param | Tensor | None]:
    assert isinstance(node.op, Recurrent)
    bias = recorder.param(node, f"bias_{of}_l0") if node.op.bias else None
    return recorder.param(node, f"weight_{of}_l0"), bias


def _to_steps(recorder: Recorder, sequence: Tensor) -> Tensor:
    batch, features, steps = sequence.shape[0], sequence.shape[1], sequence.shape[-1]
    turned = recorder.new((steps, batch, features))
    recorder.call("to_steps", sequence.view(batch, features, steps), turned)
    return turned


def _from_steps(recorder: Recorder, steps: Tensor, sequence: Tensor) -> None:
    recorder.call("from_steps", steps, sequence.view(*sequence.shape[:2], sequence.shape[-1]))


def _rows(steps: Tensor) -> Tensor:
    """Return [T, B, features] as T B examples."""
    return steps.view(math.prod(steps.shape[:2]), steps.shape[2])


FORWARD: dict[type[Operation], Callable[[Recorder, Readers, Node], Tensor]] = {
    RNN: _forward,
    GRU: _forward,
    LSTM: _forward,
}
BACKWARD: dict[type[Operation], Callable[[Recorder, ActivationGradients, Node, Tensor], Gradients]] = {
    RNN: _backward,
    GRU: _backward,
    LSTM: _backward,
}
