"""The part of its input that a layer with a weight keeps for the gradient of the weight."""

from __future__ import annotations

import numpy as np

from edgefl.learning.lowering.channel_sets import is_empty
from edgefl.learning.lowering.recorder import Readers, Recorder, SavedInput
from edgefl.learning.lowering.schedule import Param, Tensor
from edgefl.models.graph import Node
from edgefl.models.graph.operations import Linear
from edgefl.models.neurons.model_spec import AxisSpec


def weight_and_bias(recorder: Recorder, node: Node, has_bias: bool) -> tuple[Param | Tensor, Param | Tensor | None]:
    return recorder.param(node, "weight"), recorder.param(node, "bias") if has_bias else None


def save_input(recorder: Recorder, readers: Readers, node: Node, x: Tensor) -> None:
    """Keep what the weight gradient reads: the whole input if it stays anyway, or else a copy of its active
    channels.
    """
    scope = recorder.scope
    if not scope.trains:
        return
    ids = scope.active.saved[node.name]
    if is_empty(ids):
        return
    if ids is None or readers.is_saved(node.inputs[0]):
        recorder.inputs[node.name] = SavedInput(x, ids)
        return
    copies = recorder.copies.setdefault(node.inputs[0], [])
    copied = next((copy for copy in copies if copy.ids is not None and np.array_equal(copy.ids, ids)), None)
    if copied is None:
        copied = SavedInput(_take(recorder, node, x), ids)
        copies.append(copied)
    recorder.inputs[node.name] = SavedInput(copied.values, None)


def _take(recorder: Recorder, node: Node, x: Tensor) -> Tensor:
    """Record a compact copy of the active channels of x. Features that come from channels are copied a channel at a
    time.
    """
    scope = recorder.scope
    ids, repeat = scope.active.saved[node.name], 1
    assert ids is not None
    active = recorder.new((scope.batch, ids.size, *x.shape[2:]))
    axis = scope.spec.params[node.full_name(node.op.main)].cols
    if isinstance(node.op, Linear) and isinstance(axis, AxisSpec):
        neurons = scope.active.neurons.get(axis.group)
        if neurons is not None and neurons.size * axis.repeat == ids.size:  # these are all features of the neurons
            ids, repeat = neurons, axis.repeat
    source = x if repeat == 1 else x.view(scope.batch, x.shape[1] // repeat, repeat)
    target = active if repeat == 1 else active.view(scope.batch, active.shape[1] // repeat, repeat)
    recorder.call("take_channels", source, ids, target)
    return active
