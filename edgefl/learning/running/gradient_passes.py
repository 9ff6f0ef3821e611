"""GradientPasses: gradients of a mean loss at the present parameters. No parameter and no running statistic changes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgefl.learning.batches import Keyed
from edgefl.learning.fit_options import FitOptions
from edgefl.learning.learner import Array, Gradient, Samples
from edgefl.learning.running import running_statistics
from edgefl.learning.running.dropout_stream import begin
from edgefl.learning.running.session import Session
from edgefl.learning.running.workspace import Workspace
from edgefl.learning.scores import share_of
from edgefl.models.graph import Graph
from edgefl.models.neurons.model_spec import ModelSpec


class GradientPasses:
    """Gradient passes over the model of this graph, in the memory of a workspace."""

    def __init__(self, graph: Graph, spec: ModelSpec, workspace: Workspace) -> None:
        self._graph, self._spec, self._workspace = graph, spec, workspace

    def gradient(
        self, samples: Samples, index: NDArray[np.int32], options: FitOptions, chunk: int | None, key: int | None
    ) -> Gradient:
        """Return the gradient of the mean loss over `index` (see GraphLearner.gradient).

        options  `trainable` and `delta` select the blocks of the gradient and how it is computed
        """
        work = self._workspace
        begin(self._graph, work.scalars.dropout, None if key is None else Keyed(key))
        session = work.sessions.open("gradient", samples, options)
        chunks = [index[start : start + (chunk or len(index))] for start in range(0, len(index), chunk or len(index))]
        work.prepare(session, {len(part) for part in chunks})
        work.scalars.clear_losses()
        with running_statistics.kept(work.store.params, running_statistics.everything(self._spec), work.store.home):
            divisor = samples.loss.divisor(samples.y, index)
            total = self._gradient_of(session, chunks[0], divisor)
            for part in chunks[1:]:
                work.scalars.dropout[2] += len(chunks[0])
                for name, value in self._gradient_of(session, part, divisor).items():
                    total[name] += value
        total.loss_sum = work.scalars.loss_sum(share_of(samples.loss, samples.y, index))
        return total

    def _gradient_of(self, session: Session, part: NDArray[np.int32], divisor: float) -> Gradient:
        """Return the part of one pass in the gradient of a mean loss that divides by `divisor`."""
        bound = session.programs[len(part)]
        share = session.samples.loss.divisor(session.samples.y, part) / divisor if divisor else 0.0
        bound.index[:] = part
        bound.program.run()
        self._workspace.meter.trained(session.schedules[len(part)])
        blocks = session.schedules[len(part)].gradients
        view = self._workspace.binder.view
        views = {name: view(session, len(part), block.values) for name, block in blocks.items()}
        return Gradient((name, self._in_order(name, value) * share) for name, value in views.items())

    def _in_order(self, name: str, values: Array) -> Array:
        """Return the block of a parameter's gradient in the parameter's order, from its values in a schedule.

        The block of a masked parameter has its coordinates [|ids|] in order.
        """
        store = self._workspace.store
        if name not in store.restriction:
            rest = (
                self._spec.params[name].shape[2:] if values.ndim > 1 else ()
            )  # a bias and the values of a mask have one axis
            return values.reshape(*values.shape[:2], *rest)
        compact = store.sparse.get(name)
        whole: Array = values if compact is None else compact.whole(values)
        bits = store.restriction.bits(name)
        return whole.reshape(bits.shape)[bits]
