"""A served run without sockets: a coordinator, a real store, and devices that train, in one deterministic loop.

Nothing happens by itself: a test delivers messages, saves records, cuts connections and restarts either side. `finish`
does what remains in a fixed order. The same run without a network is `simulated`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from edgefl import rng
from edgefl.experiment.data.split import Split
from edgefl.experiment.federation import Federation
from edgefl.experiment.settings import Settings
from edgefl.learning import Evaluation, GraphLearner, Samples
from edgefl.methods import FedSPU
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.client_state import ClientState, evaluate
from edgefl.methods.rounds.adaptation import ADAPTATION, Adaptation, own_scores
from edgefl.methods.rounds.client_round import trained
from edgefl.methods.rounds.exchange import plan_of, trained_message
from edgefl.methods.task import MODEL, State, Task
from edgefl.models.graph import Graph, Model, Node
from edgefl.models.graph.operations import Linear, ReLU
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.update import values
from edgefl.protocol.wire.messages import (
    AdaptationReport,
    AdaptationWork,
    Evaluate,
    Evaluated,
    Finished,
    Message,
    Scores,
    Train,
    Trained,
    Verdict,
)
from edgefl.server.coordinator import Coordinator
from edgefl.server.events import (
    Action,
    Admit,
    Claim,
    Close,
    DeviceJoined,
    DeviceLeft,
    Event,
    MessageReceived,
    Record,
    RecordSaved,
    RunCompleted,
    Save,
    Say,
    Send,
    Tick,
    WakeAt,
)
from edgefl.server.round_rules import Rules
from edgefl.server.store import Store
from edgefl.study.simulation.journal import Journal, read_metrics
from edgefl.study.simulation.round_loop import simulate

CLIENTS, SAMPLES = 4, 12
GRAPH = Graph(
    (3,),
    (Node("fc1", Linear(3, 8), ("input",)), Node("relu", ReLU(), ("fc1",)), Node("fc2", Linear(8, 3), ("relu",))),
)
SPEC = ModelSpec.of(GRAPH)
INITIAL = GRAPH.init(rng.stream(1, rng.INIT))
METHOD = FedSPU(keep=(0.5, 1.0), per_round=3, epochs=1, batch=4, lr=0.1)
RULES = Rules(rounds=4, eval_every=2, wait_for=CLIENTS)
TASK = Task(SPEC, CLIENTS, seed=1, rounds=RULES.rounds, graph=GRAPH)


def _data() -> Samples:
    stream = rng.stream(7, rng.DATA)
    y = stream.below(np.full(CLIENTS * SAMPLES, 3)).astype(np.int32)
    x = stream.uniform(3 * len(y)).astype(np.float32).reshape(-1, 3)
    x[np.arange(len(y)), y] += 1
    return Samples(x, y)


def _split(client: int) -> Split:
    first = client * SAMPLES
    train, validation, test = np.split(np.arange(first, first + SAMPLES, dtype=np.int32), [7, 9])
    return Split(train, validation, test)


FEDERATION = Federation(GRAPH, _data(), tuple(map(_split, range(CLIENTS))), seed=1)


def simulated(path: Path, method: Algorithm = METHOD, rules: Rules = RULES) -> tuple[State, list[dict[str, Any]]]:
    """Return what simulate makes of the run: its final state and metrics."""
    journal = Journal(path)
    settings = Settings(
        rules.rounds, rules.eval_every, values=rules.values, aggregation_settings=rules.aggregation_settings
    )
    state = simulate(method, FEDERATION, settings, journal)
    journal.close()
    return state, list(read_metrics(path))


class Phone:
    """A device: its personal model, private values and unacknowledged reply are durable, everything else is not."""

    def __init__(self, client: int, method: Algorithm) -> None:
        self.client, self.method = client, method
        self.model = {name: value.copy() for name, value in INITIAL.items()}
        self.private: dict[str, Any] = {}
        self.round = 0  # the last one that was acknowledged
        self.pending: Trained | None = None
        self.arrays: dict[str, Any] = {}
        self._after: tuple[dict[str, Any], dict[str, Any], dict[str, Any]] = {}, {}, {}
        self.deferred: list[Message] = []
        self.finished = False
        self.kept = 0  # the round after which it kept what it has, 0 for nothing
        self.lives, self.before, self.is_heard, self.is_new = 1, 0, False, True

    def receive(self, message: Message) -> list[Trained | Evaluated]:
        if isinstance(message, Finished):
            self.finished = True
        elif isinstance(message, Verdict):
            return self._acknowledge(message)
        elif self.pending is not None:
            self.deferred.append(message)
        elif isinstance(message, Train) and message.round > self.round:
            return [self._train(message)]
        elif isinstance(message, Evaluate):
            return [self._evaluate(message)]
        return []

    def restart(self) -> None:
        self.deferred = []
        if self.is_heard:
            self.lives, self.before, self.is_heard = self.lives + 1, self.lives, False

    def claim(self) -> Claim:
        """Return what the client says that it holds."""
        life, before = (b"%d" % each if each else b"" for each in (self.lives, self.before))
        return Claim(self.kept, 0 if self.pending is None else self.pending.round, life, before, self.is_new)

    def heard(self) -> None:
        """The server has welcomed it."""
        self.is_heard, self.is_new = True, False

    def _acknowledge(self, verdict: Verdict) -> list[Trained | Evaluated]:
        if self.pending is not None and self.pending.round == verdict.round:
            if verdict.outcome != "refused":
                self.model, self.private, self.arrays = self._after
                self.kept = verdict.round
            self.round, self.pending = verdict.round, None
        deferred, self.deferred = self.deferred, []
        return [answer for message in deferred for answer in self.receive(message)]

    def _train(self, message: Train) -> Trained:
        client_state = self._client_state(self.model)
        plan = plan_of(message, self.client, SPEC, self.method.held(client_state))
        reply, _ = trained(self.method, GRAPH, client_state, plan, lambda: 0.0)
        self._after = client_state.learner.read(), client_state.private, client_state.arrays
        self.pending = trained_message(reply, plan, SPEC, "float32", 0.5)
        return self.pending

    def _evaluate(self, message: Evaluate) -> Evaluated:
        shared, mine = None, self._client_state(self.model)
        if MODEL in message.payload:
            client_state = self._client_state(INITIAL)
            client_state.learner.write(plan_of(_as_train(message), 0, SPEC).payload[MODEL])
            shared = _scores(client_state)
            if not self.round:
                mine = self._client_state(self.method.untrained(State({MODEL: client_state.learner.read()}), INITIAL))
        own = self._own_scores(mine, message) if message.personal else None
        scores = None if own is None else Scores(own[0].loss_sum, own[0].correct, own[0].examples)
        if ADAPTATION not in message.payload or own is None:
            return Evaluated(message.round, scores, shared)
        return AdaptationReport(message.round, scores, shared, AdaptationWork(*own[1]))

    def _own_scores(self, mine: ClientState, message: Evaluate) -> tuple[Evaluation, Adaptation]:
        arrays = {part: values(update) for part, update in plan_of(_as_train(message), 0, SPEC).payload.items()}
        shared = self.method.shared(arrays)
        found, work = own_scores(self.method, mine, shared, [mine.test], lambda: 0.0)
        return found[0], work

    def _client_state(self, params: dict[str, Any]) -> ClientState:
        learner = GraphLearner(Model(GRAPH, {name: value.copy() for name, value in params.items()}))
        split = FEDERATION.clients[self.client]
        parts = split.train, split.validation, split.test
        return ClientState(
            self.client, 1, SPEC, learner, FEDERATION.data, *parts, dict(self.private), dict(self.arrays)
        )


def _as_train(message: Evaluate) -> Train:
    payload = {part: data for part, data in message.payload.items() if part != ADAPTATION}
    return Train(message.round, b"", payload, {}, None, True)


def _scores(client_state: ClientState) -> Scores:
    found = evaluate(client_state)
    return Scores(found.loss_sum, found.correct, found.examples)


def open_store(path: Path) -> Store:
    """A store that does not wait for the disk: these tests kill processes, not computers."""
    store = Store(path)
    store._database.execute("PRAGMA synchronous = OFF")
    return store


class World:
    """One server and its devices. Time is `now`, which only tests move.

    dead                  clients that never connect
    to_server, to_device  messages on their way, by client
    unsaved               records that the coordinator wants to be durable
    """

    def __init__(self, path: Path, method: Algorithm = METHOD, rules: Rules = RULES) -> None:
        self.path, self.method, self.rules = path, method, rules
        self.phones = [Phone(client, method) for client in range(CLIENTS)]
        self.now, self.links = 0.0, 0
        self.dead: set[int] = set()
        self.saved: list[Record] = []
        self.closes: list[str] = []
        self.said: list[str] = []
        self.accepting: set[int] = set()  # clients whose next loss is accepted
        self.store = open_store(path)
        self._begin()

    def _begin(self) -> None:
        self.unsaved: deque[Record] = deque()
        self.link_of: dict[int, int] = {}
        self.to_server: dict[int, deque[Message]] = {client: deque() for client in range(CLIENTS)}
        self.to_device: dict[int, deque[Message]] = {client: deque() for client in range(CLIENTS)}
        self.done = False
        self.wake: float | None = None
        how = self.rules.asynchronous
        progress = self.store.load(max_staleness=None if how is None else how.max_staleness)
        self.coordinator = Coordinator(TASK, self.method, self.rules, INITIAL, progress, accepting=self.accepting)
        self._carry_out(self.coordinator.start(self.now))

    def restart_server(self) -> None:
        """SIGKILL: what the store has not saved is lost, and so are all connections and what was on its way."""
        self.store.close()
        self.store = open_store(self.path)
        for phone in self.phones:
            phone.restart()
        self._begin()

    def connect(self, client: int, capacity: float = 1.0) -> None:
        self.links += 1
        self.link_of[client] = self.links
        self.to_server[client].clear()
        self.to_device[client].clear()
        self.phones[client].restart()
        claim = self.phones[client].claim()
        self.happen(DeviceJoined(self.links, client, capacity, claim.pending, claim=claim))

    def disconnect(self, client: int) -> None:
        link = self.link_of.pop(client, None)
        if link is not None:
            self.happen(DeviceLeft(link))

    def happen(self, event: Event) -> None:
        self._carry_out(self.coordinator.handle(event, self.now))

    def save(self, count: int | None = None) -> None:
        """Save the waiting records, or the first `count`, as one batch. The coordinator hears of each."""
        batch = [self.unsaved.popleft() for _ in range(len(self.unsaved) if count is None else count)]
        self.store.save(batch)
        self.saved += batch
        for record in batch:
            self.happen(RecordSaved(record))

    def deliver_to_device(self, client: int) -> None:
        answers = self.phones[client].receive(self.to_device[client].popleft())
        self.to_server[client].extend(answers)

    def deliver_to_server(self, client: int) -> None:
        self.happen(MessageReceived(self.link_of[client], self.to_server[client].popleft()))  # type: ignore[arg-type]

    def steps(self) -> list[Callable[[], None]]:
        """Everything that can happen next without a fault."""
        found: list[Callable[[], None]] = [lambda: self.save(1)] if self.unsaved else []
        for client in range(CLIENTS):
            if client in self.dead:
                continue
            if client not in self.link_of:
                found.append(lambda client=client: self.connect(client))  # type: ignore[misc]
                continue
            if self.to_device[client]:
                found.append(lambda client=client: self.deliver_to_device(client))  # type: ignore[misc]
            if self.to_server[client]:
                found.append(lambda client=client: self.deliver_to_server(client))  # type: ignore[misc]
        return found

    def finish(self) -> None:
        """Runs to the end without faults. Where nothing is left to do but wait, the time of the next deadline comes."""
        while True:
            steps = self.steps()
            if steps:
                steps[0]()
            elif self.wake is not None:
                self.wait()
            else:
                return

    def wait(self) -> None:
        """The time that the coordinator wants to be woken at has come."""
        assert self.wake is not None
        self.now, self.wake = self.wake, None
        self.happen(Tick())

    def _carry_out(self, actions: list[Action]) -> None:
        clients = {link: client for client, link in self.link_of.items()}
        for action in actions:
            if isinstance(action, Save):
                self.unsaved.append(action.record)
            elif isinstance(action, RunCompleted):
                self.done = True
            elif isinstance(action, WakeAt):
                self.wake = action.time
            elif isinstance(action, Admit):
                assert self.link_of[action.client] == action.link
                self.phones[action.client].heard()
                if (pending := self.phones[action.client].pending) is not None:
                    self.to_server[action.client].append(pending)
            elif isinstance(action, Say):
                self.said.append(action.line)
            elif isinstance(action, Send) and action.link in clients:
                self.to_device[clients[action.link]].append(action.message)
            elif isinstance(action, Close):
                self.closes.append(action.reason)
                if action.link in clients:
                    self.link_of.pop(clients[action.link])
