"""GrowthSearch: the coordinates outside a mask with the largest gradients. It changes no parameter and no mask.

The key of the order is (-|g|, flat index), so among equal magnitudes the lower index is taken.

Source  ALGORITHMS 8, "Grow"
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from edgefl.learning.learner import Samples
from edgefl.learning.lowering.active_ids import Growth
from edgefl.learning.running import running_statistics
from edgefl.learning.running.growth_request import check_counts, growth_of
from edgefl.learning.running.workspace import Workspace
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import ModelSpec

Positions = NDArray[np.uint32]


class GrowthSearch:
    """A search in the model of this specification, in the memory of a workspace."""

    def __init__(self, spec: ModelSpec, workspace: Workspace) -> None:
        self._spec, self._workspace = spec, workspace

    def strongest(
        self, samples: Samples, index: NDArray[np.int32], outside: Mask, counts: Mapping[str, int]
    ) -> dict[str, Positions]:
        """Return for each named parameter the `counts[name]` strongest coordinates outside a mask. See
        GraphLearner.strongest.
        """
        outside = Mask.of(self._spec, outside.bits)
        check_counts(self._spec, outside, counts)
        grown = {name: growth_of(outside.bits[name], count) for name, count in counts.items() if count}
        return {name: np.zeros(0, np.uint32) for name in counts} | (self._found(samples, index, grown) if grown else {})

    def _found(self, samples: Samples, index: NDArray[np.int32], grown: Mapping[str, Growth]) -> dict[str, Positions]:
        """Return the coordinates of one pass over `index`, as positions in the flattened parameters."""
        work, size = self._workspace, len(index)
        session = work.sessions.open("grow", samples, grown=grown)
        work.prepare(session, {size})
        with running_statistics.kept(work.store.params, running_statistics.everything(self._spec), work.store.home):
            session.programs[size].index[:] = index
            session.programs[size].program.run()
            work.meter.searched(session.schedules[size])
        found = session.schedules[size].found
        positions = {name: work.binder.view(session, size, each).astype(np.uint32) for name, each in found.items()}
        work.sessions.drop_latest()  # the next search is for other counts
        return positions
