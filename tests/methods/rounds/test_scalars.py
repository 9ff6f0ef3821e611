"""The bytes of numbers in messages, by hand, and where they stand in a round's metrics and in tables."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from edgefl import rng
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.rounds.exchange import read_answer, sizes, train_message, trained_message
from edgefl.methods.rounds.round_closing import AggregationResult
from edgefl.methods.rounds.round_metrics import ClientRound, round_metrics
from edgefl.methods.rounds.scalars import scalar_bytes
from edgefl.methods.task import MODEL, State
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.update import Update
from edgefl.study.summary import summarise
from edgefl.study.tables import print_tables
from tests.methods.small_models import plain
from tests.study.test_study_comparison import TIERS, log_record, record

SPEC = ModelSpec.of(plain())
BIAS = take(plain().init(rng.stream(5, rng.INIT)), SPEC, None, names=["fc.bias"])


@pytest.mark.parametrize(
    ("numbers", "count"),
    [
        ({}, 0),
        ({"seed": 7, "slope": 0.5, "last": True, "cut": "conv1"}, 24),
        ({"loss": 1.0, "executed_flops": 9.0, "joules_rapl": 1.0, "correct": 3.0, "tested": 4.0}, 0),
    ],
)
def test_a_number_counts_eight_bytes(numbers: dict[str, Any], count: int) -> None:
    assert scalar_bytes(numbers) == count


def answered(payload: dict[str, Update]) -> ClientRound:
    """A round with two numbers down and one up, beside this payload both ways."""
    plan = Plan("train", 1, 0, payload=payload, settings={"seed": 5, "far": 0.25})
    reply = Reply(1, 0, payload=payload, examples=7, steps=1, metrics={"slope": 0.5, "loss": 1.0})
    down, up = train_message(plan, SPEC, "float32"), trained_message(reply, plan, SPEC, "float32", 0.5)
    return ClientRound.answered(plan, sizes(down.payload, down.selection), up, read_answer(up, plan, SPEC))


def test_a_message_without_a_payload_has_its_numbers_as_values() -> None:
    found = answered({})
    assert (found.down.total, found.up.total, found.scalars) == (16, 8, (0, 0))
    line = round_metrics(1, [found], AggregationResult(State({})), 1.0)
    assert (line["down"]["values"], line["up"]["values"], "scalar_bytes" in line) == (16, 8, False)


def test_beside_a_payload_numbers_stand_apart() -> None:
    found = answered({MODEL: BIAS})
    assert found.scalars == (16, 8)
    assert found.down.values == found.up.values == 4 * BIAS.blocks["fc.bias"].values.size
    line = round_metrics(1, [found, found], AggregationResult(State({})), 1.0)
    assert line["scalar_bytes"] == {"down": 32, "up": 16}


@pytest.mark.parametrize(("count", "is_shown"), [(8, False), (16, True)])
def test_numbers_get_a_column_beside_a_payload_where_they_are_not_negligible(count: int, is_shown: bool) -> None:
    """The payload of the round is 800 bytes, of which 8 are a hundredth."""
    line = {**log_record(1, [record(0)], [1] * 4), "scalar_bytes": {"down": count, "up": 0}}
    found = summarise("fedavg", [line], TIERS, {})
    out = StringIO()
    print_tables(Console(file=out, width=100), {1: [found]})
    assert (found.scalar_bytes, "numbers" in out.getvalue()) == (count, is_shown), found.payload_bytes
