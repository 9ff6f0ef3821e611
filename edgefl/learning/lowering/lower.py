"""The lowering of a graph to the schedule that a learner runs for one batch size, neuron set and mode.

Modes:  train     forward with batch statistics and dropout, exact (or cut) backward, a step in place
        gradient  like train without updates: the gradients stay in the arena
        grow      like gradient without dropout: only the coordinates of the largest gradients sought are kept
        evaluate  forward with running statistics, loss and hits
        predict   forward with running statistics: the logits stay in the arena
        features  like predict up to a cut, a result that everything after it follows from (graph/cuts.py)

A schedule's arrays have torch's layouts. Kernels choose by shape how to pack them. On 126 convolutions of the built-in
models this took 0.98 of the time of each convolution's fastest way (docs/performance-notes.md), so a table of layouts
would gain nothing. Between sparse convolutions, which compute images side by side, results lie side by side
(batch_layout.py).

A batch is not divided into parts that stay in cache. Models without batch norm take as long per example at 128 as at
16. Between the statistics of batch norm, parts gain 4 to 9 % at 128 and lose at 32 (docs/performance-notes.md).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Literal, NamedTuple

from edgefl.learning.fit_options import Delta
from edgefl.learning.losses import CROSS_ENTROPY, Loss
from edgefl.learning.lowering.active_ids import ActiveIndices
from edgefl.learning.lowering.arena import allocate, allocate_tightly
from edgefl.learning.lowering.backward import backward
from edgefl.learning.lowering.batch_layout import side_by_side
from edgefl.learning.lowering.channel_sets import is_empty
from edgefl.learning.lowering.chunked_head import Chunk, chunk_of, chunked_head
from edgefl.learning.lowering.dropout import count_step
from edgefl.learning.lowering.forward import forward
from edgefl.learning.lowering.fusion import fuse
from edgefl.learning.lowering.half_precision import narrow
from edgefl.learning.lowering.loss import auxiliary_loss, without_last_turn
from edgefl.learning.lowering.loss import loss as record_loss
from edgefl.learning.lowering.micro_batches import BatchPart, SummedGradients, batch_parts
from edgefl.learning.lowering.recompute import (
    NO_PLAN,
    PLANNED,
    MemoryPlan,
    Replays,
    kept_results,
    segments,
    without_unread,
)
from edgefl.learning.lowering.recorder import Readers, Recorder, Scope
from edgefl.learning.lowering.schedule import Companion, Existing, Schedule, Tensor, TrainedBlock
from edgefl.learning.lowering.sparse_weight import Sparse
from edgefl.learning.lowering.updates import Terms, update
from edgefl.models.graph import Graph, Node
from edgefl.models.graph.cuts import before
from edgefl.models.graph.operations import VIEWS, AnyDropout
from edgefl.models.graph.planar import planar
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.trainable_parameters import Trainable

Mode = Literal["train", "gradient", "grow", "evaluate", "predict", "features"]
TRAINING: tuple[Mode, ...] = ("train", "gradient", "grow")


def lower(
    graph: Graph,
    spec: ModelSpec,
    batch: int,
    trainable: Trainable = None,
    *,
    mode: Mode = "train",
    delta: Delta = "exact",
    terms: Terms | None = None,
    float_bytes: int = 4,
    sparse: Sparse | None = None,
    masks: Mapping[str, Existing] | None = None,
    loss: Loss = CROSS_ENTROPY,
    cut: str = "",
    plan: MemoryPlan = NO_PLAN,
    int8_activations: bool = False,
) -> Schedule:
    """Lower one pass over `batch` examples to a schedule.

    trainable  what is trained. None: everything. Ignored in modes without gradients
    mode       one of the modes in this module's docstring
    terms      terms of the update in mode "train"
    sparse     weights that exist as values alone
    masks      coordinates that exist of other masked parameters
    loss       loss in modes that have a loss
    cut        name of the cut in mode "features"
    plan       parts of the forward pass that modes "train" and "gradient" compute again
    int8_activations  whether modes "evaluate" and "predict" round the inputs of int8 weights to int8
    Raises     GraphError if there is no such cut
    """
    active = ActiveIndices.of(graph, spec, trainable, delta, masks) if mode in TRAINING else ActiveIndices()
    given = {"mode": mode, "terms": terms, "float_bytes": float_bytes, "sparse": sparse, "loss": loss, "cut": cut}
    more = {"plan": plan, "int8_activations": int8_activations}
    return lower_active(graph, spec, batch, active, **given, **more)  # type: ignore[arg-type]


def lower_active(
    graph: Graph,
    spec: ModelSpec,
    batch: int,
    active: ActiveIndices,
    *,
    mode: Mode = "train",
    terms: Terms | None = None,
    float_bytes: int = 4,
    sparse: Sparse | None = None,
    loss: Loss = CROSS_ENTROPY,
    cut: str = "",
    plan: MemoryPlan = NO_PLAN,
    int8_activations: bool = False,
) -> Schedule:
    """Lower a pass for id lists that are known already. The schedule's calls hold these very lists.

    Either the active channels of a layer's input are copied, or all channels stay. The choice with the smaller arena is
    taken, and both give the same bits. Copies pay in a network with many layers. In the last of few layers the whole
    input exists anyway when memory peaks.
    """
    graph, terms = planar(graph), terms or Terms()
    in_place = mode == "train" and terms.is_plain
    drops = mode in ("train", "gradient")
    in_place = in_place and len(batch_parts(batch, terms.micro_batch)) == 1
    scope = Scope(graph, spec, batch, active, in_place, mode in TRAINING, sparse or {}, drops=drops)
    scope = scope._replace(int8_activations=int8_activations and mode in ("evaluate", "predict"))
    nodes = before(graph, cut) if mode == "features" else graph.nodes
    if graph.auxiliary and mode not in TRAINING and mode != "features":
        nodes = before(graph, nodes[-1].name)
    if mode not in ("predict", "features") and not graph.auxiliary:
        nodes, loss = without_last_turn(nodes, loss)
    plan = plan if mode in PLANNED else NO_PLAN
    copied = _lowered(scope, nodes, mode, (terms, loss), float_bytes, plan)
    if all(ids is None or is_empty(ids) for ids in active.saved.values()):
        return copied
    whole = _lowered(scope._replace(copies=False), nodes, mode, (terms, loss), float_bytes, plan)
    return _smaller(copied, whole)


def _lowered(
    scope: Scope, nodes: tuple[Node, ...], mode: Mode, step: tuple[Terms, Loss], float_bytes: int, plan: MemoryPlan
) -> Schedule:
    nodes = fuse(nodes, _apart(scope, nodes), [each.result for each in scope.graph.auxiliary])
    recorder = Recorder(scope)
    sums, found = SummedGradients(recorder), Recorded(None)
    for part in batch_parts(scope.batch, step[0].micro_batch if mode == "train" else 0):
        if part.size < scope.batch:
            recorder.begin_part(scope._replace(batch=part.size), part.arguments)
        found = _passes(recorder, nodes, mode, step, plan, (part, sums))
    recorder = without_unread(recorder) if plan.checkpoints else recorder
    whole = _schedule(recorder, scope.batch, found, float_bytes)
    if mode != "train" or step[0].saved == "fp32":
        return whole
    return _smaller(whole, _schedule(narrow(recorder, float_bytes), scope.batch, found, float_bytes))


class Recorded(NamedTuple):
    """The results of recorded passes: the output of a forward pass, states of updates, and gradients."""

    output: Tensor | None
    states: tuple[Companion, ...] = ()
    gradients: Mapping[str, TrainedBlock] = MappingProxyType({})


def _passes(
    recorder: Recorder,
    nodes: tuple[Node, ...],
    mode: Mode,
    step: tuple[Terms, Loss],
    plan: MemoryPlan,
    where: tuple[BatchPart, SummedGradients],
) -> Recorded:
    """Record the passes of a part of the batch, and after the last part the update."""
    scope = recorder.scope
    beside = frozenset[str]()
    if mode != "grow":
        beside = side_by_side(nodes, scope.graph.shapes, scope.batch, scope.sparse)
    is_whole = mode in ("predict", "features", "grow") or step[0].saved != "fp32" or scope.int8_activations
    size = None if is_whole else chunk_of(scope, nodes, step[1])
    body = nodes[:-1] if size else nodes
    recorder.scope = scope._replace(side_by_side=beside, kept=kept_results(nodes, body, plan))
    readers = Readers(body, recorder.scope)
    output = _as_rows(forward(recorder, body, readers))
    if mode in ("predict", "features"):
        recorder.keep(output)
        return Recorded(output)
    across = kept_results(nodes, body, replace(plan, splits=()))
    replays = Replays(recorder, readers, segments(body, plan), across)
    return _trained(recorder, nodes, output, mode, step, (size, replays, *where))


def _apart(scope: Scope, nodes: tuple[Node, ...]) -> frozenset[str]:
    """Return the normalisations with kept statistics through which a gradient passes.

    The fused kernels have no backward pass for them.
    """
    kept = (node.name for node in nodes if scope.graph.keeps_statistics(node))
    return frozenset(name for name in kept if name in scope.active.needs)


def _smaller(first: Schedule, second: Schedule) -> Schedule:
    """Return the schedule with the smaller arena, or the first of two equal ones."""
    return min(first, second, key=lambda schedule: schedule.arena_bytes)


def _trained(
    recorder: Recorder,
    nodes: tuple[Node, ...],
    output: Tensor,
    mode: Mode,
    step: tuple[Terms, Loss],
    parts: tuple[Chunk | None, Replays, BatchPart, SummedGradients],
) -> Recorded:
    """Record the loss and, in training, all that follows it.

    parts  the part of the last node's result that is in memory, or None for all, the segments to compute again, the
           part of the batch, and the gradients of the parts before it
    """
    (terms, of), (size, replays, part, sums) = step, parts
    head = chunked_head(recorder, nodes[-1], of, size, mode in TRAINING) if size else None
    further = _auxiliary(recorder, of) if mode in TRAINING else {}
    if mode not in TRAINING:
        if head is None:
            record_loss(recorder, of, output, None)
        return Recorded(None)
    start = head or part.weighted(recorder, of, _gradient(recorder, nodes[-1], of, output))
    further = {name: part.weighted(recorder, of, gradient) for name, gradient in further.items()}
    passes = backward(recorder, nodes, start, further, replays)
    if not part.is_last:
        sums.add(passes)
        return Recorded(None)
    if mode == "train":
        states = update(recorder, sums.completed(passes) if part.first else passes, terms)
        count_step(recorder)
        return Recorded(None, states)
    if mode == "grow":
        deque(passes, 0)  # runs the generator, whose findings stay in the recorder
        return Recorded(None)
    gradients = {name: block for part in passes for name, block in part.items() if isinstance(block, TrainedBlock)}
    for block in gradients.values():
        recorder.keep(block.values)
    return Recorded(None, gradients=gradients)


def _gradient(recorder: Recorder, last: Node, of: Loss, output: Tensor) -> Tensor:
    """Record the loss of the whole output, and return its gradient in the shape of the last result."""
    gradient = recorder.like(output) if _is_read_again(recorder, last, output) else output
    record_loss(recorder, of, output, gradient)
    return gradient.view(*recorder.values[last.name].shape)


def _is_read_again(recorder: Recorder, last: Node, output: Tensor) -> bool:
    """Return whether the backward pass reads the memory of the output, as that of a last Sigmoid, or whether a result
    that leads to auxiliary outputs may lie there, too.
    """
    saved = [kept for (_, what), kept in recorder.extras.items() if what != "dx" and isinstance(kept, Tensor)]
    is_saved = any(kept.buffer == output.buffer for kept in saved)
    return is_saved or (bool(recorder.scope.graph.auxiliary) and isinstance(last.op, (*VIEWS, AnyDropout)))


def _auxiliary(recorder: Recorder, of: Loss) -> dict[str, Tensor]:
    """Record the losses of the auxiliary outputs, and return the gradients of these results."""
    gradients = {}
    for position, each in enumerate(recorder.scope.graph.auxiliary):
        result = recorder.values[each.result]
        gradient = auxiliary_loss(recorder, of, position, _as_rows(result), each.weight)
        gradients[each.result] = gradient.view(*result.shape)
    return gradients


def _as_rows(result: Tensor) -> Tensor:
    """Return a result [B, C, 1, 1] as [B, C], and any other result unchanged."""
    return result.view(*result.shape[:2]) if result.shape[2:] == (1, 1) else result


def _schedule(recorder: Recorder, batch: int, found: Recorded, float_bytes: int) -> Schedule:
    buffers = recorder.buffers()
    offsets, size = (allocate_tightly if recorder.scope.kept else allocate)(buffers, float_bytes)
    calls, (output, states, gradients) = tuple(recorder.calls), found
    return Schedule(batch, calls, buffers, offsets, size, output, dict(gradients), states, recorder.found)
