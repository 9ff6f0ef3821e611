"""FedRep: in a round a client trains its own head under the common body, and then the body under that head.

The server averages the bodies as in FedPer.

Source  Collins et al. (ICML 2021), Alg. 1. ALGORITHMS 7.9
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from edgefl.learning.fit_options import FitOptions
from edgefl.learning.learner import FitResult
from edgefl.methods.client_state import ClientState, OwnModel, minibatches, passes
from edgefl.methods.option_checks import check
from edgefl.methods.personal_head import Personal, steps_of
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.shared_body import SharedBody
from edgefl.methods.task import BODY
from edgefl.models.neurons.update import values


@dataclass(frozen=True)
class FedRep(SharedBody):
    """The method FedRep: head_epochs passes of the head, then epochs passes of the body.

    head_epochs  passes in a round over the head, which come first. The body keeps its bits in them
    epochs       passes in a round over the body, which come after the head's. The head keeps its bits in them

    The clients share the trained part of the body. The head is private, and all of the head has to be trained.
    """

    name: ClassVar[str] = "fedrep"
    asynchronous: ClassVar[bool] = True

    epochs: int = 1
    head_epochs: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self.head_epochs >= 0, "head_epochs", self.head_epochs, "head_epochs >= 0")

    def effort(self, examples: int) -> tuple[int, int]:
        return passes(examples, self.head_epochs + self.epochs, self.batch)

    @property
    def head_passes(self) -> int:
        return self.head_epochs

    def train(self, client_state: ClientState, plan: Plan) -> Reply:
        mine = self.personal(client_state, values(plan.payload[BODY]))
        head, body = steps_of(mine.head), steps_of(self.body_names(client_state.spec))
        fits = [self._fit(mine, plan, 0, self.head_epochs, head)] if self.head_epochs else []
        fits.append(self._fit(mine, plan, self.head_epochs, self.epochs, body))
        loss = sum(fit.loss_sum for fit in fits) / sum(fit.examples for fit in fits)
        return self.answer(mine, plan, loss, sum(fit.steps for fit in fits))

    def _fit(self, mine: Personal, plan: Plan, first: int, count: int, options: FitOptions) -> FitResult:
        """Train `count` passes from pass number `first` of the round on. The optimizer starts anew in each of the two
        parts.
        """
        batches = minibatches(mine.client_state, plan.round, count, self.batch, first)
        return mine.learner.fit(mine.samples, batches, self.local_optimizer(plan.round), options)

    @contextmanager
    def refreshed(self, client_state: ClientState, plan: Plan, epochs: int) -> Iterator[OwnModel]:
        """Yield the model after the head was trained under the newest body, as the paper does for a new client."""
        with self.own(client_state, values(plan.payload[BODY])) as mine:
            yield self.refit(mine, client_state, epochs, self.batch, options=steps_of(self.head(client_state.spec)))
