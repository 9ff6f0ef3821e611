"""Algorithm: the contract of every federated method, a frozen dataclass with five verbs.

Other modules have the values that the verbs take and return (task.py, plan.py, client_state.py, accumulator.py), the
round loop (simulation, server) and the bytes (codec).

Source  ARCHITECTURE, "The types that carry everything"
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Literal
from warnings import warn

from edgefl.errors import former_name
from edgefl.learning.learner import Evaluation
from edgefl.methods.accumulator import Accumulator
from edgefl.methods.client_state import ClientState, OwnModel
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.task import BODY, MODEL, State, Task
from edgefl.methods.throughput import Workload
from edgefl.models.graph import Graph, Params
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import ModelSpec

FORMER_VERBS = {"fold": "aggregate", "wants_pace": "wants_throughput"}  # former name of a verb -> present name


Scored = Literal["personal", "adapted"]


class Algorithm(ABC):
    """A federated method: a frozen dataclass with five verbs, whose fields are the hyper-parameters.

    name           name of the method in tables and messages
    keeps_model    whether a client keeps a personal model between rounds, which is then the evaluated model
    keeps_state    whether a client keeps private values or arrays, with or without a model. It is always true with
                   `keeps_model`
    adapts         whether the evaluated model of a client is the model of all clients after `evaluate` has adapted it
                   to the client. The adapted model is not kept
    no_statistics  whether the method cannot train a model with running statistics (BatchNorm)
    takes_slices   whether the method trains a model of which some parameters are trained in part (Graph.slices)
    asks_all       whether every client has a part in every round, so that no client can be left out of a round
    former         former names of hyper-parameters, which older runs and devices use, mapped to the present names
    trains_parts   whether the clients of a round train parts of the model: neurons, or coordinates at a mask
    sums_only      whether the server needs sums of replies over clients of one draw alone. A subclass does not inherit
                   it (rounds/sums_only.py)
    asynchronous   whether a round may be closed before all its replies are there (rounds/asynchronous.py). A subclass
                   does not inherit it
    changes        names of payloads that carry changes or gradients in a reply, and not new values of the server's
                   state
    """

    name: ClassVar[str] = "this method"
    keeps_model: ClassVar[bool]
    keeps_state: ClassVar[bool]
    adapts: ClassVar[bool] = False
    no_statistics: ClassVar[bool] = False
    takes_slices: ClassVar[bool] = False
    asks_all: ClassVar[bool] = False
    trains_parts: ClassVar[bool] = False
    sums_only: ClassVar[bool] = False
    asynchronous: ClassVar[bool] = False
    changes: ClassVar[tuple[str, ...]] = ()
    former: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls, **more: Any) -> None:
        """Accept a class that defines a verb under its former name. Both names then mean one function."""
        super().__init_subclass__(**more)
        own = vars(cls)
        for before, now in FORMER_VERBS.items():
            if before in own and now not in own:
                warn(former_name(f"{cls.__qualname__}.{before}", now), FutureWarning, stacklevel=3)
                setattr(cls, now, own[before])
            elif now in own:
                setattr(cls, before, own[now])  # so that super().fold(...) in such a class finds the parent's verb

    @abstractmethod
    def start(self, task: Task, initial: Params) -> State:
        """Server: make the state before round 1."""

    @abstractmethod
    def plan(self, task: Task, state: State, round: int) -> list[Plan]:
        """Server: make one plan for each selected client, in ascending order of clients. The list is empty when the run
        is over.
        """

    def replan(self, task: Task, state: State, plan: Plan) -> Plan:
        """Server: make the plan of one client again, after `task` has learnt the client's limit or loss of state.

        A method should override this verb if it can plan one client alone.
        """
        return next(again for again in self.plan(task, state, plan.round) if again.client == plan.client)

    @abstractmethod
    def aggregate(self, accumulator: Accumulator, plan: Plan, reply: Reply) -> None:
        """Server: add one accepted reply to the round. Replies are added in ascending order of clients."""

    @abstractmethod
    def finish(self, task: Task, state: State, accumulator: Accumulator, round: int) -> State:
        """Server: close the round and return the state for the next round. `state` is not changed."""

    @abstractmethod
    def train(self, client_state: ClientState, plan: Plan) -> Reply:
        """Client: merge the payload of the plan into the model, train in place, and return the reply."""

    @property
    def needs_rounds(self) -> bool:
        """Return whether a round depends on the number of rounds of the whole run. Such a run cannot go on with more
        rounds.
        """
        return False

    @property
    def wants_throughput(self) -> bool:
        """Return whether plans depend on the speed of the clients (Task.throughputs). Devices are then asked to measure
        it.
        """
        return False

    def brief(self, steps: int, examples: int) -> tuple[Algorithm, int]:
        """Client: return the method with so few passes, and so few samples, that a round has about `steps` steps.

        Trials use this short form. The second result is the number of training samples.
        """
        return self, examples

    def trials(self, task: Task, state: State, examples: int, round: int) -> Sequence[tuple[Plan, Workload]]:
        """Client: return plans whose work differs as much as possible, for `examples` training samples, with each
        plan's work.

        A device trains each plan for a moment to measure its throughput. The server never sends these plans.
        """
        return ()

    @property
    def remembers(self) -> bool:
        """Return whether a client keeps anything between rounds: its state, or what early stopping compares."""
        return self.keeps_state

    @property
    def needs_validation(self) -> bool:
        """Return whether training reads validation samples. Every client then needs at least one validation sample."""
        return False

    def effort(self, examples: int) -> tuple[int, int]:
        """Client: return the gradient steps of a round over `examples` training samples, and the samples in these
        steps.

        A device compares this effort with its time limit before a round begins. 0 steps stand for a negligible effort.
        """
        return 0, 0

    def adaptation(self, examples: int) -> tuple[int, int]:
        """Client: return the gradient steps over `examples` training samples that `own` takes before a test, and the
        samples in these steps.

        0 steps: the model is tested as it is. Metrics count this work apart from the rounds.
        """
        return 0, 0

    def steps(self, examples: int) -> int | None:
        """Return the number of gradient steps of a client with `examples` training samples in a round.

        The result is None if the method does not say.
        """
        return None

    def single_value_norm(self, task: Task, client: int) -> str:
        """Return the name of the first batch normalisation that sees one value per channel in a sample.

        It is looked for among the layers that the client trains. Such a client needs two training samples, and batches
        of two. The name is empty if there is no such layer.
        """
        return ""

    def flops(self, graph: Graph, examples: int) -> float | None:
        """Client: return the floating point operations of a round over `examples` training samples.

        They are counted as in papers (neurons/sparse_cost.py) and not as they are executed. The result is None if the
        method does not say.
        """
        return None

    def untrained(self, state: State, initial: Params) -> Params:
        """Return the personal model of a client that has never been selected: w^0 (Alg. 1 line 2)."""
        return initial

    @contextmanager
    def own(self, client_state: ClientState, shared: Params | None) -> Iterator[OwnModel]:
        """Client: yield the personal model, or the model adapted to the client, for the length of the with block.

        shared  part of the server's state: the body, where the personal model is a head on a common body, or the model
                to adapt. None where the learner holds the client's own model
        """
        yield OwnModel(client_state.learner, client_state.data)

    @contextmanager
    def newcomer(self, client_state: ClientState, arrays: Mapping[str, Params]) -> Iterator[OwnModel]:
        """Client: yield the model of a client that has never taken part, for the length of the with block.

        Unless a method says otherwise, it is the model of all clients, adapted as before any test.

        client_state  client without anything of its own. Its learner holds w^0
        arrays        arrays of the server's state
        """
        if MODEL in arrays:
            client_state.learner.write({name: arrays[MODEL][name] for name in client_state.spec.exchanged})
        with self.own(client_state, self.shared(arrays)) as mine:
            yield mine

    @property
    def has_newcomers(self) -> bool:
        """Return whether the server has anything for a client that has never taken part."""
        return not self.keeps_model or type(self).newcomer is not Algorithm.newcomer

    def evaluate(self, client_state: ClientState, shared: Params | None) -> Evaluation:
        """Client: evaluate `own` on the client's test samples."""
        with self.own(client_state, shared) as model:
            return model.evaluate(client_state.test)

    def refreshes(self, task: Task, state: State, round: int, clients: Sequence[int]) -> list[Plan]:
        """Server: return what these clients would download in this round for an evaluation after it, in the order of
        `clients`.

        Unless a method says otherwise, a client downloads everything that all clients share.
        """
        parts = {MODEL: None, BODY: self.body_names(task.spec)}
        found = {part: names for part, names in parts.items() if part in state.arrays}
        payload = {part: take(state.arrays[part], task.spec, None, names=names) for part, names in found.items()}
        return [Plan("evaluate", round, client, payload=payload) for client in clients]

    def body_names(self, spec: ModelSpec) -> tuple[str, ...]:
        """Return the names of the parameters that the payload BODY has: all parameters without the head."""
        return spec.body

    @contextmanager
    def refreshed(self, client_state: ClientState, plan: Plan, epochs: int) -> Iterator[OwnModel]:
        """Client: yield the model that took the payload of a refresh plan and trained for `epochs` passes in the
        method's way.

        The model exists for the length of the with block and is not kept. For all methods the learning rate is `lr`,
        and the order of samples is that of round 0.
        """
        raise NotImplementedError(f"{self.name} does not define a refresh")
        yield  # the yield makes this function a generator

    @property
    def can_refresh(self) -> bool:
        """Return whether the method defines how a client trains after a refresh."""
        return type(self).refreshed is not Algorithm.refreshed

    def held(self, client_state: ClientState) -> Sequence[Mask]:
        """Client: return the masks that the client keeps, the mask in use first. Values at these masks may come without
        ids.

        The server knows the last mask that it aggregated. It has not aggregated a reply that came too late, though the
        client keeps the result of that training. A method that moves masks therefore also keeps the mask before the
        move.
        """
        return ()

    def scored(self, parts: Collection[str]) -> Scored | None:
        """Return the name in the metrics of the models that `evaluate` tests, or None if only the model of all clients
        is tested.

        parts  names of the arrays of the server's state
        """
        if self.adapts:
            return "adapted"
        return "personal" if self.keeps_model or BODY in parts else None

    def shared(self, arrays: Mapping[str, Params]) -> Params | None:
        """Return the part of the server's state, among these arrays, that `evaluate` gets as its argument."""
        return arrays.get(MODEL if self.adapts else BODY)

    def beside(self, parts: Collection[str]) -> tuple[str, ...]:
        """Return the names of the arrays of the server's state that `shared` needs in addition to model and body.

        These are running statistics, which an evaluation on devices sends with the model.
        """
        return ()
