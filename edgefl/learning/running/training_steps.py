"""TrainingSteps: the steps of a fit over one graph. lowering/ decides what a step consists of."""

from __future__ import annotations

import math
from contextlib import nullcontext

from edgefl.errors import TrainingError
from edgefl.learning.batches import keyed, runs
from edgefl.learning.fit_options import FitOptions
from edgefl.learning.learner import Batches, FitResult, Samples
from edgefl.learning.lowering.micro_batches import refusal
from edgefl.learning.lowering.updates import Terms
from edgefl.learning.optimizers import Optimizer
from edgefl.learning.running import running_statistics
from edgefl.learning.running.dropout_stream import begin
from edgefl.learning.running.input_checks import check_samples, sizes_of
from edgefl.learning.running.session import Session
from edgefl.learning.running.workspace import Workspace
from edgefl.models.graph import Graph
from edgefl.models.neurons.model_spec import ModelSpec

MOST_STEPS = 256  # most steps in one call of a program
PIECE_WORK = 1 << 28  # most multiply-accumulates of the forward passes in one call of several steps


class TrainingSteps:
    """The training of the model of this graph, in the memory of a workspace.

    With the native backend a call of a program runs many steps in C++, without Python and without an allocation.
    """

    def __init__(self, graph: Graph, spec: ModelSpec, workspace: Workspace) -> None:
        self._graph, self._spec, self._workspace = graph, spec, workspace
        self._drops = any(node.op.drops for node in graph.nodes)
        results = sum(math.prod(shape) for shape in graph.shapes.values())
        self._work = sum(graph.macs().values()) + results  # multiply-accumulates and results of one example

    def fit(self, samples: Samples, batches: Batches, optimizer: Optimizer, options: FitOptions) -> FitResult:
        """Take one step per batch, in order. See GraphLearner.fit. The options have no cut."""
        work = self._workspace
        check_samples(samples, self._graph, work.store.dtype)
        sizes = sizes_of(batches, len(samples))
        if optimizer.micro_batch and (why := refusal(samples.loss, self._drops)):
            raise TrainingError(f"micro_batch={optimizer.micro_batch} {why}")
        session = work.sessions.open("train", samples, options, Terms.of(optimizer, options))
        work.scalars.set_rates(optimizer, options.pull[0] if options.pull else 0.0)
        work.prepare(session, sizes)
        work.binder.fill_states(session, options)
        is_frozen = options.bn_frozen == "freeze"
        left_alone = running_statistics.frozen(self._spec, options.trainable) if is_frozen else {}
        if self._drops:
            begin(self._graph, work.scalars.dropout, keyed(batches))
        work.scalars.clear_losses()
        kept = running_statistics.kept(work.store.params, left_alone, work.store.home) if left_alone else nullcontext()
        with kept:
            examples, divisor, steps = self._run(session, batches, sizes)
        for size, count in steps.items():
            work.meter.trained(session.schedules[size], count)
        return FitResult(work.scalars.loss_sum(examples / divisor if divisor else 0.0), examples, len(batches))

    def _run(self, session: Session, batches: Batches, sizes: set[int]) -> tuple[int, float, dict[int, int]]:
        """Run all steps. Return the number of examples, the sum of divisors, and the number of steps for each batch
        size.

        The losses of a batch become a mean by the batch's divisor.
        """
        examples, divisor, steps = 0, 0.0, dict.fromkeys(sizes, 0)
        for rows in runs(batches, self._steps_at_once(max(sizes))):
            count, size = rows.shape
            bound = session.programs[size]
            bound.program.run_batches(bound.index, rows)
            steps[size] += count
            divisor += session.samples.loss.divisor(session.samples.y, rows)
            examples += rows.size
        return examples, divisor, steps

    def _steps_at_once(self, batch: int) -> int:
        """Return the number of steps in one call, which nothing can interrupt: some milliseconds of work,
        or one step.
        """
        return max(1, min(MOST_STEPS, PIECE_WORK // (self._work * batch)))
