"""Draws of neurons that the clients of a tier share, and rounds that take equally many clients of each tier."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from edgefl.methods import FedSPU, FedSPUCached, RandomDropout
from edgefl.methods.plan import Plan
from edgefl.methods.task import Task
from edgefl.models.graph import architectures
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.rng import INIT, stream

GRAPH = architectures.build("feddyn_mlp", (1, 8, 8), 10)
TASK = Task(ModelSpec.of(GRAPH), 20, seed=5, graph=GRAPH)
KEEP = (0.2, 0.4, 0.6, 0.8, 1.0)
METHODS = {
    "fedspu": FedSPU(per_round=10, draws="shared"),
    "fedspu-cached": FedSPUCached(per_round=10, draws="shared"),
    "random-dropout": RandomDropout(per_round=10, draws="shared"),
}


def planned(method: FedSPU | RandomDropout, round: int, task: Task = TASK) -> list[Plan]:
    state = method.start(task, GRAPH.init(stream(5, INIT)))
    return method.plan(task, state, round)


def tiers(plans: list[Plan]) -> Counter[float]:
    return Counter(float(plan.settings["keep"]) for plan in plans)


def hashes(plans: list[Plan]) -> dict[float, set[bytes]]:
    """Return the hashes of the neurons of a round's clients, by their share."""
    found: dict[float, set[bytes]] = {}
    for plan in plans:
        assert plan.selection is not None
        found.setdefault(float(plan.settings["keep"]), set()).add(plan.selection.hash())
    return found


@pytest.mark.parametrize("name", METHODS)
def test_clients_of_a_tier_train_the_same_neurons(name: str) -> None:
    first, second = (hashes(planned(METHODS[name], round)) for round in (1, 2))
    assert set(first) == set(KEEP) and all(len(each) == 1 for each in first.values())
    assert len(set.union(*first.values())) == 5, "tiers draw apart"
    assert all(first[keep] != second[keep] for keep in KEEP[:-1]), "rounds draw apart"


@pytest.mark.parametrize("name", METHODS)
def test_a_round_takes_equally_many_clients_of_each_tier(name: str) -> None:
    chosen = [planned(METHODS[name], round) for round in range(1, 30)]
    assert all(tiers(plans) == dict.fromkeys(KEEP, 2) for plans in chosen)
    assert len({plan.client for plans in chosen for plan in plans}) == 20, "everybody has turns"
    assert all([plan.client for plan in plans] == sorted({plan.client for plan in plans}) for plans in chosen)


def test_what_is_left_over_goes_to_the_tiers_in_turns() -> None:
    found = [tiers(planned(replace(METHODS["fedspu"], per_round=7), round)) for round in range(1, 6)]
    assert all(sum(each.values()) == 7 and set(each.values()) == {1, 2} for each in found)
    assert sum(found, Counter()) == dict.fromkeys(KEEP, 7)


def test_a_client_with_a_limit_joins_the_draw_of_its_share() -> None:
    """Client 19 is of the last tier and trains at most .2 of the neurons, as the first tier does."""
    plans = planned(METHODS["fedspu"], 1, replace(TASK, limits={19: 0.2}, candidates=frozenset({0, 1, 19})))
    assert [plan.client for plan in plans] == [0, 1, 19]
    assert len(hashes(plans)[0.2]) == 1


def test_own_draws_are_as_they_were() -> None:
    plans = planned(FedSPU(per_round=20), 1)
    assert all(len(each) == 4 for keep, each in hashes(plans).items() if keep < 1)
