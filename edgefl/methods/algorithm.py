"""What every federated method is made of: its five verbs and the values they exchange.

Not the round loop (simulation, server) and not the bytes (codec).
Source: ARCHITECTURE, "The types that carry everything".
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, NamedTuple, get_args, get_origin, get_type_hints
from warnings import warn

import numpy as np
from numpy.typing import NDArray

from edgefl import rng
from edgefl.learning.batches import Keyed, Minibatches
from edgefl.learning.learner import Evaluation, Learner, Samples
from edgefl.learning.losses import CROSS_ENTROPY, Loss
from edgefl.methods.aggregation import MEAN, AggregationRule
from edgefl.methods.expected_reply import ExpectedPayload
from edgefl.methods.throughput import Throughput, Workload
from edgefl.methods.weighted_mean import Mean
from edgefl.models.graph import Graph, Params
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.update import Update

MODEL = "model"  # the payload's name for the model's parameters
BODY = "body"  # and for those of all but its head, where every client has a head of its own

FORMER_VERBS = {"fold": "aggregate", "wants_pace": "wants_throughput"}  # a verb's name of before -> its name now

Status = Literal["on", "stopped"]
Scored = Literal["personal", "adapted"]


@dataclass(frozen=True)
class Task:
    """What server and clients agree on before round 1: the model, how many clients are registered, and the seed.

    limits      largest share of active neurons that a client is willing to train; those not listed have none
    examples    for training, of all clients together; 0: not known
    rounds      of the whole run, for what is annealed over it; 0: not known
    candidates  clients that may be chosen in the round that is being planned; None: all
    lost        clients that have lost what they kept, or some of it, since they last trained
    loss        what all minimise; outputs: how many the model has
    graph       the model's, for what is counted on it; None: not known
    paces       how fast clients are, of those that have measured it, as it holds in the round that is being planned
    """

    spec: ModelSpec
    clients: int
    seed: int
    limits: Mapping[int, float] = field(default_factory=dict)
    examples: int = 0
    rounds: int = 0
    candidates: AbstractSet[int] | None = None
    lost: AbstractSet[int] = frozenset()
    loss: Loss = CROSS_ENTROPY
    outputs: int = 0
    graph: Graph | None = field(default=None, repr=False)
    throughputs: Mapping[int, Throughput] = field(default_factory=dict)

    @property
    def decisions(self) -> int:
        """Of an example, those that are right or wrong; 0: none are."""
        return self.loss.decisions(self.outputs)


@dataclass
class State:
    """All that the server of a method must keep between rounds: named sets of arrays, and plain JSON values.

    Evaluated are arrays[MODEL], the model of all clients, and arrays[BODY] under the head of each client.
    """

    arrays: dict[str, Params]
    values: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """The server's message to one client for one round.

    masks       by names that no payload has
    held        a mask that the client keeps (Algorithm.held): the payload's values at it go without ids, and masks as
                what differs from it, both ways. It is not sent; at the client it is set where the server has shown that
                it knows it
    authorised  its answer carries what it trained; a client that is not trains as well, keeps what came of it in its
                private state, and answers without a payload
    expects     what the answer carries, by name; {} is nothing. None: values by the names of `payload`, where they were
    """

    kind: Literal["train", "evaluate"]
    round: int
    client: int
    selection: NeuronSet | None = None  # None: every neuron
    payload: Mapping[str, Update] = field(default_factory=dict)
    settings: Mapping[str, float | int | str | bool] = field(default_factory=dict)
    authorised: bool = True
    deadline_s: float | None = None
    masks: Mapping[str, Mask] = field(default_factory=dict)
    expects: Mapping[str, ExpectedPayload] | None = None
    held: Mask | None = field(default=None, compare=False)

    @property
    def due(self) -> Mapping[str, ExpectedPayload]:
        """What the answer carries, by name."""
        if not self.authorised:
            return {}
        return dict.fromkeys(self.payload, ExpectedPayload("planned")) if self.expects is None else self.expects


@dataclass(frozen=True)
class Reply:
    """The client's answer. `examples` is n_k, the number of training samples; `steps` the gradient steps taken.

    masks  by names that no payload has
    """

    round: int
    client: int
    payload: Mapping[str, Update] = field(default_factory=dict)
    selection_hash: bytes = b""
    examples: int = 0
    steps: int = 0
    status: Status = "on"
    metrics: Mapping[str, float] = field(default_factory=dict)
    masks: Mapping[str, Mask] = field(default_factory=dict)


@dataclass
class ClientState:
    """One client: its learner, its data and its private state. The same object in `simulate` and on a device.

    data     all samples the client can read; train, validation and test are int32 indices into them
    private  plain JSON values that persist between rounds and never leave the device
    arrays   named sets of arrays that do so too, beside the model; `model` is none of the names
    """

    client: int
    seed: int
    spec: ModelSpec
    learner: Learner
    data: Samples
    train: NDArray[np.int32]
    validation: NDArray[np.int32]
    test: NDArray[np.int32]
    private: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, Params] = field(default_factory=dict)


class OwnModel(NamedTuple):
    """A client's model as its method evaluates it.

    learner  that holds it
    samples  of the client; their labels are outputs of this model
    classes  what each output stands for; None: the classes of the data, in order
    known    of each sample whether its class is among them; None: all are
    neurons  that it has, of the model of all; None: every one
    """

    learner: Learner
    samples: Samples
    classes: Sequence[int] | None = None
    known: NDArray[np.bool_] | None = None
    neurons: NeuronSet | None = None

    def evaluate(self, index: NDArray[np.int32]) -> Evaluation:
        """On these samples. Those of a class that it has no output for count as wrong, each with the loss of a guess
        among its classes and one more.
        """
        fitting = index if self.known is None else index[self.known[index]]
        if len(fitting) == len(index):
            return self.learner.evaluate(self.samples, index)
        found = self.learner.evaluate(self.samples, fitting) if len(fitting) else Evaluation(0.0, 0, 0)
        lost = (len(index) - len(fitting)) * math.log(1 + len(self.classes or ()))
        return Evaluation(found.loss_sum + lost, found.correct, len(index))


class Accumulator:
    """What the accepted replies of one open round add up to. Thrown away when the round closes.

    masks  that clients sent, by client
    """

    def __init__(
        self, spec: ModelSpec, aggregation: AggregationRule = MEAN, old: Mapping[str, Params] | None = None
    ) -> None:
        """`aggregation`: which mean, of which some need `old`: by payload, what its values were before the round; those
        of a payload that is not in it are changes.
        """
        self._spec, self._aggregation, self._old = spec, aggregation, old or {}
        self._others: dict[str, Mean] = {}
        self.mean = self._new(MODEL)
        self.masks: dict[int, Mask] = {}
        self.reported: list[int] = []
        self.stopped: list[int] = []

    def of(self, payload: str) -> Mean:
        """The sums of a payload beside the model."""
        if payload not in self._others:
            self._others[payload] = self._new(payload)
        return self._others[payload]

    def settle(self) -> None:
        """Every reply has been added: the means may be read."""
        for mean in (self.mean, *self._others.values()):
            mean.settle()

    def _new(self, payload: str) -> Mean:
        """Over the parameters that the payload had before the round; over all where that is not known."""
        old = self._old.get(payload, {})
        params = {name: param for name, param in self._spec.params.items() if not old or name in old}
        return self._aggregation.mean(replace(self._spec, params=params), old)


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
                warn(f"{cls.__qualname__}.{before} is called {now} now", DeprecationWarning, stacklevel=3)
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
        """True if plans follow from how fast clients are (Task.paces): their devices are asked to measure it."""
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


def tier(keep: Sequence[float], client: int, clients: int) -> float:
    """p_k: the clients form len(keep) clusters of equal size in id order (sizes differ by one if they must)."""
    return keep[client * len(keep) // clients]


def check_tiers(keep: Sequence[float]) -> None:
    """Raises ValueError unless these are shares of the neurons, at least one."""
    check(len(keep) > 0, "keep", keep, "at least one tier")
    for p in keep:
        check(0 < p <= 1, "keep", p, "0 < keep <= 1")


def refuse(plan: Plan, reply: Reply) -> str | None:
    """Why a reply must not be aggregated, in one sentence; None if it may be. A refused reply counts as not
    reported.
    """
    who = f"reply of client {reply.client}"
    if reply.client != plan.client:
        return f"{who}; expected client {plan.client}"
    if reply.round != plan.round:
        return f"{who} for round {reply.round}; expected round {plan.round}"
    expected = b"" if plan.selection is None else plan.selection.hash()
    if reply.selection_hash != expected:
        return f"{who} has selection hash {reply.selection_hash.hex() or 'none'}; expected {expected.hex() or 'none'}"
    due, found = plan.due.keys(), reply.payload.keys() | reply.masks.keys()
    if found != due and (found or reply.status != "stopped"):
        return f"{who} has payloads {sorted(found)}; expected {sorted(due)}"
    if found and (reply.examples < 1 or reply.steps < 1):
        return f"{who} has {reply.examples} examples and {reply.steps} steps; expected at least 1"
    for payload, update in reply.payload.items():
        for name, block in update.blocks.items():
            if not np.isfinite(block.values).all():
                return f"{who} has a non-finite value in {payload}/{name}; expected finite values"
    for metric, value in reply.metrics.items():
        if not np.isfinite(value):
            return f"{who} has {metric}={value}; expected a finite value"
    return None


def sample_clients(task: Task, candidates: Sequence[int], count: int, round: int) -> list[int]:
    """`count` of the candidates without replacement, ascending; all of them if there are fewer (ALGORITHMS 2). Those
    that the task leaves out are none.
    """
    candidates = sorted(k for k in candidates if task.candidates is None or k in task.candidates)
    if count >= len(candidates):
        return candidates
    chosen = rng.stream(task.seed, rng.SELECT, round=round).sample(len(candidates), count)
    return [candidates[i] for i in chosen]


def passes(examples: int, epochs: int, batch: int) -> tuple[int, int]:
    """The effort of passes over so many samples in batches: steps, and samples seen."""
    return epochs * -(-examples // batch), epochs * examples


def minibatches(client_state: ClientState, round: int, epochs: int, batch: int, first: int = 0) -> Minibatches:
    """The client's training indices for `epochs` shuffled passes from pass number `first` of the round on, and where
    the stream of dropout is then. The last, smaller batch of a pass is kept.
    """

    def order(epoch: int) -> NDArray[np.int64]:
        stream = rng.stream(client_state.seed, rng.DATA, client=client_state.client, round=round, extra=first + epoch)
        return stream.permutation(len(client_state.train))

    steps, _ = passes(len(client_state.train), first, batch)
    return Minibatches(client_state.train, order, epochs, batch, Keyed(dropout_key(client_state, round), steps))


def dropout_key(client_state: ClientState, round: int) -> int:
    """Of what a client's training drops in a round."""
    return rng.stream(client_state.seed, rng.DROPOUT, client=client_state.client, round=round).key()


def evaluate(client_state: ClientState) -> Evaluation:
    """The model that the learner holds, on the client's own test samples."""
    return client_state.learner.evaluate(client_state.data, client_state.test)


def tested(reply: Reply, found: Evaluation) -> Reply:
    """The reply with what its client's model, as it is after training, does on the client's test samples."""
    if not found.decisions:
        return replace(reply, metrics={**reply.metrics, "tested_loss": found.loss_sum / found.examples})
    tested = float(found.examples * found.decisions)
    return replace(reply, metrics={**reply.metrics, "correct": float(found.correct), "tested": tested})


def check(ok: bool, name: str, value: object, expected: str) -> None:
    """Raises ValueError naming a hyper-parameter, its value and what was expected."""
    if not ok:
        raise ValueError(f"{name}={value}; expected {expected}")


def check_sgd(per_round: int, epochs: int, batch: int, lr: float) -> None:
    """The checks shared by every method that runs plain local SGD."""
    check(per_round >= 1, "per_round", per_round, "per_round >= 1")
    check(epochs >= 1, "epochs", epochs, "epochs >= 1")
    check(batch >= 1, "batch", batch, "batch >= 1")
    check(0 < lr < float("inf"), "lr", lr, "a finite lr > 0")


def check_choices(method: Algorithm) -> None:
    """Raises ValueError for a field declared as a Literal whose value is not among its choices."""
    for name, kind in get_type_hints(type(method)).items():
        if get_origin(kind) is Literal:
            check(getattr(method, name) in get_args(kind), name, getattr(method, name), " or ".join(get_args(kind)))
