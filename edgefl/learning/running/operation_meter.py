"""The operations that a learner and its relatives have executed so far.

lowering/product_flops.py counts the operations of a pass.
"""

from __future__ import annotations

from edgefl.learning.learner import ExecutedFlops
from edgefl.learning.lowering.product_flops import flops
from edgefl.learning.lowering.schedule import Schedule
from edgefl.models.identity_cache import IdentityCache


class FlopCounter:
    """A counter of executed floating point operations. `training` and `search` have the meaning of ExecutedFlops."""

    def __init__(self) -> None:
        self.training = self.search = 0
        self._of = IdentityCache[int](64)  # operations of a pass, by schedule

    @property
    def work(self) -> ExecutedFlops:
        """The operations executed so far."""
        return ExecutedFlops(self.training, self.search)

    def trained(self, schedule: Schedule, passes: int = 1) -> None:
        """Count `passes` passes of steps, gradients or features that were run."""
        self.training += passes * self._flops(schedule)

    def searched(self, schedule: Schedule) -> None:
        """Count a search for the strongest coordinates that was run."""
        self.search += self._flops(schedule)

    def _flops(self, schedule: Schedule) -> int:
        found = self._of.get(schedule)
        return self._of.put(flops(schedule), schedule) if found is None else found
