"""FedBABU: clients train and send the body under one random head, which is not trained until a client is tested.

For a test every client fine-tunes the common model on its own samples. The fine-tuned model is neither kept nor sent.

Source  Oh, Kim and Yun (ICLR 2022, arXiv:2106.06042). ALGORITHMS 7.10
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Literal

from edgefl.learning.fit_options import FitOptions
from edgefl.learning.learner import Array
from edgefl.methods.accumulator import Accumulator
from edgefl.methods.client_state import ClientState, OwnModel, passes
from edgefl.methods.early_stopping import EarlyStopping
from edgefl.methods.fine_tuning import part_layers
from edgefl.methods.local_steps import LocalTraining
from edgefl.methods.option_checks import check
from edgefl.methods.personal_head import check_body
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.sampling import sample_clients
from edgefl.methods.task import MODEL, State, Task
from edgefl.models.graph import Params
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.update import Update


@dataclass(frozen=True)
class FedBABU(EarlyStopping, LocalTraining):
    """The method FedBABU: the body is the mean of the clients' bodies, weighted by their training samples, and the head
    keeps the bits of w^0.

    ft         part of the model that a client fine-tunes before its test: 'full', 'body' or 'head'
    ft_epochs  passes of the fine-tuning over the client's training samples
    ft_lr      learning rate of the fine-tuning. 0 stands for `lr`, which does not decay here

    The clients train and share the trained part of the body. The fine-tuning before a test leaves frozen parameters
    as they are.
    """

    name: ClassVar[str] = "fedbabu"
    keeps_model: ClassVar[bool] = False
    keeps_state: ClassVar[bool] = False
    adapts: ClassVar[bool] = True
    takes_slices: ClassVar[bool] = True

    ft: Literal["full", "body", "head"] = "full"
    ft_epochs: int = 1
    ft_lr: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self.ft_epochs >= 1, "ft_epochs", self.ft_epochs, "ft_epochs >= 1")
        check(0 <= self.ft_lr < float("inf"), "ft_lr", self.ft_lr, "a finite ft_lr >= 0")

    # The server.

    def start(self, task: Task, initial: Params) -> State:
        """Make the state before round 1.

        Raises ValueError for a model without a body or a head, or in which nothing could be trained.
        """
        spec = task.spec
        check(bool(spec.head and spec.body), "model", f"head {list(spec.head)} and body {list(spec.body)}", "both")
        check_body(spec, spec.body)
        is_still = self.ft == "head" and not set(spec.head) & set(spec.learned)
        check(not is_still, "ft", self.ft, "full or body, as the model's head is frozen")
        return State({MODEL: initial})

    def plan(self, task: Task, state: State, round: int) -> list[Plan]:
        payload = {MODEL: take(state.arrays[MODEL], task.spec, None, names=task.spec.body)}
        chosen = sample_clients(task, range(task.clients), self.per_round, round)
        return [Plan("train", round, client, payload=payload) for client in chosen]

    def aggregate(self, accumulator: Accumulator, plan: Plan, reply: Reply) -> None:
        if MODEL in reply.payload:
            accumulator.mean.add(reply.client, reply.payload[MODEL], reply.examples)

    def finish(self, task: Task, state: State, accumulator: Accumulator, round: int) -> State:
        return State({MODEL: accumulator.mean.over(state.arrays[MODEL])})

    def refreshes(self, task: Task, state: State, round: int, clients: Sequence[int]) -> list[Plan]:
        """Return plans of the body alone, as in a round, because the devices have the head."""
        payload = {MODEL: take(state.arrays[MODEL], task.spec, None, names=task.spec.body)}
        return [Plan("evaluate", round, client, payload=payload) for client in clients]

    # The client. It keeps no model, so its learner holds w^0 when a round begins, and with it the head.

    def train(self, client_state: ClientState, plan: Plan) -> Reply:
        learner, spec = client_state.learner, client_state.spec
        learner.write(plan.payload[MODEL])
        batches, optimizer = self.batches(client_state, plan.round), self.local_optimizer(plan.round)
        options = FitOptions(trainable=part_layers("body", spec), bn_frozen="freeze")
        fit = learner.fit(client_state.data, batches, optimizer, options)
        return Reply(
            plan.round,
            plan.client,
            payload={MODEL: learner.take(names=spec.body)},
            examples=len(client_state.train),
            steps=fit.steps,
            metrics={"loss": fit.loss_sum / fit.examples},
        )

    def adaptation(self, examples: int) -> tuple[int, int]:
        return passes(examples, self.ft_epochs, self.batch)

    @contextmanager
    def own(self, client_state: ClientState, shared: Params | None) -> Iterator[OwnModel]:
        assert shared is not None
        with self._fine_tuned(client_state, shared, self.ft_epochs) as mine:
            yield mine

    @contextmanager
    def refreshed(self, client_state: ClientState, plan: Plan, epochs: int) -> Iterator[OwnModel]:
        with self._fine_tuned(client_state, plan.payload[MODEL], epochs) as mine:
            yield mine

    @contextmanager
    def _fine_tuned(
        self, client_state: ClientState, model: Update | Mapping[str, Array], epochs: int
    ) -> Iterator[OwnModel]:
        """Yield the client's model after `epochs` passes from `model`. Afterwards the learner gets the common head
        back.
        """
        learner, spec = client_state.learner, client_state.spec
        learner.write(model)
        head = {name: value.copy() for name, value in learner.read(spec.head).items()}
        mine, layers = OwnModel(learner, client_state.data), part_layers(self.ft, spec)
        try:
            yield self.refit(mine, client_state, epochs, self.batch, self.ft_lr, FitOptions(trainable=layers))
        finally:
            learner.write(head)
