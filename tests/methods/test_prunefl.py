"""PruneFL: who takes part when, one mask for all, identities, and rounds against numpy's float64 (ALGORITHMS 7.20)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from edgefl.methods import FedAvg, PruneFL
from edgefl.methods.mask_store import MASK, unpacked
from edgefl.methods.prunefl import IMPORTANCE
from edgefl.methods.task import MODEL, Task
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.update import mask_of
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
from tests.methods.small_models import copied, plain, same_bits
from tests.methods.test_frozen import Run

OPTIONS: dict[str, Any] = {"per_round": 2, "epochs": 2, "batch": 5, "lr": RATE}
METHOD = PruneFL(**OPTIONS, density=0.4, initial_rounds=2, every=1, prune_rate=0.4, half_life=2, first_client=1)
WEIGHTS = {"one.weight": 256, "two.weight": 48, "fc.weight": 18}
TIME = 1 / sum(WEIGHTS.values())  # a weight of a Linear layer multiplies once


def bits_of(run: Run) -> dict[str, np.ndarray]:
    mask = unpacked(run.task.spec, run.state.arrays.get(MASK, {}))
    return {name: mask.bits.get(name, np.ones(run.initial[name].shape, np.bool_)) for name in WEIGHTS}


def moved(net: Net, marks: Net, importance: Net, method: PruneFL, round: int) -> Net:
    """Return the next mask by sorting places: one loop over all candidates, as in the paper."""
    places = [(name, i) for name, size in WEIGHTS.items() for i in range(size)]
    alive = sorted((abs(net[name].flat[i]), name, i) for name, i in places if marks[name].flat[i])
    rate = method.prune_rate * 0.5 ** ((round - 1) / method.half_life)
    kept = {(name, i) for _, name, i in alive[int(np.ceil(rate * len(alive) - 1e-9)) :]}
    total, time = sum(importance[n].flat[i] for n, i in kept), method.fixed_time + TIME * len(kept)
    for name, i in sorted(set(places) - kept, key=lambda at: -importance[at[0]].flat[at[1]]):
        gain = importance[name].flat[i]
        if len(kept) >= round_to(method.density) if method.density else gain / TIME < total / time:
            break
        kept, total, time = kept | {(name, i)}, total + gain, time + TIME
    found = {name: np.zeros(marks[name].shape) for name in WEIGHTS}
    for name, i in kept:
        found[name].flat[i] = 1
    return {**marks, **found}


def round_to(density: float) -> int:
    return round(density * sum(WEIGHTS.values()))


@pytest.mark.parametrize("method", [METHOD, replace(METHOD, density=0.0)], ids=["density", "criterion"])
def test_four_rounds_are_those_of_the_paper_in_float64(method: PruneFL) -> None:
    """Two of client 1 alone and two of all. The mask moves after each, and no bit of it differs."""
    graph, counts = three_layers(), []
    run = Run(method, graph)
    w = doubled(run.initial)
    marks = {name: np.ones(value.shape) for name, value in w.items()}
    for round, chosen in rounds_of(run, 4):
        models, squares = [], []
        for client in chosen:
            batches = batches_of(graph, client, round, 3, 5)
            x = trained(w, batches[:6], lambda name, slope, marks=marks: slope * marks[name])
            slopes = [gradient(x, batch) for batch in batches[6:]]
            models.append(x)
            squares.append({name: np.mean([each[name] ** 2 for each in slopes], axis=0) for name in WEIGHTS})
        w = mean(models)  # every client has 12 samples
        marks = moved(w, marks, mean(squares), method, round)
        w = {name: value * marks[name] for name, value in w.items()}
        assert difference(run.state.arrays[MODEL], w) < 1e-6
        assert all((bits == marks[name]).all() for name, bits in bits_of(run).items())
        counts.append(sum(int(marks[name].sum()) for name in WEIGHTS))
    assert len(chosen) == 2
    if method.density:
        assert counts == [193, 138, 129, 129]  # 129 of 322 leave, 55 of 193, and then 40 % of 322 stay
    else:
        assert len(set(counts)) > 1


def test_one_client_finds_the_first_mask_and_then_all_take_part_at_it() -> None:
    """Importance is asked for where the mask changes: in rounds 1 and 2, and in every second one after them."""
    run = Run(replace(METHOD, every=2), three_layers())
    for round in range(1, 6):
        before = bits_of(run)
        for plan, reply in run.play(round):
            assert round > 2 or plan.client == 1
            present = mask_of(plan.payload[MODEL])
            assert all((present.bits[name] == bits).all() for name, bits in before.items() if not bits.all())
            assert mask_of(reply.payload[MODEL]) == present
            assert (IMPORTANCE in reply.payload) == (round in (1, 2, 4))
        assert any((bits != before[name]).any() for name, bits in bits_of(run).items()) == (round in (1, 2, 4))
        for name, bits in bits_of(run).items():
            assert not run.state.arrays[MODEL][name][~bits].any()


@pytest.mark.parametrize("change", [{"density": 1.0}, {"prune_rate": 0.0}])
def test_with_a_whole_mask_it_is_fedavg_bit_for_bit(change: dict[str, Any]) -> None:
    runs = [Run(replace(METHOD, **change), plain()), Run(FedAvg(**OPTIONS), plain())]
    for run in runs:
        assert [len(chosen) for _, chosen in rounds_of(run, 2)] == [2, 2]
    assert same_bits(*(copied(run.state.arrays[MODEL]) for run in runs))
    assert MASK not in runs[0].state.arrays


def test_a_message_has_the_values_at_the_mask() -> None:
    """129 of 322 weights and 8 + 6 + 3 biases, down and up, and 322 squares up where the mask changes."""
    run = Run(METHOD, three_layers())
    for _ in rounds_of(run, 3):
        pass
    for plan, reply in run.play(4):
        assert [side.payload[MODEL].count for side in (plan, reply)] == [146, 146]
        assert reply.payload[IMPORTANCE].count == 322


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"density": 1.5}, r"density=1.5; expected 0 <= density <= 1"),
        ({"prune_rate": 1.0}, r"prune_rate=1.0; expected 0 <= prune_rate < 1"),
        ({"every": 0}, r"every=0; expected every >= 1"),
        ({"fixed_time": -1.0}, r"fixed_time=-1.0; expected a finite fixed_time >= 0"),
        ({"times": "seconds"}, r"times=seconds; expected macs or equal"),
        ({"first_client": 3}, r"first_client=3; expected the id of one of the 3 clients"),
    ],
)
def test_settings_out_of_range_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(METHOD, **change).start(Task(ModelSpec.of(three_layers()), 3, 1), {})
