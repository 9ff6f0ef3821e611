"""The recomputation of parts of the forward pass, so that their values need not wait for the backward pass.

A MemoryPlan names results of the graph, the checkpoints. They divide the nodes into segments. The values of a segment
are freed as the forward pass leaves it, and before the segment's backward pass its calls are made again. What comes
after the last checkpoint is not computed again. Results that are read across a checkpoint stay in memory.

The calls and their inputs are the same both times, so every gradient has the same bits as without a plan. Calls that
nothing reads are left out afterwards. Running statistics change the first time alone.
Source  Chen et al., "Training Deep Nets with Sublinear Memory Cost" (2016)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from edgefl.kernels.table import TABLE
from edgefl.learning.lowering.forward import forward_nodes
from edgefl.learning.lowering.recorder import Readers, Recorder
from edgefl.learning.lowering.schedule import KernelCall, Tensor
from edgefl.models.graph import INPUT, Node


@dataclass(frozen=True)
class MemoryPlan:
    """The parts of a training pass that are computed again.

    checkpoints  names of results in the order of the graph, after each of which a segment ends
    splits       names of results within segments. What lies before such a result in its segment is computed a third
                 time, when the backward pass of what follows in the segment is over
    """

    checkpoints: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()


NO_PLAN = MemoryPlan()  # nothing is computed again
PLANNED = ("train", "gradient")  # modes of lower.py whose passes follow a plan


class Segment(NamedTuple):
    """The nodes of a segment, and of each part of it that is computed a third time."""

    nodes: tuple[Node, ...]
    parts: tuple[tuple[Node, ...], ...]


def segments(nodes: tuple[Node, ...], plan: MemoryPlan) -> list[Segment]:
    """Return the segments that are computed again, in the order of the nodes."""
    found, parts, start = list[Segment](), list[tuple[Node, ...]](), 0
    for number, node in enumerate(nodes, 1):
        if node.name in plan.checkpoints:
            found.append(Segment(nodes[start:number], tuple(parts)))
            parts, start = [], number
        elif node.name in plan.splits:
            parts.append(nodes[start + sum(map(len, parts)) : number])
    return found


def kept_results(nodes: tuple[Node, ...], body: tuple[Node, ...], plan: MemoryPlan) -> frozenset[str]:
    """Return the results that are read across a checkpoint or a split. `body` is all nodes, or all but a last one."""
    kept: set[str] = set()
    made, last = {INPUT}, {name: number for number, node in enumerate(nodes) for name in node.inputs}
    for number, node in enumerate(body):
        made.add(node.name)
        if node.name in plan.checkpoints or node.name in plan.splits:
            kept |= {name for name in made if last.get(name, -1) > number}
            kept.add(node.name)
    return frozenset(kept | ({INPUT} if plan.checkpoints else set()))


class Replays:
    """The segments whose calls have still to be made again in a backward pass."""

    def __init__(self, recorder: Recorder, readers: Readers, parts: Iterable[Segment], across: frozenset[str]) -> None:
        """Prepare the segments `parts`. `across` names the results that are read across a checkpoint."""
        self._recorder, self._readers, self._across = recorder, readers, across
        self._waiting = {part.nodes[-1].name: part for part in parts}
        self._splits: dict[str, tuple[Node, ...]] = {}

    def before(self, node: Node) -> None:
        """Record the calls of the segment, or of the part of a segment, that ends with this node, if any."""
        if segment := self._waiting.pop(node.name, None):
            self._replay(segment.nodes, self._across)
            self._splits |= {part[-1].name: part for part in segment.parts}
        elif part := self._splits.pop(node.name, None):
            self._replay(part, self._recorder.scope.kept)

    def _replay(self, part: tuple[Node, ...], stay: frozenset[str]) -> None:
        recorder = self._recorder
        kept = {name: recorder.values[name] for name in stay if name in recorder.values}
        for name in {name for node in part for name in node.inputs}:
            recorder.copies.pop(name, None)
            recorder.extras.pop((name, "turned"), None)
        recorder.repeats = True
        for _ in forward_nodes(recorder, part, self._readers):
            recorder.values |= kept
        recorder.repeats = False


def without_unread(recorder: Recorder) -> Recorder:
    """Return the pass without the calls whose results nothing reads."""
    live = {which for which in range(len(recorder.buffers())) if recorder.is_kept(which)}
    wanted = []
    for call in reversed(recorder.calls):
        written = list(_written(call))
        is_wanted = not written or any(not isinstance(arg, Tensor) or arg.buffer in live for arg in written)
        if is_wanted:
            live |= {arg.buffer for arg in call.args if isinstance(arg, Tensor)}
        wanted.append(is_wanted)
    again = recorder.again()
    for call, is_wanted in zip(recorder.calls, reversed(wanted), strict=True):
        if is_wanted:
            again.node = call.node
            again.call(call.op, *call.args)
    return again


def _written(call: KernelCall) -> Iterator[object]:
    for row, arg in zip(TABLE[call.op].arguments, call.args, strict=False):
        if row.access and arg is not None:
            yield arg
