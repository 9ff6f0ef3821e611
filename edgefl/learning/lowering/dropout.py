"""The lowering of dropout. One kernel is both passes: it computes the random words again, so nothing is saved.

The values that a step drops follow from (key, step, example, node, position). The slot "dropout" has the key of a fit,
the number of its step and the batch's first example. The node is the node's position in the graph. Results pass
unchanged where nothing is trained, and in a search for the strongest coordinates. In StochasticDepth the position is 0,
and the word decides for the whole example.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from edgefl.kernels.arrays import Index
from edgefl.learning.lowering.gradients import ActivationGradients, Gradients
from edgefl.learning.lowering.recorder import Readers, Recorder
from edgefl.learning.lowering.schedule import Slot, Tensor
from edgefl.models.graph import Node
from edgefl.models.graph.operations import AnyDropout, Dropout, Dropout2d, Operation, StochasticDepth

WORD = 1 << 32  # a random word is below this number


def threshold(p: float) -> int:
    """Return the bound of a dropout with probability p. Values whose random word is below the bound are dropped."""
    return min(round(p * WORD), WORD - 1)


def count_step(recorder: Recorder) -> None:
    """Record that a step is over, if any values were dropped in it."""
    if any(isinstance(arg, Slot) and arg.name == "dropout" for call in recorder.calls for arg in call.args):
        recorder.call("count_step", Slot("dropout"))


def _forward(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    x = recorder.source(node)
    if not recorder.scope.drops_at(node):
        return x
    y = x if readers.is_free(node.inputs[0], node) else recorder.result(node)
    _drop(recorder, node, x, y, None)
    return y


def _backward(recorder: Recorder, output_grads: ActivationGradients, node: Node, dy: Tensor) -> Gradients:
    dx, below = dy, node.inputs[0]
    if recorder.scope.drops_at(node):
        dx = output_grads.target(dy)
        _drop(recorder, node, dy, dx, recorder.channels_needed(below))
    output_grads.give(below, dx)
    return {}


def _drop(recorder: Recorder, node: Node, x: Tensor, y: Tensor, channels: Index) -> None:
    assert isinstance(node.op, AnyDropout)
    names = [each.name for each in recorder.scope.graph.nodes]
    is_whole = isinstance(node.op, Dropout2d | StochasticDepth)
    settings = (names.index(node.name), threshold(node.op.p), 1 / (1 - node.op.p), is_whole)
    if isinstance(node.op, StochasticDepth):  # an example is one plane of the kernel
        one = (x.shape[0], 1, 1, math.prod(x.shape[1:]))
        x, y, channels = x.view(*one), y.view(*one), None
    recorder.call("dropout", x, Slot("dropout"), *settings, y, channels)


FORWARD: dict[type[Operation], Callable[[Recorder, Readers, Node], Tensor]] = {
    Dropout: _forward,
    Dropout2d: _forward,
    StochasticDepth: _forward,
}
BACKWARD: dict[type[Operation], Callable[[Recorder, ActivationGradients, Node, Tensor], Gradients]] = {
    Dropout: _backward,
    Dropout2d: _backward,
    StochasticDepth: _backward,
}
