"""Subsampling: masks anew in every round, updates by hand, identities, and three rounds against numpy's float64
(ALGORITHMS 7.13).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from edgefl import rng
from edgefl.methods import FedSpa, Subsampling
from edgefl.methods.accumulator import Accumulator
from edgefl.methods.plan import Reply
from edgefl.methods.task import MODEL
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.update import at_mask, mask_of
from tests.methods.float64_net import RATE, Net, batches_of, difference, doubled, rounds_of, three_layers, trained
from tests.methods.small_models import copied, plain, same_bits
from tests.methods.test_frozen import Run

OPTIONS: dict[str, Any] = {"per_round": 2, "epochs": 2, "batch": 5, "lr": RATE}
METHOD = Subsampling(**OPTIONS, share=0.25)
ONES = {"one.weight": 64, "two.weight": 12, "fc.weight": 4}  # of 256, 48 and 18, a quarter of 322 together
WEIGHTS = list(ONES)


def marks_of(net: Net, client: int, round: int) -> Net:
    """Return 1 at the coordinates with the smallest words of the stream of this weight, client and round."""
    found = {name: np.ones(value.shape) for name, value in net.items()}
    for number, name in enumerate(WEIGHTS):
        words = rng.stream(1, rng.MASK, client, round, extra=number).raw(net[name].size)
        found[name] = np.isin(np.arange(net[name].size), np.argsort(words)[: ONES[name]]).reshape(net[name].shape)
    return found


@pytest.mark.parametrize("rescale", [False, True])
def test_three_rounds_are_those_of_the_paper_in_float64(rescale: bool) -> None:
    graph = three_layers()
    run = Run(replace(METHOD, rescale=rescale), graph)
    w = doubled(run.initial)
    for round, chosen in rounds_of(run, 3):
        total = {name: np.zeros(value.shape) for name, value in w.items()}
        for client in chosen:
            x, marks = trained(w, batches_of(graph, client, round, 2, 5)), marks_of(w, client, round)
            total = {name: total[name] + (x[name] - w[name]) * marks[name] for name in w}
        factor = {name: w[name].size / ONES[name] if rescale and name in ONES else 1 for name in w}
        w = {name: w[name] + factor[name] * total[name] / 2 for name in w}
        assert difference(run.state.arrays[MODEL], w) < 1e-6


def test_a_mask_has_its_share_of_every_weight_and_is_another_in_every_round_and_client() -> None:
    spec = ModelSpec.of(three_layers())
    masks = [METHOD.mask(spec, 1, client, round) for client in (0, 1) for round in (1, 2)]
    assert len({mask.hash() for mask in masks}) == 4
    assert all({name: int(bits.sum()) for name, bits in mask.bits.items()} == ONES for mask in masks)


def test_with_everything_sent_it_is_fedavg_of_updates_bit_for_bit() -> None:
    """As FedSpa is at density 1, which averages changes, too."""
    dense = FedSpa(**OPTIONS, search="rsm", density=1.0, lr_decay=1.0, weight_decay=0.0)
    runs = [Run(replace(METHOD, share=1.0, rescale=rescale), plain()) for rescale in (False, True)]
    for run in (*runs, expected := Run(dense, plain())):
        assert [len(chosen) for _, chosen in rounds_of(run, 3)] == [2, 2, 2]
    for run in runs:
        assert same_bits(copied(run.state.arrays[MODEL]), copied(expected.state.arrays[MODEL]))


def test_up_goes_the_share_without_ids() -> None:
    """339 values come, and 80 of 322 weights and 17 biases go, at a mask that the server draws itself."""
    run = Run(METHOD, three_layers())
    for plan, reply in run.play(1):
        assert [side.payload[MODEL].count for side in (plan, reply)] == [339, 97]
        assert mask_of(reply.payload[MODEL]) == METHOD.mask(run.task.spec, 1, plan.client, 1)


def test_a_value_that_is_not_sent_counts_as_no_change() -> None:
    """Both clients changed everything by -1, so that w rises by 1/2 where one of them sent it and by 1 where both did.
    With `rescale` a weight of fc, of which 4 of 18 are sent, rises by 18/4 of that.
    """
    for rescale, factor in ((False, 1.0), (True, 4.5)):
        run, accumulator = (
            Run(replace(METHOD, rescale=rescale), three_layers()),
            Accumulator(ModelSpec.of(three_layers())),
        )
        plans = run.method.plan(run.task, run.state, 1)
        ones = run.method.plan(
            run.task, replace(run.state, arrays={MODEL: {n: v * 0 - 1 for n, v in run.initial.items()}}), 1
        )
        for plan, one in zip(plans, ones, strict=True):
            mask = plan.due[MODEL].mask
            run.method.aggregate(accumulator, plan, Reply(1, plan.client, {MODEL: at_mask(one.payload[MODEL], mask)}))
        after = run.method.finish(run.task, run.state, accumulator, 1).arrays[MODEL]
        sent = sum(marks_of(doubled(run.initial), plan.client, 1)["fc.weight"].astype(int) for plan in plans)
        rise = after["fc.weight"] - run.initial["fc.weight"]
        np.testing.assert_allclose(rise, factor * sent / 2, atol=1e-6)
        np.testing.assert_allclose(after["fc.bias"] - run.initial["fc.bias"], 1, atol=1e-6)


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match=r"share=0; expected 0 < share <= 1"):
        replace(METHOD, share=0)
