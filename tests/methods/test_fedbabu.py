"""FedBABU: the body by hand, a head whose bits nobody changes, messages without it, and tests after fine-tuning."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgefl import rng
from edgefl.experiment.data.split import Split
from edgefl.experiment.federation import Federation
from edgefl.experiment.settings import Settings
from edgefl.learning import GraphLearner, Samples
from edgefl.learning.losses import MSE
from edgefl.methods import FedBABU
from edgefl.methods.accumulator import Accumulator
from edgefl.methods.client_state import ClientState
from edgefl.methods.task import MODEL, Task
from edgefl.models.graph import Graph, Model, Node
from edgefl.models.graph.operations import Linear
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.study.simulation.journal import Journal
from edgefl.study.simulation.round_loop import simulate
from tests.methods.small_models import GRAPHS, copied, device, plain, same_bits
from tests.methods.small_rounds import Rounds

LINE = Graph(
    (1,), (Node("body", Linear(1, 1, bias=False), ("input",)), Node("head", Linear(1, 1, bias=False), ("body",)))
)
BY_HAND = FedBABU(per_round=2, epochs=1, batch=8, lr=0.125)
OPTIONS: dict[str, Any] = {"per_round": 3, "epochs": 2, "batch": 5, "lr": 0.1}
METHOD = FedBABU(**OPTIONS, ft_epochs=2)
PARTS = ("full", "body", "head")


def line(body: float, head: float) -> dict[str, np.ndarray]:
    return {"body.weight": np.float32([[body]]), "head.weight": np.float32([[head]])}


def follower(client: int, target: float, count: int) -> ClientState:
    """A client of the model head * body * x, all of whose `count` samples have x = 1 and this target."""
    samples = Samples(np.ones((count, 1), np.float32), np.full((count, 1), target, np.float32), loss=MSE())
    rows, none = np.arange(count, dtype=np.int32), np.zeros(0, np.int32)
    learner = GraphLearner(Model(LINE, line(1, 2)), "reference")
    return ClientState(client, 1, ModelSpec.of(LINE), learner, samples, rows, none, rows)


def value(params: Any, name: str) -> float:
    return float(params[f"{name}.weight"].item())


def test_a_round_by_hand() -> None:
    """The gradient of (2 a - y)^2 by a is 4 (2 a - y): at a = 1 it is -8 for y = 4 and 8 for y = 0. So a step of 1/8
    leads to a = 2 and a = 0, whose mean over 1 and 3 samples is 1/2. The head stays 2.
    """
    clients = [follower(0, 4, count=1), follower(1, 0, count=3)]
    task, accumulator = Task(ModelSpec.of(LINE), 2, 1), Accumulator(ModelSpec.of(LINE))
    state = BY_HAND.start(task, line(1, 2))
    bodies = []
    for plan in BY_HAND.plan(task, state, 1):
        reply = BY_HAND.train(clients[plan.client], plan)
        bodies.append(reply.payload[MODEL].blocks["body.weight"].values.item())
        BY_HAND.aggregate(accumulator, plan, reply)
    after = BY_HAND.finish(task, state, accumulator, 1).arrays[MODEL]
    assert bodies == [2, 0]
    assert (value(after, "body"), value(after, "head")) == (0.5, 2)


@pytest.mark.parametrize(("part", "body", "head"), [("full", 2, 2.375), ("body", 2, 2), ("head", 0.5, 2.375)])
def test_a_fine_tuning_by_hand(part: Any, body: float, head: float) -> None:
    """At a = 1/2, h = 2 and y = 4 the gradient of (h a - y)^2 is 2 h (h a - y) = -12 by a, and 2 a (h a - y) = -3 by h.

    A step is 1/8 of it. The loss of the test is the loss of the model after it.
    """
    client_state, method = follower(0, 4, count=1), replace(BY_HAND, ft=part)
    with method.own(client_state, line(0.5, 2)) as own:
        assert (value(own.learner.read(), "body"), value(own.learner.read(), "head")) == (body, head)
    assert value(client_state.learner.read(), "head") == 2
    assert method.evaluate(client_state, line(0.5, 2)).loss_sum == (head * body - 4) ** 2


def test_a_fine_tuning_may_have_a_rate_of_its_own() -> None:
    """Half the rate is half the step: from a = 1/2 to 5/4."""
    client_state = follower(0, 4, count=1)
    with replace(BY_HAND, ft="body", ft_lr=0.0625, lr_decay=0.5).own(client_state, line(0.5, 2)) as own:
        assert value(own.learner.read(), "body") == 1.25


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_head_keeps_its_bits_and_is_in_no_message(graph: str) -> None:
    """Through the codec and the messages of both sides, for two rounds."""
    rounds = Rounds(METHOD, GRAPHS[graph]())
    spec, before = rounds.spec, copied(rounds.state.arrays[MODEL])
    for round in (1, 2):
        plans = rounds.plans(round)
        replies = [rounds.answer(plan) for plan in plans]
        for message in (*plans, *replies):
            assert message.payload.keys() == {MODEL}
            assert (
                message.payload[MODEL].blocks.keys() == set(spec.body) == spec.params.keys() - {"fc.weight", "fc.bias"}
            )
        after = rounds.close(plans, replies).arrays[MODEL]
        assert same_bits({n: after[n] for n in spec.head}, {n: before[n] for n in spec.head})
        assert all(after[name].tobytes() != before[name].tobytes() for name in spec.body if name.endswith("weight"))


def test_a_client_trains_under_the_common_head_and_leaves_it() -> None:
    """Weight decay pulls at the body alone, too, and a round after a test is the same as one without."""
    method = replace(METHOD, weight_decay=0.1)
    rounds, trained = Rounds(method), []
    (plan, *_) = rounds.plans(1)
    for tested in (False, True):
        client_state = device(plain())
        before = copied({name: client_state.learner.read()[name] for name in rounds.spec.head})
        if tested:
            method.evaluate(client_state, rounds.state.arrays[MODEL])
        reply = method.train(client_state, plan)
        trained.append({name: block.values for name, block in reply.payload[MODEL].blocks.items()})
        assert same_bits(dict(client_state.learner.read(rounds.spec.head)), before)
        assert client_state.private == {} and client_state.arrays == {}
    assert same_bits(*trained)


@pytest.mark.parametrize("part", PARTS)
def test_a_test_fine_tunes_that_part_and_leaves_the_model_of_all_alone(part: Any) -> None:
    """Running statistics follow the batches even where the head alone is fine-tuned. The biases of the convolutions
    have no gradient, as a batch norm follows.
    """
    method, model = replace(METHOD, ft=part), plain().init(rng.stream(5, rng.INIT))
    before, client_state = copied(model), device(plain())
    spec = client_state.spec
    with method.own(client_state, model) as own:
        moved = {name for name, found in own.learner.read().items() if found.tobytes() != before[name].tobytes()}
    statistics = {name for name, param in spec.params.items() if param.kind == "stat"}
    moving = spec.params.keys() - {"conv1.bias", "conv2.bias"}
    assert moved == {"full": moving, "body": moving - {*spec.head}, "head": {*spec.head, *statistics}}[part]
    assert same_bits(model, before)
    assert method.evaluate(client_state, model) == method.evaluate(client_state, model)


def test_after_a_refresh_a_client_is_tested_as_after_so_many_epochs_of_fine_tuning() -> None:
    """A device downloads the body alone, as in a round."""
    rounds = Rounds(METHOD)
    (plan,) = METHOD.refreshes(rounds.task, rounds.play(1), 2, [0])
    assert plan.payload[MODEL].blocks.keys() == set(rounds.spec.body)
    client_state = device(plain())
    with METHOD.refreshed(client_state, plan, 3) as own:
        found = own.evaluate(client_state.test)
    assert found == replace(METHOD, ft_epochs=3).evaluate(device(plain()), rounds.state.arrays[MODEL])


def test_simulate_runs_it(tmp_path: Path) -> None:
    parts = np.split(np.arange(30, dtype=np.int32), 3)
    splits = tuple(Split(part[:6], part[6:7], part[7:]) for part in parts)
    federation, journal = Federation(plain(), device(plain(), count=30).data, splits, seed=1), Journal(tmp_path)
    state = simulate(METHOD, federation, Settings(rounds=2, eval_every=1), journal)
    spec, initial = ModelSpec.of(plain()), plain().init(rng.stream(1, rng.INIT))
    assert same_bits({n: state.arrays[MODEL][n] for n in spec.head}, {n: initial[n] for n in spec.head})
    assert [journal.load_client_state(client) for client in range(3)] == [None] * 3
    for log_record in journal.metrics():
        assert log_record["evaluation"].keys() == {"adapted", "global_local"}
        values = 4 * sum(int(np.prod(spec.params[name].shape)) for name in spec.body)
        assert log_record["down"]["values"] == log_record["up"]["values"] == 3 * values
    journal.close()


def test_a_model_without_a_body_is_refused() -> None:
    graph = Graph((6,), (Node("fc", Linear(6, 5), ("input",)),))
    with pytest.raises(ValueError, match=r"model=head \['fc.weight', 'fc.bias'\] and body \[\]; expected both"):
        METHOD.start(Task(ModelSpec.of(graph), 4, 1), {})


@pytest.mark.parametrize(
    ("name", "value"), [("ft", "tail"), ("ft_epochs", 0), ("ft_lr", -1.0), ("ft_lr", float("inf"))]
)
def test_values_out_of_range_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{name}={value}; expected"):
        replace(METHOD, **{name: value})
