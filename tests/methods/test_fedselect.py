"""FedSelect: masks that only lose, personal bits that nobody overwrites, identities, and rounds against numpy's float64
(ALGORITHMS 7.17).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from edgefl.methods import FedAvg, FedSelect
from edgefl.methods.accumulator import Accumulator
from edgefl.methods.fedselect import bits_of, fewer
from edgefl.methods.mask_store import MASK, known
from edgefl.methods.plan import Reply
from edgefl.methods.task import MODEL
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import ModelSpec
from tests.methods.float64_net import RATE, batches_of, difference, doubled, rounds_of, three_layers, trained
from tests.methods.small_models import copied, plain, same_bits
from tests.methods.test_frozen import Run

OPTIONS: dict[str, Any] = {"per_round": 2, "epochs": 2, "batch": 5, "lr": RATE}
METHOD = FedSelect(**OPTIONS, growth=0.2, personal=0.4)
SPEC = ModelSpec.of(three_layers())
WEIGHTS = ("one.weight", "two.weight", "fc.weight")


def test_what_moved_most_becomes_personal() -> None:
    """Half of three shared coordinates of fc is one, rounded down: the one that moved by -4. One of one stays."""
    bits = {name: np.zeros(SPEC.params[name].shape, np.bool_) for name in WEIGHTS}
    bits["fc.weight"][0, :3] = bits["two.weight"][0, 0] = True
    moved = {name: np.zeros(SPEC.params[name].shape, np.float32) for name in WEIGHTS}
    moved["fc.weight"][0, :4] = [1, -4, 3, 9]
    left = bits_of(fewer(Mask.of(SPEC, bits), moved, 0.5, SPEC), SPEC)
    assert left["fc.weight"][0].tolist() == [True, False, True, False, False, False]
    assert left["two.weight"].sum() == 1


def test_five_rounds_are_those_of_the_paper_in_float64() -> None:
    """In turns, the personal pass first. No bit of a mask differs."""
    graph, rate = three_layers(), METHOD.growth
    run = Run(METHOD, graph)
    w = doubled(run.initial)
    shared = {client: {name: np.ones(value.shape) for name, value in w.items()} for client in range(3)}
    own = dict.fromkeys(range(3), w)
    for round, chosen in rounds_of(run, 5):
        total, count = ({name: np.zeros(value.shape) for name, value in w.items()} for _ in range(2))
        for client in chosen:
            marks, batches = shared[client], batches_of(graph, client, round, 4, 5)
            x = before = {name: np.where(marks[name], w[name], own[client][name]) for name in w}
            for epoch in range(2):
                at, later = slice(3 * epoch, 3 * epoch + 3), slice(6 + 3 * epoch, 9 + 3 * epoch)
                x = trained(x, batches[later], lambda name, slope, marks=marks: slope * (1 - marks[name]))
                x = trained(x, batches[at], lambda name, slope, marks=marks: slope * marks[name])
            own[client] = x
            total = {name: total[name] + x[name] * marks[name] for name in w}
            count = {name: count[name] + marks[name] for name in w}
            weights, all_of_them = sum(marks[name].sum() for name in WEIGHTS), sum(w[name].size for name in WEIGHTS)
            most = min(rate, 1 - (1 - METHOD.personal) * all_of_them / weights)
            shared[client] = {name: value.copy() for name, value in marks.items()}
            for name in WEIGHTS:
                there = np.flatnonzero(marks[name])
                moved = np.abs(x[name] - before[name]).reshape(-1)[there]
                gone = there[np.argsort(-moved)[: int(np.floor(most * len(there) + 1e-9))]]
                shared[client][name].reshape(-1)[gone] = 0
            found = bits_of(known(run.state, SPEC, client) or Mask({}), SPEC)
            assert all((found[name] == shared[client][name]).all() for name in WEIGHTS)
            mine = run.clients[client].model_of_its_own
            assert difference(mine, x) < 1e-6
        w = {name: np.where(count[name] > 0, total[name] / np.maximum(count[name], 1), w[name]) for name in w}
        assert difference(run.state.arrays[MODEL], w) < 1e-6
    lost = 1 - sum(shared[0][name].sum() for name in WEIGHTS) / sum(w[name].size for name in WEIGHTS)
    assert 0.3 < lost <= METHOD.personal


def test_personal_coordinates_are_never_overwritten_and_stay_personal() -> None:
    """t_fedselect_monotone: the server's values come to what is shared, and a mask gains nothing."""
    run = Run(METHOD, plain())
    for _ in rounds_of(run, 2):
        pass
    for plan in METHOD.plan(run.task, run.state, 3):
        bits = bits_of(known(run.state, run.task.spec, plan.client) or Mask({}), run.task.spec)
        for name, each in bits.items():
            block = plan.payload[MODEL].blocks[name]
            assert block.values.size == each.sum()
        accumulator = Accumulator(run.task.spec)
        everything = Reply(3, plan.client, {MODEL: plan.payload[MODEL]}, masks={MASK: Mask({})})
        METHOD.aggregate(accumulator, plan, everything)  # from a client that asks for more
        assert accumulator.masks[plan.client] == (known(run.state, run.task.spec, plan.client) or Mask({}))


@pytest.mark.parametrize("change", [{"growth": 0.0}, {"personal": 0.0}])
def test_without_growth_it_is_uniform_fedavg_bit_for_bit(change: dict[str, Any]) -> None:
    runs = [Run(replace(METHOD, **change), plain()), Run(FedAvg(**OPTIONS, weight="uniform"), plain())]
    for run in runs:
        assert [len(chosen) for _, chosen in rounds_of(run, 2)] == [2, 2]
    assert same_bits(*(copied(run.state.arrays[MODEL]) for run in runs))


def test_a_message_has_the_shared_values() -> None:
    """After one growth 51 of 256, 9 of 48 and 3 of 18 weights are personal: 339 - 63 values in both directions, and
    every second round has a mask.
    """
    run = Run(replace(METHOD, every=2, per_round=3), three_layers())
    assert [MASK in reply.masks for _, reply in run.play(1)] == [False] * 3
    assert [MASK in reply.masks for _, reply in run.play(2)] == [True] * 3
    for plan, reply in run.play(3):
        assert [side.payload[MODEL].count for side in (plan, reply)] == [276, 276]
        assert reply.steps == 12 <= METHOD.effort(12)[0]


def test_settings_out_of_range_are_refused() -> None:
    for name, value in (("growth", 1.0), ("personal", 1.0), ("every", 0)):
        with pytest.raises(ValueError, match=f"{name}={value}; expected"):
            replace(METHOD, **{name: value})
