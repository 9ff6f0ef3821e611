"""Steps beside the steps of honest sub-models, which have the active neurons alone."""

from __future__ import annotations

import json

import pytest

from bench import step
from bench.peak import FLOP
from bench.peers import EAGER
from bench.rows import native_name, over_shares, peak_name, row, sub_name
from bench.runner import Timing
from edgefl.learning.lowering.mac_counts import step_macs


def timing(seconds: float) -> Timing:
    return Timing(seconds, seconds, seconds)


TIMINGS = {
    EAGER: timing(9.0),
    native_name(1.0): timing(4.0),
    native_name(0.2): timing(2.0),
    sub_name(1.0): timing(4.0),
    sub_name(0.2): timing(0.5),
}


def test_a_row_has_the_smaller_model_beside_it() -> None:
    whole = row("net", 16, 1, 1.0, TIMINGS, 1.0, 1.0)
    fifth = row("net", 16, 1, 0.2, TIMINGS, 0.5, 8.0)
    assert (whole.sub_ratio, fifth.sub_ratio) == (1.0, 4.0)
    assert (fifth.best, fifth.frozen) == (EAGER, 0.5)  # none of them is PyTorch's
    assert json.loads(fifth.as_json())["sub_ratio"] == 4.0
    plain = row("product", 16, 1, 0.2, {k: v for k, v in TIMINGS.items() if "sub" not in k}, 0.5)
    assert plain.sub_ratio is None
    assert over_shares([whole, fifth, plain]) == [
        "net, B = 16: over p = 1, 0.2 steps take 1.33 times those of their sub-models (1.41 MACs)"
    ]


def test_a_row_has_its_share_of_the_peak() -> None:
    timings = {**TIMINGS, peak_name("native"): timing(FLOP / 100.0), peak_name("torch"): timing(FLOP / 80.0)}
    found = row("net", 16, 1, 0.2, timings, 0.5, flop=50.0)  # 25 operations a second beside 100
    assert (found.peak_share, found.best, found.fastest) == (0.25, EAGER, TIMINGS[EAGER])
    assert json.loads(found.as_json())["peak_share"] == 0.25
    assert row("net", 16, 1, 0.2, TIMINGS, 0.5, flop=50.0).peak_share is None


@pytest.mark.parametrize("case", step.PAPER, ids=lambda case: case.model)
def test_a_sub_model_needs_far_less_than_the_full_forward_pass(case: step.Case) -> None:
    """The counts are exact multiply-accumulates at p = .2, and over the five tiers together."""
    full = {keep: step_macs(case.graph, step._neurons(case.graph, keep)) for keep in step.KEEPS}
    sub = {keep: step_macs(case.graph.sub(step._neurons(case.graph, keep))) for keep in step.KEEPS}
    assert full[1.0] == sub[1.0]
    assert 6 < full[0.2] / sub[0.2] < 9
    assert 1.45 < sum(full.values()) / sum(sub.values()) < 1.7
