"""What a learner and its relatives have executed so far. How much a pass multiplies is lowering/product_flops.py's."""

from __future__ import annotations

from edgefl.learning.learner import Work
from edgefl.learning.lowering.product_flops import flops
from edgefl.learning.lowering.schedule import Schedule


class Meter:
    """training, search  as in Work"""

    def __init__(self) -> None:
        self.training = self.search = 0

    @property
    def work(self) -> Work:
        """So far."""
        return Work(self.training, self.search)

    def trained(self, schedule: Schedule, passes: int = 1) -> None:
        """So many passes of steps, gradients or features were run."""
        self.training += passes * flops(schedule)

    def searched(self, schedule: Schedule) -> None:
        """A search for the strongest coordinates was run."""
        self.search += flops(schedule)
