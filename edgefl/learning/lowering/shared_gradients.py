"""The gradients of parameters that several nodes use, or from which other parameters are computed: sums over all uses.

A sum is complete when the first of the nodes has run its backward pass, which is the last one to do so. Until then no
step may move the parameter, because the backward passes of the other nodes still read it. The complete gradient of a
computed parameter is a use of its sources.
"""

from __future__ import annotations

from collections.abc import Iterable

from edgefl.learning.lowering import computed
from edgefl.learning.lowering.gradients import Gradients
from edgefl.learning.lowering.recorder import Recorder
from edgefl.learning.lowering.schedule import TrainedBlock
from edgefl.models.graph import Node


class SharedGradients:
    """The sums so far, and the uses of each parameter that have not passed yet."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder, graph = recorder, recorder.scope.graph
        self._waiting = {name: set(users) for name, users in graph.collected.items()}
        self._computed = {each.name: each for each in graph.computed}
        self._sums: dict[str, TrainedBlock] = {}

    def completed(self, node: Node, gradients: Gradients) -> Gradients:
        """Return the gradients that are complete after the backward pass of a node, which has found `gradients`."""
        complete: Gradients = {}
        for name, block in gradients.items():
            if name not in self._waiting:
                complete[name] = block
                continue
            assert isinstance(block, TrainedBlock)
            self._add(name, block)
        owner = computed.layer_of_node(node)
        return complete | self._passed(owner.name, (owner.full_name(part) for part in owner.op.parameters()))

    def _passed(self, user: str, names: Iterable[str]) -> Gradients:
        """Return the gradients that are complete because a user of these parameters has passed."""
        complete: Gradients = {}
        for name in names:
            if user not in self._waiting.get(name, ()):
                continue
            self._waiting[name].remove(user)
            if self._waiting[name]:
                continue
            block = self._sums.pop(name, None)
            each = self._computed.get(name)
            if each is None:
                complete |= {} if block is None else {name: block}
                continue
            for source, gradient in computed.backward(self._recorder, each, block.values) if block else ():
                self._add(source, TrainedBlock(None, None, gradient))
            complete |= self._passed(name, each.sources)
        return complete

    def _add(self, name: str, block: TrainedBlock) -> None:
        held = self._sums.get(name)
        if held is None:
            self._sums[name] = block
            return
        self._recorder.call("add", held.values, block.values.view(*held.values.shape), held.values)
