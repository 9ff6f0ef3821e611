"""FedUmf on top of FedDC. OUR READING: the paper reports this combination and gives no pseudo-code (ALGORITHMS 5.1).

Every client runs FedDC's local objective in every round. It starts from the received model. If it is newly authorised,
it adds the change that it kept of the round before. The proximal term stays centred on w - h_i. Only authorised clients
change h_i and s_i. Their d is the whole move from the received model, because h_i is defined against that model.

With fusion=0, or with every client authorised, the method is FedDC bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from edgefl.methods.client_state import ClientState
from edgefl.methods.feddc import FedDC
from edgefl.methods.fedumf import forget, fuse, remember, running, to_everyone
from edgefl.methods.local_steps import learnable
from edgefl.methods.option_checks import check
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.task import MODEL, State, Task


@dataclass(frozen=True)
class FedUmfDC(FedDC):
    """FedDC whose clients also fuse the change that they kept, as in FedUmf.

    fusion  alpha of FedUmf: share of the kept change that is added

    All clients share the trained part of the model, and a client fuses the change of the trained parameters alone.
    """

    name: ClassVar[str] = "fedumf-feddc"
    asks_all: ClassVar[bool] = True

    fusion: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check(0 <= self.fusion <= 1, "fusion", self.fusion, "0 <= fusion <= 1")

    def plan(self, task: Task, state: State, round: int) -> list[Plan]:
        return to_everyone(task, running(task, state), self.payload(task, state), self.per_round, round)

    def leave(self, client_state: ClientState) -> None:
        forget(client_state)

    def train(self, client_state: ClientState, plan: Plan) -> Reply:
        client_state.learner.write(plan.payload[MODEL])
        fuse(client_state, plan, self.fusion, self.rate(plan.round))
        start = learnable(client_state.learner.read(), client_state.spec)
        fit = self.fit(client_state, plan)
        remember(client_state, plan, start, self.rate(plan.round))
        if plan.authorised:
            return self.commit(client_state, plan, fit)
        metrics = {"loss": fit.loss_sum / fit.examples}
        return Reply(plan.round, plan.client, examples=len(client_state.train), steps=fit.steps, metrics=metrics)
