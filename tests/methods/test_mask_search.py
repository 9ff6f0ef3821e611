"""FedSpa's searches of a mask against numpy's float64, what they send, and an own search (ALGORITHMS 3, 4, 8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from edgefl import rng
from edgefl.methods.fedspa import FedSpa
from edgefl.methods.mask_search import BatchGradient, Generator, NextMask, PruneAndGrow
from edgefl.methods.mask_store import MASK, known
from edgefl.methods.rounds.exchange import read_answer, trained_message
from edgefl.methods.task import MODEL
from edgefl.models.neurons.mask import Bits, Mask
from edgefl.models.neurons.prune_and_grow import annealed
from edgefl.models.neurons.update import Array, mask_of
from tests.methods.float64_net import (
    RATE,
    Net,
    batches_of,
    difference,
    doubled,
    gradient,
    mean,
    rounds_of,
    three_layers,
    trained,
)
from tests.methods.masked_rounds import Run as MaskedRun
from tests.methods.small_models import copied, device, plain, same_bits
from tests.methods.test_frozen import Run

OPTIONS: dict[str, Any] = {"per_round": 2, "epochs": 2, "batch": 5, "lr": RATE, "lr_decay": 1.0, "weight_decay": 0.0}
DST = FedSpa(**OPTIONS, density=0.4, distribution="uniform")
SET, SNIP = replace(DST, search="set"), replace(DST, search="snip")
ONES = {"one.weight": 103, "two.weight": 19, "fc.weight": 7}  # .4 of 256, 48 and 18, and 129 of 322 together
ROUNDS = 3  # of the Task of `Run`


# The searches in float64.


def drawn(candidates: list[int], count: int, stream: rng.Stream) -> set[int]:
    """Return the candidates of the smallest random words."""
    order = np.argsort(stream.raw(len(candidates)), kind="stable")
    return {candidates[i] for i in order[:count]}


def batch_of(client: int, round: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the batch of 5 of the 12 samples whose gradient a search reads."""
    state = device(three_layers(), client)
    rows = state.train[rng.stream(1, rng.MASK_BATCH, client, round).sample(12, 5)]
    return state.data.x[rows].reshape(5, -1).astype(np.float64), state.data.y[rows]


def first(method: FedSpa, w: Net, client: int, round: int) -> Net:
    """Return a client's first mask: random words, or the largest |w g| of one batch."""
    found = {name: np.ones(value.shape) for name, value in w.items()}
    slopes = gradient(w, batch_of(client, round))
    for number, (name, ones) in enumerate(ONES.items()):
        size, strength = w[name].size, np.abs(w[name] * slopes[name]).reshape(-1)
        inside = set(np.argsort(-strength, kind="stable")[:ones].tolist())
        if method.search != "snip":
            inside = drawn(list(range(size)), ones, rng.stream(1, rng.MASK, 0, extra=number))
        found[name] = np.isin(np.arange(size), list(inside)).astype(float).reshape(w[name].shape)
    return found


def following(method: FedSpa, mask: Net, x: Net, client: int, round: int) -> Net:
    """Return the next mask, by sorting places."""
    rate, slopes = annealed(0.5, round - 1, ROUNDS), gradient(x, batch_of(client, round))
    if method.search in ("rsm", "snip") or not rate:
        return mask
    found = dict(mask)
    for number, name in enumerate(ONES):
        w, g, here = x[name].reshape(-1), slopes[name].reshape(-1), mask[name].reshape(-1)
        active = sorted(np.flatnonzero(here).tolist(), key=lambda i, w=w: (abs(w[i]), i))
        moved = int(np.ceil(rate * len(active) - 1e-9))
        absent = sorted({*range(len(w))} - set(active[moved:]))
        strongest = sorted(absent, key=lambda i, g=g: (-abs(g[i]), i))[:moved]
        random = drawn(absent, moved, rng.stream(1, rng.MASK, client, round, number))
        inside = {*active[moved:], *(strongest if method.search == "dst" else random)}
        found[name] = np.isin(np.arange(len(w)), list(inside)).astype(float).reshape(x[name].shape)
    return found


@pytest.mark.parametrize("method", [DST, replace(DST, search="rsm"), SET, SNIP], ids=lambda method: method.search)
def test_three_rounds_are_those_of_numpy_and_no_bit_of_a_mask_differs(method: FedSpa) -> None:
    graph, masks, moved = three_layers(), {}, set()
    run = Run(method, graph)
    w = doubled(run.initial)
    for round, chosen in rounds_of(run, ROUNDS):
        changes = []
        for client in chosen:
            before = mask = masks[client] if client in masks else first(method, w, client, round)
            start = {name: value * mask[name] for name, value in w.items()}
            x = trained(start, batches_of(graph, client, round, 2, 5), lambda n, slope, mask=mask: slope * mask[n])
            changes.append({name: start[name] - x[name] for name in w})
            masks[client] = following(method, mask, x, client, round)
            moved |= {round} if difference(masks[client], before) else set()
        w = {name: w[name] - change for name, change in mean(changes).items()}
        assert difference(run.state.arrays[MODEL], w) < 1e-6
        for client in chosen:
            found = known(run.state, run.task.spec, client) or method.first_mask(run.task.spec, 1, client)
            assert {name: int((found.bits[name] != masks[client][name]).sum()) for name in ONES} == dict.fromkeys(
                ONES, 0
            )
            assert {name: int(bits.sum()) for name, bits in found.bits.items()} == ONES
    assert moved == ({1, 2} if method.moves else set())  # the rate of the last round is 0


def test_set_is_growth_at_random_bit_for_bit() -> None:
    runs = [MaskedRun(SET, plain()), MaskedRun(replace(DST, growth="random"), plain())]
    for run in runs:
        for _ in range(3):
            run.play()
    assert same_bits(*(copied(run.model) for run in runs))


# What SNIP sends.


def test_snip_sends_the_whole_model_once_and_then_values_at_a_mask_that_stays() -> None:
    """Down go 322 weights and 17 biases, and later 129 and 17. Up go values of a mask, the first time with its ids."""
    run = Run(SNIP, three_layers())
    seen: dict[int, Mask] = {}
    for round in range(1, 4):
        for plan, reply in run.play(round):
            mask = mask_of(reply.payload[MODEL])
            assert plan.payload[MODEL].count == (146 if plan.client in seen else 339)
            assert (reply.payload[MODEL].count, dict(reply.masks), dict(plan.settings)) == (146, {}, {})
            assert seen.setdefault(plan.client, mask) == mask == run.method.held(run.clients[plan.client])[0]
    assert len({mask.hash() for mask in seen.values()}) == 3  # each client has found a mask of its own


def test_a_client_whose_first_reply_came_too_late_finds_its_mask_again() -> None:
    run = MaskedRun(SNIP, plain())
    plans = run.plans()
    for plan in plans:
        run.answer(plan)
    run.close([], [])
    again = run.plans()
    late = {plan.client for plan in plans} & {plan.client for plan in again}
    assert late and all(plan.held is None and plan.due[MODEL].kind == "chosen" for plan in again)
    for plan in again:
        assert {name: int(bits.sum()) for name, bits in mask_of(run.answer(plan).payload[MODEL]).bits.items()} == {
            name: count for name, count in SNIP.ones(run.spec).items() if count < run.model[name].size
        }


def test_a_first_mask_of_another_size_is_refused() -> None:
    run = MaskedRun(SNIP, plain())
    plan = run.plans()[0]
    reply = replace(SNIP, density=0.5).train(run.clients[plan.client], plan)
    answer = read_answer(trained_message(reply, plan, run.spec, "float32", 1.0), plan, run.spec)
    assert answer.refusal == (
        f"reply of client {plan.client} has values in model at 36 coordinates of conv1.weight; expected 29"
    )


def test_snip_at_a_density_of_one_is_a_mask_that_leaves_all_whole() -> None:
    runs = [MaskedRun(replace(DST, density=1.0, search=search), plain()) for search in ("snip", "rsm")]
    for run in runs:
        run.play()
    assert same_bits(*(copied(run.model) for run in runs))


# A search of one's own.


def by_hand(
    old: Mapping[str, Bits],
    weights: Mapping[str, Array],
    gradient: BatchGradient,
    density: Mapping[str, float],
    round: int,
    generator: Generator,
) -> dict[str, Bits]:
    """Do in numpy, with the whole gradient, what PruneAndGrow does at a rate of a half."""
    slopes, found = gradient.dense(old), {}
    for name, bits in old.items():
        kept, (w, g) = bits.reshape(-1).copy(), (np.abs(values[name].reshape(-1)) for values in (weights, slopes))
        assert density[name] == bits.mean()
        count = int(np.ceil(0.5 * kept.sum()))
        kept[np.argsort(np.where(kept, w, np.inf), kind="stable")[:count]] = False
        kept[np.argsort(np.where(kept, np.inf, -g), kind="stable")[:count]] = True
        found[name] = kept.reshape(bits.shape)
    return found


@dataclass(frozen=True)
class HandSpa(FedSpa):
    name: ClassVar[str] = "hand-spa"

    def next_mask(self, rate: float) -> NextMask:
        return by_hand


def test_a_search_of_one_s_own_moves_the_masks() -> None:
    """In round 1 the rate is a half, so the masks are those of FedSpa."""
    assert DST.next_mask(0.25) == PruneAndGrow(0.25)
    runs = [MaskedRun(method, plain()) for method in (DST, HandSpa(**OPTIONS, density=0.4, distribution="uniform"))]
    (played, own) = (run.play() for run in runs)
    for (plan, reply), (_, theirs) in zip(played, own, strict=True):
        assert reply.masks[MASK] == theirs.masks[MASK] != mask_of(plan.payload[MODEL])
    runs[1].play()
    assert any(runs[1].mask(client) != runs[0].mask(client) for client in range(4))
