"""The gradients that the backward pass hands on: of results from node to node, and of parameters to the update."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from edgefl.learning.lowering.channel_sets import NONE, count, is_empty
from edgefl.learning.lowering.gradient_needs import own_rows
from edgefl.learning.lowering.recorder import Recorder
from edgefl.learning.lowering.schedule import Index, Tensor, TrainedBlock
from edgefl.models.graph import Node
from edgefl.models.graph.operations import BatchNorm, Shape


class DeferredWeightGradient(NamedTuple):
    """A Linear layer's weight gradient that is not stored: the update multiplies dy by x[:, ids]."""

    rows: Index
    cols: Index
    x: Tensor
    ids: Index
    dy: Tensor


Gradients = dict[str, TrainedBlock | DeferredWeightGradient]  # parameter -> its trained block


@dataclass
class ActivationGradients:
    """The gradients of results that are complete, or still being summed. Two results may share one buffer."""

    recorder: Recorder
    _held: dict[str, Tensor] = field(default_factory=dict)
    _holders: Counter[int] = field(default_factory=Counter)

    def give(self, name: str, output_grad: Tensor) -> None:
        """Add `output_grad` to the gradient of a result, if that gradient is needed. It gets the layout of
        the result.
        """
        if not self.recorder.needed(name):
            return
        output_grad = self.recorder.laid(output_grad, self.recorder.values[name].lanes)
        held = self._held.get(name)
        if held is not None:
            output_grad = self._sum(held, output_grad)
            self._holders[held.buffer] -= 1
        self._held[name] = output_grad
        self._holders[output_grad.buffer] += 1

    def share(self, names: tuple[str, ...], output_grad: Tensor) -> None:
        """Add `output_grad` to the gradient of each of these results.

        Only the addition to the last result may overwrite `output_grad`.
        """
        self._holders[output_grad.buffer] += 1
        for name in names[:-1]:
            self.give(name, output_grad)
        self._holders[output_grad.buffer] -= 1
        self.give(names[-1], output_grad)

    def take(self, name: str) -> Tensor | None:
        """Remove and return the gradient of a result, or None if nothing that is computed depends on the result."""
        output_grad = self._held.pop(name, None)
        if output_grad is not None:
            self._holders[output_grad.buffer] -= 1
        return output_grad

    def target(self, output_grad: Tensor) -> Tensor:
        """Return the buffer for a new gradient of the same shape.

        This is the buffer of `output_grad`, or a new buffer if other results hold that one.
        """
        return self.recorder.like(output_grad) if self._holders[output_grad.buffer] else output_grad

    def _sum(self, held: Tensor, output_grad: Tensor) -> Tensor:
        target = held if self._holders[held.buffer] == 1 else self.target(output_grad)
        self.recorder.call("add", held, output_grad, target)
        return target


def trained_block(recorder: Recorder, node: Node, name: str) -> TrainedBlock:
    """Return the trained block of a parameter, with a new buffer for its gradient."""
    param = recorder.param(node, name)
    blocks = recorder.scope.active.blocks
    rows, cols = blocks.get(node.full_name(name), (own_rows(node, blocks), NONE))  # a norm's call writes both gradients
    shape = (count(rows, param.shape[0]), *param.shape[1:])
    if len(shape) > 1:
        shape = (shape[0], count(cols, shape[1]), *shape[2:])
    return TrainedBlock(rows, cols, recorder.new(shape))


def trained_part(
    recorder: Recorder, name: str, block: TrainedBlock | DeferredWeightGradient
) -> TrainedBlock | DeferredWeightGradient:
    """Return what is trained of a parameter's block, taken out of the gradient if it is not the whole block."""
    part = recorder.scope.active.taken.get(name)
    if part is None:
        return block
    assert isinstance(block, TrainedBlock)
    shape, within = block.values.shape, part.within
    if part.flat is not None:
        values = recorder.new((part.flat.size,))
        recorder.call("take_flat", block.values.view(math.prod(shape)), within, values)
        return TrainedBlock(None, None, values, flat=part.flat)
    rows, cols = within
    sizes = (count(rows, shape[0]), *((count(cols, shape[1]), *shape[2:]) if len(shape) > 1 else ()))
    values = recorder.new(sizes)
    recorder.call(
        "take_axes", block.values.view(*rows_cols_inner(shape)), rows, cols, values.view(*rows_cols_inner(sizes))
    )
    return TrainedBlock(part.rows, part.cols, values)


def rows_cols_inner(shape: Shape) -> tuple[int, int, int]:
    """Return the shape of a parameter or of a block as kernels take it: [rows, cols, inner]."""
    return (shape[0], shape[1] if len(shape) > 1 else 1, math.prod(shape[2:]))


def bias(recorder: Recorder, node: Node, dy: Tensor, has_bias: bool) -> Gradients:
    blocks = recorder.scope.active.blocks
    if not has_bias or node.full_name("bias") not in blocks or is_empty(own_rows(node, blocks)):
        return {}
    db = trained_block(recorder, node, "bias")
    if _is_centred(recorder, node):
        recorder.call("fill_zero", db.values)
    else:
        recorder.call("channel_sum", dy.channels, db.values, db.rows)
    return {node.full_name("bias"): db}


def _is_centred(recorder: Recorder, node: Node) -> bool:
    """Return whether only batch norm with batch statistics reads the result.

    Such a batch norm subtracts the mean, so the gradient sums to 0 per channel.
    """
    graph = recorder.scope.graph
    readers = [other for other in graph.nodes if node.name in other.inputs]
    is_output = any(each.result == node.name for each in graph.auxiliary)
    return (
        bool(readers)
        and not is_output
        and all(isinstance(reader.op, BatchNorm) and not graph.keeps_statistics(reader) for reader in readers)
    )
