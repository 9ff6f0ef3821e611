"""A coordinator to play events to, with a method whose state is a sum that a reader can check."""

from __future__ import annotations

from typing import Any, ClassVar

from edgefl.methods.accumulator import Accumulator
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.client_state import ClientState
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.task import State, Task
from edgefl.models.graph import Graph, Node, Params
from edgefl.models.graph.operations import Linear
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.protocol.wire.messages import Evaluated, Scores, Train, Trained
from edgefl.rng import INIT, stream
from edgefl.server.coordinator import Coordinator
from edgefl.server.events import Action, DeviceJoined, Record, RecordSaved, Save, Send
from edgefl.server.round_rules import Rules
from edgefl.server.run_progress import Progress

GRAPH = Graph((2,), (Node("fc1", Linear(2, 4), ("input",)), Node("fc2", Linear(4, 2), ("fc1",))))
INITIAL = GRAPH.init(stream(1, INIT))


class Sum(Algorithm):
    """Asks clients 0 and 1 (and 2, if it is `wide`) in every round, and adds up their examples. Nothing is sent."""

    name: ClassVar[str] = "sum"
    keeps_model: ClassVar[bool] = True
    keeps_state: ClassVar[bool] = True

    def __init__(self, clients: int = 2) -> None:
        self.clients = clients

    def start(self, task: Task, initial: Params) -> State:
        return State({}, {"total": 0})

    def plan(self, task: Task, state: State, round: int) -> list[Plan]:
        return [Plan("train", round, client) for client in range(self.clients)]

    def aggregate(self, accumulator: Accumulator, plan: Plan, reply: Reply) -> None:
        accumulator.reported.append(reply.examples)

    def finish(self, task: Task, state: State, accumulator: Accumulator, round: int) -> State:
        return State({}, {"total": state.values["total"] + sum(accumulator.reported)})

    def train(self, client_state: ClientState, plan: Plan) -> Reply:
        raise AssertionError("a coordinator trains nothing")


RULES = Rules(rounds=2, eval_every=2, wait_for=2)


def coordinator(
    rules: Rules = RULES, method: Algorithm | None = None, clients: int = 3, progress: Progress | None = None
) -> Coordinator:
    task = Task(ModelSpec.of(GRAPH), clients, seed=1)
    return Coordinator(task, method or Sum(), rules, INITIAL, progress or Progress())


def train(round: int, deadline_s: float | None = None) -> Train:
    return Train(round, b"", {}, {}, deadline_s, True)


def trained(round: int, examples: int = 5, loss: float = 0.5) -> Trained:
    return Trained(round, {}, b"", examples, 1, "on", {"loss": loss}, 0.25)


def scores(round: int, correct: int = 1) -> Evaluated:
    return Evaluated(round, Scores(2.0, correct, 4), None)


def asks(link: int, message: Any) -> Send:
    return Send(link, message)


def play(under_test: Coordinator, *events: Any, now: float = 0.0) -> list[Action]:
    """Return the actions of all events. Every record is durable at once, in order."""
    done: list[Action] = []
    for event in events:
        todo = under_test.handle(event, now)
        while todo:
            action = todo.pop(0)
            done.append(action)
            if isinstance(action, Save):
                todo += under_test.handle(RecordSaved(action.record), now)
    return done


def saved(actions: list[Action]) -> list[Record]:
    return [action.record for action in actions if isinstance(action, Save)]


def begun(rules: Rules = RULES, method: Algorithm | None = None) -> Coordinator:
    """Return a coordinator in round 1. Clients 0 and 1 are connected on links 10 and 11."""
    under_test = coordinator(rules, method)
    assert under_test.start(0.0) == []
    play(under_test, DeviceJoined(10, 0, 1.0, 0), DeviceJoined(11, 1, 1.0, 0))
    return under_test
