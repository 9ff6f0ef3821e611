"""The lowering of a last layer over places together with its loss, a chunk at a time, so that the logits are never held
whole. A chunk is some examples, or some places of one example.

A chunk goes through the layer, and the loss turns its logits into their gradient in place. The gradients of the weight
and of the bias are added to a sum, and the gradient of the features is written. Then the next chunk overwrites the
logits. The layer is a Linear layer at each place, which planes have as a convolution with windows of one
cell. It may share its weight with other nodes, as a language model shares it with its Embedding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from edgefl.learning.losses import CrossEntropy, Loss
from edgefl.learning.lowering.channel_sets import is_empty
from edgefl.learning.lowering.gradient_needs import own_rows
from edgefl.learning.lowering.gradients import Gradients, trained_block
from edgefl.learning.lowering.loss import ends_of, record_places
from edgefl.learning.lowering.quantized_weights import ONE_CELL
from edgefl.learning.lowering.recorder import Recorder, Scope
from edgefl.learning.lowering.saved_inputs import weight_and_bias
from edgefl.learning.lowering.schedule import LOSS, Tensor, TrainedBlock
from edgefl.models.graph import Node
from edgefl.models.graph.operations import Conv2d

LARGE_BYTES = 1 << 20  # of logits in float32: fewer stay in cache, and chunks would gain nothing
PLACES = 512  # places of a chunk at least: with fewer, adding up the gradients of the weight takes longer than it gains
FROZEN_PLACES = 64  # where a frozen weight has no gradients to add up
MOST_BYTES = 1 << 25  # of a chunk's float32 logits where no gradients are added up. Each chunk packs the weight anew


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


class Chunk(NamedTuple):
    """The size of a chunk: examples, and places of each. More than one example have all of their places."""

    examples: int
    places: int


class ChunkPlace(NamedTuple):
    """The examples and places of one chunk: the first ones, and the numbers of them."""

    first: int
    examples: int
    place: int
    places: int


def chunk_of(scope: Scope, nodes: tuple[Node, ...], loss: Loss) -> Chunk | None:
    """Return the size of a chunk of the last layer, or None where the layer is not divided."""
    places = _divisible_places(scope, nodes, loss)
    head = nodes[-1]
    classes = scope.graph.shapes[head.name][0]
    if not places or 4 * scope.batch * classes * places < LARGE_BYTES:
        return None
    is_trained = scope.trains and not is_empty(own_rows(head, scope.active.blocks))
    least = FROZEN_PLACES if scope.trains and not is_trained else PLACES
    least = least if is_trained else max(1, min(least, MOST_BYTES // (4 * classes)))
    if 2 * least > scope.batch * places:
        return None
    if least < places:
        return Chunk(1, least)
    size = -(-least // places)
    return Chunk(size, places) if 2 * size <= scope.batch else None


def _divisible_places(scope: Scope, nodes: tuple[Node, ...], loss: Loss) -> int:
    """Return the number of places of the last layer's result, or 0 if the layer cannot be divided."""
    head = nodes[-1]
    if not isinstance(head.op, Conv2d) or not isinstance(loss, CrossEntropy) or scope.graph.auxiliary:
        return 0
    if len(nodes) < 2 or head.inputs != (nodes[-2].name,) or not _is_plain(scope, head):
        return 0
    windows = {head.op.kernel_size, head.op.stride, head.op.dilation}
    places = math.prod(scope.graph.shapes[head.name][1:])
    if windows != {(1, 1)} or head.op.padding != (0, 0) or head.op.groups != 1 or places == 1:
        return 0
    return places


def _is_plain(scope: Scope, head: Node) -> bool:
    """Return whether the weight lies whole and its gradient is not searched for coordinates."""
    names = {head.full_name(name) for name in head.op.parameters()}
    others = (scope.sparse, scope.active.grown, {each.name for each in scope.graph.computed})
    return not any(name in other for other in others for name in names) and scope.lanes(head.inputs[0]) == 1


def chunked_head(recorder: Recorder, node: Node, of: Loss, size: Chunk, trains: bool) -> ChunkedHead:
    """Record the layer and its loss, a chunk at a time. `trains` says whether gradients are asked for."""
    scope, x = recorder.scope, recorder.read(node.inputs[0], node)
    assert isinstance(node.op, Conv2d) and isinstance(of, CrossEntropy)
    weight, bias = weight_and_bias(recorder, node, node.op.bias)
    found = _blocks(recorder, node) if trains else {}
    has_features = trains and recorder.needed(node.inputs[0])
    parts = FeatureParts(recorder, node, x, size, has_features)
    for number, at in enumerate(_chunks(scope.batch, math.prod(x.shape[2:]), size)):
        recorder.node = node.name
        part = parts.take(at)
        logits = recorder.new((at.examples, node.op.out_channels, *part.shape[2:]))
        recorder.call("conv2d_forward", part, weight, bias, logits, *ONE_CELL)
        recorder.node = LOSS
        flat = logits.view(at.examples, node.op.out_channels, at.places)
        record_places(recorder, of, flat, ends_of(flat if trains else None), at.first, at.place)
        recorder.node = node.name
        _add_parameters(recorder, node, (part, logits), found, number)
        if has_features:
            below = recorder.like(part)
            needed = recorder.channels_needed(node.name), recorder.channels_needed(node.inputs[0])
            recorder.call("conv2d_grad_input", logits, weight, below, *ONE_CELL, *needed)
            parts.put(below, at)
    return ChunkedHead(node.name, dict(found), parts.gradient() if has_features else None)


def _chunks(batch: int, places: int, size: Chunk) -> Iterator[ChunkPlace]:
    """Yield the chunks of a batch in their order."""
    for first in range(0, batch, size.examples):
        for place in range(0, places, size.places):
            yield ChunkPlace(first, min(size.examples, batch - first), place, min(size.places, places - place))


class FeatureParts:
    """The inputs of a divided layer and their gradient, a chunk at a time.

    Where an example is divided, both lie with the places of all examples one after another, [places, channels].
    """

    def __init__(self, recorder: Recorder, node: Node, x: Tensor, size: Chunk, has_gradient: bool) -> None:
        self._recorder, self._x, self._places = recorder, x, math.prod(x.shape[2:])
        self._is_by_place = size.places < self._places
        recorder.node = node.name
        self._held = self._turned(x) if self._is_by_place else x
        self._gradient = recorder.like(self._held) if has_gradient else None

    def take(self, at: ChunkPlace) -> Tensor:
        """Record the copy of a chunk, [examples, channels, *extents]."""
        channels = self._x.shape[1]
        if not self._is_by_place:
            part = self._recorder.new((at.examples, *self._x.shape[1:]))
            self._recorder.call("get_channels", _rows(self._held), at.first, _rows(part))
            return part
        rows, part = self._recorder.new((at.places, channels)), self._recorder.new((1, channels, 1, at.places))
        self._recorder.call("get_channels", _rows(self._held), self._row(at), _rows(rows))
        self._recorder.call("transpose", rows.view(1, *rows.shape), part.view(1, channels, at.places))
        return part

    def put(self, below: Tensor, at: ChunkPlace) -> None:
        """Record that the gradient of a chunk joins the gradient of all."""
        assert self._gradient is not None
        if not self._is_by_place:
            self._recorder.call("put_channels", _rows(below), at.first, _rows(self._gradient))
            return
        channels = self._x.shape[1]
        rows = self._recorder.new((at.places, channels))
        self._recorder.call("transpose", below.view(1, channels, at.places), rows.view(1, *rows.shape))
        self._recorder.call("put_channels", _rows(rows), self._row(at), _rows(self._gradient))

    def gradient(self) -> Tensor:
        """Return the gradient of the layer's inputs, in their shape."""
        assert self._gradient is not None
        if not self._is_by_place:
            return self._gradient
        batch, channels = self._x.shape[:2]
        found = self._recorder.like(self._x)
        turned = self._gradient.view(batch, self._places, channels)
        self._recorder.call("transpose", turned, found.view(batch, channels, self._places))
        return found

    def _turned(self, x: Tensor) -> Tensor:
        batch, channels = x.shape[:2]
        found = self._recorder.new((batch * self._places, channels))
        turned = found.view(batch, self._places, channels)
        self._recorder.call("transpose", x.view(batch, channels, self._places), turned)
        return found

    def _row(self, at: ChunkPlace) -> int:
        return at.first * self._places + at.place


def _rows(x: Tensor) -> Tensor:
    """Return the rows as channels of one plane, of which kernels take and put parts."""
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
    recorder: Recorder, node: Node, ends: tuple[Tensor, Tensor], found: dict[str, TrainedBlock], number: int
) -> None:
    """Record the gradients of the parameters in a chunk. Gradients of later chunks are added to a sum."""
    part, dlogits = ends
    assert isinstance(node.op, Conv2d)
    for full, block in found.items():
        values = block.values if number == 0 else recorder.like(block.values)
        if full == node.full_name("bias"):
            recorder.call("channel_sum", dlogits.channels, values, block.rows)
        else:
            columns = recorder.scope.active.saved[node.name], node.op.in_channels
            recorder.call("conv2d_grad_weight", part, dlogits, values, *ONE_CELL, block.rows, *columns)
        if number:
            recorder.call("add", block.values, values, block.values)
