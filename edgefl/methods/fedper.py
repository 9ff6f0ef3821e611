"""FedPer: every client trains the common body together with a head of its own, and the server averages the bodies.

Source  Arivazhagan et al. (arXiv:1912.00818). ALGORITHMS 7.8
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from edgefl.methods.client_state import ClientState, OwnModel
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.shared_body import SharedBody
from edgefl.methods.task import BODY
from edgefl.methods.whole_values import whole
from edgefl.models.graph import Params
from edgefl.models.neurons.update import values


@dataclass(frozen=True)
class FedPer(SharedBody):
    """The method FedPer: theta^{t+1} = sum n_k theta_k / sum n_k over the clients that reported. The heads stay on the
    clients.

    The clients share the trained part of the body. The head is private, and all of the head has to be trained.
    """

    name: ClassVar[str] = "fedper"
    sums_only: ClassVar[bool] = True
    asynchronous: ClassVar[bool] = True
    takes_slices: ClassVar[bool] = True

    def train(self, client_state: ClientState, plan: Plan) -> Reply:
        mine = self.personal(client_state, _body(client_state, plan))
        fit = mine.learner.fit(mine.samples, self.batches(client_state, plan.round), self.local_optimizer(plan.round))
        return self.answer(mine, plan, fit.loss_sum / fit.examples, fit.steps)

    @contextmanager
    def refreshed(self, client_state: ClientState, plan: Plan, epochs: int) -> Iterator[OwnModel]:
        """Yield the model after body and head were trained, as in a round."""
        with self.own(client_state, _body(client_state, plan)) as mine:
            yield self.refit(mine, client_state, epochs, self.batch)


def _body(client_state: ClientState, plan: Plan) -> Params:
    return values(whole(plan.payload[BODY], client_state.learner))
