"""The lowering of a last layer over places together with its loss, some examples at a time, so that the logits are
never held whole.

A chunk of examples goes through the layer, and the loss turns its logits into their gradient in place. The gradients of
the weight and of the bias are added to a sum, and the gradient of the features is written. Then the next chunk
overwrites the logits. The layer is a Linear layer at each place, which planes have as a convolution with windows of one
cell. It may share its weight with other nodes, as a language model shares it with its Embedding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from edgefl.learning.losses import CrossEntropy, Loss
from edgefl.learning.lowering.channel_sets import is_empty
from edgefl.learning.lowering.gradient_needs import own_rows
from edgefl.learning.lowering.gradients import Gradients, trained_block
from edgefl.learning.lowering.loss import ends_of, record_places
from edgefl.learning.lowering.recorder import Recorder, Scope
from edgefl.learning.lowering.saved_inputs import weight_and_bias
from edgefl.learning.lowering.schedule import LOSS, Tensor, TrainedBlock
from edgefl.learning.lowering.turned_weight import CELLS
from edgefl.models.graph import Node
from edgefl.models.graph.operations import Conv2d

LARGE_BYTES = 1 << 20  # of logits in float32: fewer stay in cache, and chunks would gain nothing
PLACES = 512  # places of a chunk at least: with fewer, adding up the gradients of the weight takes longer than it gains
FROZEN_PLACES = 64  # where a frozen weight has no gradients to add up


@dataclass(frozen=True)
class ChunkedHead:
    """The gradients that the chunks have left.

    name       name of the head's node
    gradients  gradients of its parameters
    features   gradient of its input, or None where nothing below is trained
    """

    name: str
    gradients: Gradients
    features: Tensor | None


def examples_at_once(scope: Scope, nodes: tuple[Node, ...], loss: Loss) -> int:
    """Return the number of examples in a chunk of the last layer, or 0 where the layer is not divided."""
    head = nodes[-1]
    if not isinstance(head.op, Conv2d) or not isinstance(loss, CrossEntropy) or scope.graph.auxiliary:
        return 0
    if len(nodes) < 2 or head.inputs != (nodes[-2].name,) or not _is_plain(scope, head):
        return 0
    windows = {head.op.kernel_size, head.op.stride, head.op.dilation}
    classes, *extents = scope.graph.shapes[head.name]
    places = math.prod(extents)
    if windows != {(1, 1)} or head.op.padding != (0, 0) or head.op.groups != 1 or places == 1:
        return 0
    is_trained = not is_empty(own_rows(head, scope.active.blocks))
    size = -(-(PLACES if is_trained or not scope.trains else FROZEN_PLACES) // places)
    return size if 2 * size <= scope.batch and 4 * scope.batch * classes * places >= LARGE_BYTES else 0


def _is_plain(scope: Scope, head: Node) -> bool:
    """Return whether the weight lies whole and its gradient is not searched for coordinates."""
    names = {head.full_name(name) for name in head.op.parameters()}
    others = (scope.sparse, scope.active.grown, {each.name for each in scope.graph.computed})
    return not any(name in other for other in others for name in names) and scope.lanes(head.inputs[0]) == 1


def chunked_head(recorder: Recorder, node: Node, of: Loss, size: int, trains: bool) -> ChunkedHead:
    """Record the layer and its loss, `size` examples at a time. `trains` says whether gradients are asked for."""
    scope, x = recorder.scope, recorder.read(node.inputs[0], node)
    assert isinstance(node.op, Conv2d) and isinstance(of, CrossEntropy)
    weight, bias = weight_and_bias(recorder, node, node.op.bias)
    found = _blocks(recorder, node) if trains else {}
    features = recorder.like(x) if trains and recorder.needed(node.inputs[0]) else None
    classes, *extents = scope.graph.shapes[node.name]
    for first in range(0, scope.batch, size):
        count = min(size, scope.batch - first)
        recorder.node = node.name
        part = recorder.new((count, *x.shape[1:]))
        recorder.call("get_channels", _examples(x), first, _examples(part))
        logits = recorder.new((count, classes, *extents))
        recorder.call("conv2d_forward", part, weight, bias, logits, *CELLS)
        recorder.node = LOSS
        flat = logits.view(count, classes, math.prod(extents))
        record_places(recorder, of, flat, ends_of(flat if trains else None), first)
        recorder.node = node.name
        _add_parameters(recorder, node, (part, logits), found, first)
        if features is not None:
            below = recorder.like(part)
            needed = recorder.channels_needed(node.name), recorder.channels_needed(node.inputs[0])
            recorder.call("conv2d_grad_input", logits, weight, below, *CELLS, *needed)
            recorder.call("put_channels", _examples(below), first, _examples(features))
    return ChunkedHead(node.name, dict(found), features)


def _examples(x: Tensor) -> Tensor:
    """Return the examples as channels of one plane, of which kernels take and put parts."""
    return x.view(1, x.shape[0], math.prod(x.shape[1:]))


def _blocks(recorder: Recorder, node: Node) -> dict[str, TrainedBlock]:
    """Return the trained blocks of the layer's parameters, with buffers for their gradients."""
    blocks, found = recorder.scope.active.blocks, dict[str, TrainedBlock]()
    for name in node.op.parameters():
        full = node.full_name(name)
        reads = name == "bias" or not is_empty(recorder.scope.active.saved[node.name])
        if full in blocks and reads and not is_empty(own_rows(node, blocks)):
            found[full] = trained_block(recorder, node, name)
    return found


def _add_parameters(
    recorder: Recorder, node: Node, ends: tuple[Tensor, Tensor], found: dict[str, TrainedBlock], first: int
) -> None:
    """Record the gradients of the parameters in a chunk. Gradients of later chunks are added to a sum."""
    part, dlogits = ends
    assert isinstance(node.op, Conv2d)
    for full, block in found.items():
        values = block.values if first == 0 else recorder.like(block.values)
        if full == node.full_name("bias"):
            recorder.call("channel_sum", dlogits.channels, values, block.rows)
        else:
            columns = recorder.scope.active.saved[node.name], node.op.in_channels
            recorder.call("conv2d_grad_weight", part, dlogits, values, *CELLS, block.rows, *columns)
        if first:
            recorder.call("add", block.values, values, block.values)
