"""A sample of `python -m tests faults poison`: what a lying device does to a short run, simulated and over sockets."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgefl.methods import FedAvg
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.task import MODEL
from edgefl.models.neurons.update import Block, Update
from tests.faults import poison
from tests.faults.liars import ATTACKS, MOST, lying
from tests.faults.poison import DEFAULT, HONEST, Row, holds, served, simulated

SMALL = replace(poison.EXPERIMENT, clients=4, per_round=4, rounds=2, epochs=1, eval_every=2, checkpoint_every=2)


def update(value: float) -> dict[str, Update]:
    return {MODEL: Update({"w": Block((2,), None, np.full(2, value, np.float32))})}


@pytest.mark.parametrize(("attack", "value"), [("huge", 3e38), ("zeros", 0), ("nan", np.nan), ("flipped", 1 - 200)])
def test_what_a_liar_says(attack: str, value: float) -> None:
    reply = ATTACKS[attack](FedAvg(), Plan("train", 1, 0, payload=update(1)), Reply(1, 0, update(3), examples=9))
    assert np.array_equal(reply.payload[MODEL].blocks["w"].values, np.float32([value, value]), equal_nan=True)
    assert reply.examples == 9


def test_a_claim_comes_with_its_steps() -> None:
    reply = ATTACKS["claim"](FedAvg(epochs=1, batch=16), Plan("train", 1, 0), Reply(1, 0, update(3), examples=9))
    assert (reply.payload, reply.examples, reply.steps) == (update(3), MOST, 2**49)


def test_a_lying_method_is_told_by_nothing_but_its_replies() -> None:
    method = FedAvg(per_round=3, lr=0.25)
    liar = lying(method, ATTACKS["zeros"])
    assert isinstance(liar, FedAvg)
    assert vars(liar) == vars(method)
    assert replace(liar, lr=0.5).train.__qualname__ == "lying.<locals>.Liar.train"


def test_a_simulated_liar_is_left_out_and_nobody_else(tmp_path: Path) -> None:
    rows = list(simulated(tmp_path, SMALL, [1], [DEFAULT], (HONEST, "huge", "claim")))
    assert [(row.method, row.attack, row.not_aggregated, row.others) for row in rows] == [
        (method, attack, 0 if attack == HONEST else 2, 0)
        for method in poison.METHODS
        for attack in (HONEST, "huge", "claim")
    ]


def test_a_liar_over_sockets_is_left_out_or_counts_as_one_of_many(tmp_path: Path) -> None:
    """Its 3e38 is accepted and excluded. Its declaration of 2^53 - 1 samples is capped, and so it takes part."""
    huge, claim = served(tmp_path, SMALL, [("fedavg", "huge"), ("fedavg", "claim")])
    assert (huge.not_aggregated, huge.others) == (2, 0)
    assert (claim.not_aggregated, claim.others) == (0, 0)
    said = (tmp_path / "fedavg-claim/logs/server.log").read_text()
    assert f"client 3 declares {MOST} training samples and counts as " in said
    said = (tmp_path / "fedavg-huge/logs/server.log").read_text()
    assert said.count("excluded: reply of client 3 changes model/") == 2


def row(aggregation: str, attack: str, accuracy: float, bound: str = "refuse") -> Row:
    return Row("simulated", "iid", "fedavg", aggregation, bound, attack, [accuracy], 0, 0)


@pytest.mark.parametrize(
    ("aggregation", "attack", "points"),
    [("mean", "huge", 2), ("mean", "zeros", math.inf), ("clipped", "zeros", 3), ("trimmed:1", "nan", 3)],
)
def test_the_bars_are_points_below_the_honest_run_of_the_same_aggregation(
    aggregation: str, attack: str, points: float
) -> None:
    honest = [row("mean", HONEST, 95), row("clipped", HONEST, 90), row("trimmed:1", HONEST, 85)]
    base = next(each.accuracy for each in honest if each.aggregation == aggregation)
    assert holds([*honest, row(aggregation, attack, base - min(points, 50))])
    assert holds([*honest, row(aggregation, attack, base - min(points, 50) - 0.1)]) == math.isinf(points)
