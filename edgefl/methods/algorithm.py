"""Algorithm: the contract of every federated method, a frozen dataclass with five verbs.

Not the values that the verbs take and give (task.py, plan.py, client_state.py, accumulator.py), not the round loop
(simulation, server) and not the bytes (codec). Source: ARCHITECTURE, "The types that carry everything".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Literal
from warnings import warn

from edgefl.learning.learner import Evaluation
from edgefl.methods.accumulator import Accumulator
from edgefl.methods.client_state import ClientState, OwnModel
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.task import BODY, MODEL, State, Task
from edgefl.methods.throughput import Workload
from edgefl.models.graph import Graph, Params
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.mask import Mask

FORMER_VERBS = {"fold": "aggregate", "wants_pace": "wants_throughput"}  # a verb's name of before -> its name now


Scored = Literal["personal", "adapted"]


class Algorithm(ABC):
    """A federated method: a frozen dataclass whose fields are the hyper-parameters, with five verbs.

    name         in what is said of it
    keeps_model  the client keeps a personal model between rounds, which is what is evaluated
    keeps_state  it keeps private values or arrays, with or without a model; always true where it keeps a model
    adapts       what is evaluated of a client is the model of all clients, after `evaluate` has adapted it to the
                 client; nothing of that is kept
    no_statistics  it cannot train a model with running statistics (BatchNorm)
    asks_all     every client has a part in every round, so none can be left out of it
    former       names that hyper-parameters had, which older runs and devices use: the name now, by that
    changes      names of payloads that carry changes or gradients in a reply, not new values of what the server's state
                 has by that name
    """

    name: ClassVar[str] = "this method"
    keeps_model: ClassVar[bool]
    keeps_state: ClassVar[bool]
    adapts: ClassVar[bool] = False
    no_statistics: ClassVar[bool] = False
    asks_all: ClassVar[bool] = False
    changes: ClassVar[tuple[str, ...]] = ()
    former: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls, **more: Any) -> None:
        """Lets a class of before define a verb under the name that the verb had: either name is one function."""
        super().__init_subclass__(**more)
        own = vars(cls)
        for before, now in FORMER_VERBS.items():
            if before in own and now not in own:
                warn(f"{cls.__qualname__}.{before} is called {now} now", FutureWarning, stacklevel=3)
                setattr(cls, now, own[before])
            elif now in own:
                setattr(cls, before, own[now])  # so that super().fold(...) in such a class finds its parent's

    @abstractmethod
    def start(self, task: Task, initial: Params) -> State:
        """Server: the state before round 1."""

    @abstractmethod
    def plan(self, task: Task, state: State, round: int) -> list[Plan]:
        """Server: one plan per selected client, in ascending client order; empty when the run is over."""

    def replan(self, task: Task, state: State, plan: Plan) -> Plan:
        """Server: the plan of one client again, whose limit or loss `task` has come to know since. A method whose plans
        depend on either saves the others' by its own.
        """
        return next(again for again in self.plan(task, state, plan.round) if again.client == plan.client)

    @abstractmethod
    def aggregate(self, accumulator: Accumulator, plan: Plan, reply: Reply) -> None:
        """Server: takes one accepted reply into the round. Called in ascending client order."""

    @abstractmethod
    def finish(self, task: Task, state: State, accumulator: Accumulator, round: int) -> State:
        """Server: closes the round; the state for the next one. `state` is not changed."""

    @abstractmethod
    def train(self, client_state: ClientState, plan: Plan) -> Reply:
        """Client: merges what came, trains in place, and answers."""

    @property
    def needs_rounds(self) -> bool:
        """True if what is done in a round depends on how many the whole run has: such a run cannot go on with more."""
        return False

    @property
    def wants_throughput(self) -> bool:
        """True if plans follow from how fast clients are (Task.throughputs): their devices are asked to measure it."""
        return False

    def brief(self, steps: int, examples: int) -> tuple[Algorithm, int]:
        """Client: the method with so few passes, and how few of its training samples, that a round has about so many
        steps: for its trials.
        """
        return self, examples

    def trials(self, task: Task, state: State, examples: int, round: int) -> Sequence[tuple[Plan, Workload]]:
        """Client: plans for one client of so many training samples, as unlike in work as there are, with the work of
        each. A device trains them for a moment to learn how fast it is; nobody plans them in earnest.
        """
        return ()

    @property
    def needs_validation(self) -> bool:
        """True if training reads validation samples, of which every client then needs at least one."""
        return False

    def effort(self, examples: int) -> tuple[int, int]:
        """Client: the gradient steps of a round over so many training samples, and the samples that they see.

        What a device holds against its time before it begins; 0 is no effort that counts.
        """
        return 0, 0

    def steps(self, examples: int) -> int | None:
        """How many gradient steps a client with so many training samples takes in a round; None: that is not said."""
        return None

    def single_value_norm(self, task: Task, client: int) -> str:
        """Of the layers that a client trains through, the first batch normalisation that sees one value per channel in
        a sample, by name. Such a client needs two training samples, and batches of two. "": no layer needs them.
        """
        return ""

    def flops(self, graph: Graph, examples: int) -> float | None:
        """Client: floating point operations of a round over so many training samples, as papers count them
        (neurons/sparse_cost.py), not as they are executed; None: that is not said.
        """
        return None

    def untrained(self, state: State, initial: Params) -> Params:
        """The personal model of a client that has never been selected: w^0 (Alg. 1 line 2)."""
        return initial

    @contextmanager
    def own(self, client_state: ClientState, shared: Params | None) -> Iterator[OwnModel]:
        """Client: its personal model, or the one that it adapts, for the length of the with block.

        shared  of the server's state: the body, where the personal model is a head under it, or the model that is
                adapted; None where the learner holds the client's own model
        """
        yield OwnModel(client_state.learner, client_state.data)

    def evaluate(self, client_state: ClientState, shared: Params | None) -> Evaluation:
        """Client: `own` on its own test samples."""
        with self.own(client_state, shared) as model:
            return model.evaluate(client_state.test)

    def refreshes(self, task: Task, state: State, round: int, clients: Sequence[int]) -> list[Plan]:
        """Server: what the devices of these clients would download in that round, in their order, to be evaluated after
        it. Unless a method says otherwise, all that clients share.
        """
        parts = {MODEL: None, BODY: task.spec.body}
        found = {part: names for part, names in parts.items() if part in state.arrays}
        payload = {part: take(state.arrays[part], task.spec, None, names=names) for part, names in found.items()}
        return [Plan("evaluate", round, client, payload=payload) for client in clients]

    @contextmanager
    def refreshed(self, client_state: ClientState, plan: Plan, epochs: int) -> Iterator[OwnModel]:
        """Client: its model after it has taken what such a plan brings and trained on it for so many passes in the
        method's way, at the rate `lr` and in the order of round 0, the same for all methods; for the length of the with
        block. Nothing of it is kept.
        """
        raise NotImplementedError(f"{self.name} says nothing of a refresh")
        yield  # which makes it a generator

    @property
    def can_refresh(self) -> bool:
        """Whether the method says how a client trains after a refresh."""
        return type(self).refreshed is not Algorithm.refreshed

    def held(self, client_state: ClientState) -> Sequence[Mask]:
        """Client: the masks that it keeps, the one it uses first, at one of which values may come without ids.

        The server knows the last one that it aggregated. A reply that came too late was not, though the client keeps
        what it trained: a method that moves masks keeps the one that it moved from, too.
        """
        return ()

    def scored(self, parts: Collection[str]) -> Scored | None:
        """What `evaluate` tests of a client, by the name it has in metrics; None: nothing but the model of all clients.

        parts  names of the arrays of the server's state
        """
        if self.adapts:
            return "adapted"
        return "personal" if self.keeps_model or BODY in parts else None

    def shared(self, arrays: Mapping[str, Params]) -> Params | None:
        """What `evaluate` is given, of the arrays of the server's state."""
        return arrays.get(MODEL if self.adapts else BODY)

    def beside(self, parts: Collection[str]) -> tuple[str, ...]:
        """Of the arrays of the server's state, by name, those that `shared` needs beside model and body: running
        statistics alone, which an evaluation on devices sends with them.
        """
        return ()
