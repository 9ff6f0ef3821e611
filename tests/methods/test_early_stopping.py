"""FedSPU+ES: when a client stops, and what the server does then (ALGORITHMS 2). Losses are made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from edgefl import rng
from edgefl.errors import TrainingError
from edgefl.learning import Evaluation, FitResult
from edgefl.methods.accumulator import Accumulator
from edgefl.methods.client_state import ClientState
from edgefl.methods.early_stopping import train
from edgefl.methods.fedspu import FedSPU
from edgefl.methods.plan import Reply
from edgefl.methods.task import MODEL, State, Task
from edgefl.models.graph import Params
from edgefl.models.neurons.model_spec import ModelSpec
from tests.methods.held import Held
from tests.methods.small_models import copied, device, plain, same_bits

ES = FedSPU(keep=(0.5,), per_round=2, epochs=1, batch=5, lr=0.1, es=True)


class ScriptedLearner(Held):
    """A learner whose training and held-out losses come from a list. It trains nothing."""

    def __init__(self, params: Params, losses: list[tuple[float, float]]) -> None:
        super().__init__(ModelSpec.of(plain()), params)
        self.losses = losses

    def fit(self, samples: Any, batches: Any, *rest: Any, **options: Any) -> FitResult:
        self.train, self.held = self.losses.pop(0)
        return FitResult(self.train * 12, 12, len(batches))

    def evaluate(self, samples: Any, index: Any) -> Evaluation:
        self.evaluated = index
        return Evaluation(self.held * len(index), 0, len(index))


def scripted(*losses: tuple[float, float]) -> ClientState:
    """A client that will report these (training, held-out) losses."""
    client_state = device(plain())
    return replace(client_state, learner=ScriptedLearner(copied(client_state.learner.read()), list(losses)))


def participate(algorithm: FedSPU, client_state: ClientState, rounds: int) -> list[Reply]:
    task = Task(client_state.spec, 2, seed=1)
    state = algorithm.start(task, copied(client_state.learner.read()))
    return [train(algorithm, client_state, algorithm.plan(task, state, round)[0]) for round in range(1, rounds + 1)]


def test_a_client_stops_when_its_loss_rises() -> None:
    """t_es_trace: losses 1.0, 0.9, 0.95 stop the client at its third participation."""
    replies = participate(ES, scripted((1.0, 1.0), (0.9, 0.9), (0.95, 0.95)), 3)
    assert [reply.status for reply in replies] == ["on", "on", "stopped"]
    assert [reply.metrics["L"] for reply in replies] == pytest.approx([1.0, 0.9, 0.95])


@pytest.mark.parametrize(
    ("change", "losses", "statuses"),
    [
        ({"es_patience": 2}, [1.0, 1.1, 1.0, 1.1, 1.2], ["on", "on", "on", "on", "stopped"]),
        ({"es_patience": 3}, [1.0, 1.1, 1.2, 1.3, 9.0], ["on", "on", "on", "stopped", "stopped"]),
        ({"es_tolerance": 0.0625}, [1.0, 1.0625, 1.125, 1.25], ["on", "on", "on", "stopped"]),
        ({"es_tolerance": 0.0625, "es_ties": "stop"}, [1.0, 1.0625], ["on", "stopped"]),
    ],
)
def test_patience_waits_for_rises_in_a_row_and_tolerance_for_large_ones(
    change: dict[str, Any], losses: list[float], statuses: list[str]
) -> None:
    client_state = scripted(*((loss, loss) for loss in losses))
    replies = participate(replace(ES, **change, lam=0.5), client_state, len(losses))
    assert [reply.status for reply in replies] == statuses
    assert ("rises" in client_state.private) == ("es_patience" in change)  # the paper's rule keeps no count


def test_patience_and_tolerance_out_of_range_are_refused() -> None:
    for name, value in (("es_patience", 0), ("es_tolerance", -1.0)):
        with pytest.raises(ValueError, match=f"{name}={value}; expected"):
            replace(ES, **{name: value})


def test_the_first_participation_never_stops() -> None:
    assert participate(ES, scripted((1e30, 1e30)), 1)[0].status == "on"


@pytest.mark.parametrize(("ties", "status"), [("continue", "on"), ("stop", "stopped")])
def test_a_constant_loss_stops_only_where_ties_stop(ties: str, status: str) -> None:
    """t_es_tie: strict comparison is Alg. 2, the released code stops on equality."""
    replies = participate(replace(ES, es_ties=ties), scripted((1.0, 1.0), (1.0, 1.0)), 2)
    assert replies[1].status == status


@pytest.mark.parametrize(
    ("lam", "first_loss", "statuses"),
    [
        (1.0, 1.0, ["on", "on", "stopped"]),
        (0.0, 2.0, ["on", "stopped", "stopped"]),
        (0.7, 1.3, ["on", "on", "stopped"]),
    ],
)
def test_lam_weighs_training_against_held_out_loss(lam: float, first_loss: float, statuses: list[str]) -> None:
    """lam = 1 looks only at the training losses 1, .5, .6, and lam = 0 only at the held-out losses 2, 3, ..."""
    replies = participate(replace(ES, lam=lam), scripted((1.0, 2.0), (0.5, 3.0), (0.6, 3.0)), 3)
    assert replies[0].metrics["L"] == pytest.approx(first_loss)
    assert [reply.status for reply in replies] == statuses


def test_the_losses_of_a_client_fall_strictly_until_it_stops() -> None:
    losses = [(loss, loss) for loss in (1.0, 0.8, 0.7, 0.71)]
    trace = [reply.metrics["L"] for reply in participate(ES, scripted(*losses), 4)]
    assert trace[0] > trace[1] > trace[2] < trace[3]


@pytest.mark.parametrize(("es_set", "held_out"), [("carve", "validation"), ("test", "test")])
def test_the_held_out_samples_are_the_carved_ones_or_the_test_set(es_set: str, held_out: str) -> None:
    client_state = scripted((1.0, 1.0))
    participate(replace(ES, es_set=es_set), client_state, 1)
    assert client_state.learner.evaluated is getattr(client_state, held_out)


def test_early_stopping_without_held_out_samples_is_refused() -> None:
    client_state = replace(scripted((1.0, 1.0)), validation=np.empty(0, np.int32))
    with pytest.raises(TrainingError, match="client 0 has 0 validation samples; early stopping needs at least 1"):
        participate(ES, client_state, 1)


def test_a_restarted_stopped_client_answers_without_training() -> None:
    """Private values are all that survives the restart. The scripted learner would fail if it were asked to train."""
    client_state = replace(scripted(), private={"L_prev": 0.5, "status": "stopped"})
    before = copied(client_state.learner.read())
    reply = participate(ES, client_state, 1)[0]
    assert (reply.status, dict(reply.payload), reply.examples) == ("stopped", {}, 0)
    assert same_bits(before, copied(client_state.learner.read()))


def reply_to(plan: Any, status: str) -> Reply:
    """A client that returns what it got."""
    return Reply(plan.round, plan.client, plan.payload, plan.selection.hash(), 5, 1, status)


def play(algorithm: FedSPU, clients: int, stops: dict[int, int], rounds: int) -> tuple[State, list[list[int]]]:
    """Run the server against clients that stop at the given round. Return the state, and the clients of each round."""
    graph = plain()
    task = Task(ModelSpec.of(graph), clients, seed=1)
    state = algorithm.start(task, graph.init(rng.stream(1, rng.INIT)))
    took_part = []
    for round in range(1, rounds + 1):
        plans = algorithm.plan(task, state, round)
        if not plans:
            break
        took_part.append([plan.client for plan in plans])
        accumulator = Accumulator(task.spec)
        for plan in plans:
            algorithm.aggregate(
                accumulator, plan, reply_to(plan, "stopped" if round >= stops.get(plan.client, 99) else "on")
            )
        state = algorithm.finish(task, state, accumulator, round)
    return state, took_part


def test_a_stopped_client_is_averaged_once_more_and_never_selected_again() -> None:
    graph = plain()
    task = Task(ModelSpec.of(graph), 2, seed=1)
    state = ES.start(task, graph.init(rng.stream(1, rng.INIT)))
    plan = ES.plan(task, state, 1)[0]
    ones = {name: np.ones_like(block.values) for name, block in plan.payload[MODEL].blocks.items()}
    blocks = {name: replace(block, values=ones[name]) for name, block in plan.payload[MODEL].blocks.items()}
    reply = Reply(
        1, plan.client, {MODEL: replace(plan.payload[MODEL], blocks=blocks)}, plan.selection.hash(), 5, 1, "stopped"
    )
    accumulator = Accumulator(task.spec)
    ES.aggregate(accumulator, plan, reply)
    state = ES.finish(task, state, accumulator, 1)
    assert state.values["running"] == [1]
    assert state.arrays[MODEL]["fc.bias"].tolist() == [1, 1, 1]
    assert [p.client for p in ES.plan(task, state, 2)] == [1]


def test_the_run_ends_when_nobody_is_left() -> None:
    """Termination, and the two rounds that a report may mean: fewer than C running, and none."""
    state, took_part = play(ES, 3, {0: 2, 1: 1, 2: 1}, rounds=50)
    assert state.values["running"] == []
    assert state.values["round_lt_C"] <= state.values["round_empty"] == len(took_part) < 50
    assert all(len(clients) <= ES.per_round for clients in took_part)


def test_fewer_than_c_running_clients_are_all_selected() -> None:
    state, took_part = play(ES, 3, {1: 1, 2: 1}, rounds=8)
    assert took_part[-1] == [0]
    assert state.values["round_empty"] is None
    assert state.values["round_lt_C"] is not None


def test_as_many_running_clients_as_are_selected_are_enough() -> None:
    """Three clients, two in a round: the first that stops leaves two, the second one too few."""
    state, _ = play(ES, 3, {0: 1}, rounds=8)
    assert (state.values["running"], state.values["round_lt_C"]) == ([1, 2], None)
    state, took_part = play(ES, 3, {0: 1, 1: 5}, rounds=8)
    first = next(round for round, clients in enumerate(took_part, 1) if round >= 5 and 1 in clients)
    assert (state.values["running"], state.values["round_lt_C"]) == ([2], first)


def test_running_clients_never_increase_and_participations_stay_below_c_t() -> None:
    _, took_part = play(ES, 5, {0: 1, 1: 3, 2: 4, 3: 2, 4: 6}, rounds=30)
    counts = [len(clients) for clients in took_part]
    assert counts == sorted(counts, reverse=True)
    assert sum(counts) <= ES.per_round * 30


def test_without_early_stopping_nobody_stops() -> None:
    replies = participate(replace(ES, es=False), scripted((1.0, 1.0), (9.0, 9.0)), 2)
    assert [reply.status for reply in replies] == ["on", "on"]
    assert "L" not in replies[1].metrics
