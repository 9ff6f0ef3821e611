"""A round of sums gives the state of an exact round with the replies themselves, and the server needs nothing else."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
import pytest

from edgefl.errors import PlanError, TrainingError
from edgefl.methods.accumulator import Accumulator
from edgefl.methods.aggregation import AggregationRule
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.expected_reply import ExpectedPayload
from edgefl.methods.fedavg import FedAvg
from edgefl.methods.fedper import FedPer
from edgefl.methods.fedprox import FedProx
from edgefl.methods.fedselect import FedSelect
from edgefl.methods.fedspa import FedSpa
from edgefl.methods.fedspu import FedSPU
from edgefl.methods.pflego import PFLEGO
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.random_dropout import RandomDropout
from edgefl.methods.rounds.reply_layout import FIGURES, ReplyLayout
from edgefl.methods.rounds.round_closing import AggregationResult, AggregationSettings, close, values_before
from edgefl.methods.rounds.summed_reply import MOST, GroupTotal, bits_for, stand_in, summand, weight_of, weighted
from edgefl.methods.task import MODEL, State
from edgefl.models.graph import Graph, Node
from edgefl.models.graph.operations import Conv2d, Flatten, Linear
from edgefl.models.neurons.update import Block, Update
from tests.methods.small_rounds import Rounds

COUNTS = (20, 7, 31, 12, 20, 9)
EXACT = AggregationSettings(AggregationRule("exact"))
KEPT: dict[str, Any] = {"keep": (0.5, 1.0), "per_round": 6, "draws": "shared"}
METHODS = (
    FedAvg(per_round=6, lr=0.1, epochs=1, batch=5),
    FedAvg(per_round=6, lr=0.1, epochs=1, batch=5, weight="uniform"),
    FedProx(per_round=6, lr=0.1, epochs=1, batch=5),
    FedPer(per_round=6, lr=0.1, epochs=1, batch=5),
    FedSPU(lr=0.1, epochs=1, batch=5, **KEPT),
    FedSPU(lr=0.1, epochs=1, batch=5, weight="batches", first_state="current_global", **KEPT),
    RandomDropout(lr=0.1, epochs=1, batch=5, **KEPT),
    PFLEGO(per_round=6, tau=3),
    FedSpa(per_round=6, lr=0.1, epochs=1, batch=5, search="rsm"),
    FedSpa(per_round=6, lr=0.1, epochs=1, batch=5, search="rsm", density=1.0),
)


def without_norm() -> Graph:
    nodes = (
        Node("conv", Conv2d(2, 4, (3, 3), padding=(1, 1)), ("input",)),
        Node("flat", Flatten(), ("conv",)),
        Node("fc", Linear(64, 3), ("flat",)),
    )
    return Graph((2, 4, 4), nodes)


class Summing(Rounds):
    """Rounds whose replies are summed by layout."""

    def __init__(self, method: Algorithm) -> None:
        super().__init__(method, without_norm() if isinstance(method, PFLEGO) else None, COUNTS)
        self.old = values_before(method, self.state)

    def total(self, plans: list[Plan], replies: list[Reply]) -> tuple[list[tuple[Plan, Reply]], GroupTotal]:
        """Sum the replies of clients with one layout, as the clients and the server do."""
        layout = ReplyLayout.of(plans[0], self.spec)
        claims = [EXACT.declared(self.method, reply.examples) for reply in replies]
        stands = [stand_in(plan, layout, self.old, claim) for plan, claim in zip(plans, claims, strict=True)]
        weights = [self.weight(plan, stand) for plan, stand in zip(plans, stands, strict=True)]
        bits = bits_for(sum(weights), layout.count, len(plans))
        opened = np.zeros(layout.count, np.uint32 if bits == 32 else np.uint64)
        for plan, reply, weight in zip(plans, replies, weights, strict=True):
            part = summand(plan, reply, self.spec, self.task.seed, self.method.changes, 0.5)
            assert part.layout.draw == layout.draw
            opened += weighted(part.numbers, weight, bits)
        clients = tuple(plan.client for plan in plans)
        return list(zip(plans, stands, strict=True)), GroupTotal.of(clients, layout, opened)

    def weight(self, plan: Plan, stand: Reply) -> int:
        return weight_of(self.method, plan, stand, Accumulator(self.spec, EXACT.aggregation, self.old))


def groups(game: Summing, plans: list[Plan]) -> list[list[Plan]]:
    def draw(plan: Plan) -> str:
        return ReplyLayout.of(plan, game.spec).draw

    return [list(found) for _, found in groupby(sorted(plans, key=draw), draw)]


def closed(game: Summing, pairs: list[tuple[Plan, Reply]], sums: list[GroupTotal]) -> AggregationResult:
    return close(game.task, game.method, game.state, pairs, 1, EXACT, sums)


def bits_of(state: State) -> dict[str, bytes]:
    return {f"{a}/{name}": value.tobytes() for a, params in state.arrays.items() for name, value in params.items()}


@pytest.mark.parametrize("method", METHODS, ids=lambda method: f"{method.name}-{getattr(method, 'weight', '')}")
def test_a_round_of_sums_is_an_exact_round_to_the_last_bit(method: Algorithm) -> None:
    game = Summing(method)
    plans = game.plans(1)
    replies = {plan.client: game.answer(plan) for plan in plans}
    openly = closed(game, [(plan, replies[plan.client]) for plan in plans], [])
    pairs, sums = [], []
    for group in groups(game, plans):
        found, total = game.total(group, [replies[plan.client] for plan in group])
        pairs += found
        sums.append(total)
    summed = closed(game, pairs, sums)
    assert bits_of(summed.state) == bits_of(openly.state) != bits_of(game.state)
    assert summed.state.values == openly.state.values
    assert summed.limited == openly.limited
    losses = [total.metrics()["loss"] * len(total.clients) for total in sums]
    assert sum(losses) == pytest.approx(sum(each.metrics["loss"] for each in replies.values()), abs=1e-3)
    assert all(total.metrics()["accuracy"] == 0.5 for total in sums)


def test_a_sum_at_the_extremes_does_not_wrap() -> None:
    for weights, values in ((8191, 100), (16383, 100), (16384, 100), (5, 1 << 30)):
        bits = bits_for(weights, values, 5)
        assert weights * MOST < 2 ** (bits - 1)
        assert 5 * values < 2 ** (bits - 1)
    assert bits_for(16383, 100, 5) == 32
    assert bits_for(16384, 100, 5) == 64
    with pytest.raises(ValueError, match="weights whose sums fit into 64 bits"):
        bits_for(1 << 60, 100, 5)


def test_layouts_differ_where_coordinates_differ() -> None:
    game = Summing(FedSPU(lr=0.1, epochs=1, batch=5, keep=(0.5,), per_round=6))
    assert len({ReplyLayout.of(plan, game.spec).draw for plan in game.plans(1)}) > 1
    shared = Summing(METHODS[4])
    assert len({ReplyLayout.of(plan, shared.spec).draw for plan in shared.plans(1)}) == 2  # one for each tier


def test_a_client_that_was_sent_another_model_has_another_draw() -> None:
    """So a lying server cannot single out a client by its model: the terms of its group do not fit."""
    game = Summing(METHODS[0])
    plan = game.plans(1)[0]
    blocks = dict(plan.payload[MODEL].blocks)
    name, block = next(iter(blocks.items()))
    other = np.ascontiguousarray(block.values + np.float32(1e-3))
    forged = replace(plan, payload={MODEL: Update({**blocks, name: Block(block.shape, block.index, other)})})
    draws = {ReplyLayout.of(each, game.spec).draw for each in (plan, forged, replace(plan, settings={"keep": 0.5}))}
    assert len(draws) == 3
    assert {len(draw) for draw in draws} == {64}  # two models with one draw take 2^128 trials


def test_a_reply_that_cannot_be_summed_is_refused() -> None:
    game = Summing(METHODS[0])
    plan = game.plans(1)[0]
    reply = game.answer(plan)
    with pytest.raises(PlanError, match="a reply without model"):
        summand(plan, Reply(1, 0), game.spec, 1, (), None)
    values = dict(reply.payload[MODEL].blocks)
    name, block = next(iter(values.items()))
    wrong = block.values.copy()
    wrong.reshape(-1)[0] = np.nan
    broken = Reply(1, 0, {MODEL: Update({**values, name: Block(block.shape, block.index, wrong)})})
    with pytest.raises(TrainingError, match=f"model/{name} has a value that is not finite"):
        summand(plan, broken, game.spec, 1, (), None)
    chosen = Summing(FedSelect(per_round=6, lr=0.1))
    moving = Summing(FedSpa(per_round=6, lr=0.1, search="snip"))  # a client chooses its mask
    for game in (chosen, moving):
        with pytest.raises(PlanError, match="expected values at planned places"):
            ReplyLayout.of(game.plans(1)[0], game.spec)


def test_clients_with_one_fixed_mask_have_one_layout_and_others_have_not() -> None:
    def draws(**settings: Any) -> int:
        game = Summing(FedSpa(per_round=6, lr=0.1, search="rsm", **settings))
        return len({ReplyLayout.of(plan, game.spec).draw for plan in game.plans(1)})

    assert draws() == 1
    assert draws(masks="different") > 1
    game = Summing(METHODS[8])
    plan = game.plans(1)[0]
    as_client = replace(plan, expects={MODEL: ExpectedPayload("masked")})  # a client is not sent the mask
    assert ReplyLayout.of(as_client, game.spec).draw == ReplyLayout.of(plan, game.spec).draw
    other = game.method.first_mask(game.spec, game.task.seed + 1, 0)  # type: ignore[attr-defined]
    with pytest.raises(PlanError, match="expected values at planned places"):
        ReplyLayout.of(replace(plan, expects={MODEL: ExpectedPayload("masked", None, other)}), game.spec)


def test_figures_follow_the_values_and_are_not_weighted() -> None:
    game = Summing(METHODS[0])
    plan = game.plans(1)[0]
    part = summand(plan, game.answer(plan), game.spec, 1, (), None)
    one, ten = (weighted(part.numbers, weight, 64).view(np.int64) for weight in (1, 10))
    cut = -len(FIGURES)
    assert np.array_equal(10 * one[:cut], ten[:cut])
    assert np.array_equal(one[cut:], ten[cut:])
    assert part.layout.split(one)[1]["tested"] == 0
