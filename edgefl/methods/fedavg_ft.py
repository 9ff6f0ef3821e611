"""FedAvg whose global model every client adapts to its own data before it is tested: a control for personal models.

Rounds are equal to FedAvg's rounds, bit for bit. Adapting is a part of the evaluation. The adapted model is neither
kept nor sent.

Source  ALGORITHMS 7.18
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from edgefl.methods.client_state import ClientState, OwnModel, passes
from edgefl.methods.fedavg import FedAvg
from edgefl.methods.option_checks import check
from edgefl.methods.plan import Plan
from edgefl.methods.task import MODEL
from edgefl.models.graph import Params


@dataclass(frozen=True)
class FedAvgFT(FedAvg):
    """FedAvg whose model is fine-tuned on a client's training samples before the client's test.

    ft_epochs  passes of the fine-tuning over the client's training samples
    ft_lr      learning rate of the fine-tuning. 0 stands for `lr`, which does not decay here

    All clients share the trained part of the model, and each client adapts the trained part before a test.
    """

    name: ClassVar[str] = "fedavg-ft"
    asynchronous: ClassVar[bool] = True
    adapts: ClassVar[bool] = True

    ft_epochs: int = 1
    ft_lr: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self.ft_epochs >= 1, "ft_epochs", self.ft_epochs, "ft_epochs >= 1")
        check(0 <= self.ft_lr < float("inf"), "ft_lr", self.ft_lr, "a finite ft_lr >= 0")

    def adaptation(self, examples: int) -> tuple[int, int]:
        return passes(examples, self.ft_epochs, self.batch)

    @contextmanager
    def own(self, client_state: ClientState, shared: Params | None) -> Iterator[OwnModel]:
        assert shared is not None
        client_state.learner.write(shared)
        yield self._adapted(client_state, self.ft_epochs)

    @contextmanager
    def refreshed(self, client_state: ClientState, plan: Plan, epochs: int) -> Iterator[OwnModel]:
        client_state.learner.write(plan.payload[MODEL])
        yield self._adapted(client_state, epochs)

    def _adapted(self, client_state: ClientState, epochs: int) -> OwnModel:
        return self.refit(
            OwnModel(client_state.learner, client_state.data), client_state, epochs, self.batch, self.ft_lr
        )
