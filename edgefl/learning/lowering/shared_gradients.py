"""The gradients of shared parameters: the sum over all nodes that use a parameter.

The sum is complete when the first of these nodes has run its backward pass, which is the last one to do so. Until then
no step may move the parameter, because the backward passes of the other nodes still read it.
"""

from __future__ import annotations

from edgefl.learning.lowering.fusion import FusedNormReLU
from edgefl.learning.lowering.gradients import Gradients
from edgefl.learning.lowering.recorder import Recorder
from edgefl.learning.lowering.schedule import TrainedBlock
from edgefl.models.graph import Node


class SharedGradients:
    """The sums so far of the gradients of shared parameters."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._last = {name: users[0] for name, users in recorder.scope.graph.shared.items()}
        self._sums: dict[str, TrainedBlock] = {}

    def completed(self, node: Node, gradients: Gradients) -> Gradients:
        """Return the gradients that are complete after the backward pass of a node, which has found `gradients`."""
        complete: Gradients = {}
        for name, block in gradients.items():
            if name not in self._last:
                complete[name] = block
                continue
            assert isinstance(block, TrainedBlock)
            self._add(name, block)
        owner = node.op.norm.name if isinstance(node.op, FusedNormReLU) else node.name
        done = [name for name in self._sums if self._last[name] == owner]
        return complete | {name: self._sums.pop(name) for name in done}

    def _add(self, name: str, block: TrainedBlock) -> None:
        held = self._sums.get(name)
        if held is None:
            self._sums[name] = block
            return
        self._recorder.call("add", held.values, block.values.view(*held.values.shape), held.values)
