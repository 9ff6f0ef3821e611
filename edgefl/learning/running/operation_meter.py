"""The operations that a learner and its relatives have executed so far.

lowering/product_flops.py counts the operations of a pass.
"""

from __future__ import annotations

from edgefl.learning.learner import ExecutedFlops
from edgefl.learning.lowering.product_flops import flops
from edgefl.learning.lowering.schedule import Schedule


class FlopCounter:
    """A counter of executed floating point operations. `training` and `search` have the meaning of ExecutedFlops."""

    def __init__(self) -> None:
        self.training = self.search = 0

    @property
    def work(self) -> ExecutedFlops:
        """The operations executed so far."""
        return ExecutedFlops(self.training, self.search)

    def trained(self, schedule: Schedule, passes: int = 1) -> None:
        """Count `passes` passes of steps, gradients or features that were run."""
        self.training += passes * flops(schedule)

    def searched(self, schedule: Schedule) -> None:
        """Count a search for the strongest coordinates that was run."""
        self.search += flops(schedule)
