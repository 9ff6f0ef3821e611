"""The throughput of a device: the foretold time of its rounds, the fit, and the offer that follows."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgefl import rng
from edgefl.methods import FedSPU, FedSPUCached
from edgefl.methods.budget import Effort, SubmodelOption, Timing, cost, in_time, offers, work
from edgefl.methods.task import Task
from edgefl.methods.throughput import FORETOLD, Throughput, Workload, fit
from edgefl.models.graph import Graph, Node
from edgefl.models.graph.cuts import cuts
from edgefl.models.graph.operations import Linear, ReLU
from edgefl.models.neurons.model_spec import ModelSpec

GRAPH = Graph(
    (10,),
    (
        Node("fc1", Linear(10, 40), ("input",)),
        Node("relu1", ReLU(), ("fc1",)),
        Node("fc2", Linear(40, 20), ("relu1",)),
        Node("relu2", ReLU(), ("fc2",)),
        Node("out", Linear(20, 5), ("relu2",)),
    ),
)
EFFORT = Effort(epochs=2, batch=5)
KEEPS = (0.5, 1.0)
ROUNDS = [Workload(still, macs, steps) for still in (0, 1e6, 5e6) for macs, steps in ((1e7, 10), (4e7, 10), (9e7, 60))]


def test_seconds_by_hand() -> None:
    throughput = Throughput(1e-9, 2e-9, 1e-3, 0.25)
    assert throughput.seconds(Workload(3e9, 4e9, 100)) == pytest.approx(3 + 8 + 0.1 + 0.25)


def test_fit_finds_what_made_the_times() -> None:
    made = Throughput(1e-9, 3e-9, 2e-3, 0.05)
    found = fit([(each, made.seconds(each)) for each in ROUNDS])
    assert found[:4] == pytest.approx(made[:4], rel=1e-9)


@given(st.lists(st.floats(0, 1), min_size=4, max_size=4), st.lists(st.floats(0.9, 1.1), min_size=9, max_size=9))
def test_fit_is_never_negative_and_near(parts: list[float], noise: list[float]) -> None:
    made = Throughput(parts[0] * 1e-8, parts[1] * 1e-8, parts[2] * 1e-2, parts[3] + 0.01)
    timed = [(each, made.seconds(each) * factor) for each, factor in zip(ROUNDS, noise, strict=True)]
    found = fit(timed)
    assert min(found[:4]) >= 0
    for each, seconds in timed:
        assert found.seconds(each) == pytest.approx(seconds, rel=0.5)


def test_fit_leaves_out_what_would_be_negative() -> None:
    """A step that is dearer the fewer multiply-adds it has: what explains it best is a time for each round alone."""
    found = fit([(Workload(0, 1e6, 1), 2.0), (Workload(0, 2e6, 1), 1.0)])
    assert found.mac_s == 0
    assert found.step_s + found.round_s == pytest.approx(1.2)  # of 1/s: least squares of (1 - x/2)^2 + (1 - x)^2


def test_fit_needs_times() -> None:
    with pytest.raises(ValueError, match="1 rounds that took no time; expected at least one that took time"):
        fit([(ROUNDS[0], 0.0)])


def test_work_by_hand() -> None:
    """fc1 is frozen, with 400 multiply-adds for a sample, once. fc2 and out have forward and gradients of weights.

    Gradients of results are needed for relu2 alone.
    """
    found = work(GRAPH, SubmodelOption(1.0, "relu1"), EFFORT, 12)
    assert found.still == 400 * 12
    assert found.macs == 2 * 12 * (3 * 100 + 2 * 800)
    assert found.steps == 2 * 3


@pytest.mark.parametrize(
    ("seconds", "expected", "foretold"),
    [
        (1e6, SubmodelOption(1.0), 7000.0),  # nothing takes half of that, and nothing takes more than this
        (7000, SubmodelOption(1.0), 7000.0),
        (6999, SubmodelOption(1.0, "relu1"), 400 + 3800.0),
        (
            4199,
            SubmodelOption(0.5, "relu1"),
            400 + 2500.0,
        ),  # at the larger share after relu2 it would be idle most of the time
        (2899, SubmodelOption(1.0, "relu2"), 1200 + 400.0),
        (1599, SubmodelOption(0.5, "relu2"), 1200 + 300.0),
        (1, SubmodelOption(0.5, "relu2"), 1200 + 300.0),  # nothing is in time
    ],
)
def test_the_first_offer_that_takes_half_the_seconds_to_all(
    seconds: float, expected: SubmodelOption, foretold: float
) -> None:
    """A multiply-add takes a second. The offers in order take 7000, 4200, 1600 with all neurons, and then 5300, 2900,
    1500.
    """
    throughput = Throughput(1.0, 1.0, 0.0, 0.0, examples=1)
    found = list(offers(GRAPH, KEEPS))
    assert found == [SubmodelOption(keep, cut) for keep in (1.0, 0.5) for cut in ("", *cuts(GRAPH))]
    assert [throughput.seconds(work(GRAPH, each, EFFORT, 1)) for each in found] == [7000, 4200, 1600, 5300, 2900, 1500]
    assert in_time(GRAPH, KEEPS, EFFORT, Timing(seconds, throughput)) == (expected, foretold)


def test_only_what_fits_the_memory() -> None:
    least = min(offers(GRAPH, KEEPS), key=lambda offer: cost(GRAPH, offer, EFFORT).memory)
    room = cost(GRAPH, least, EFFORT).memory
    within = [offer for offer in offers(GRAPH, KEEPS) if cost(GRAPH, offer, EFFORT).memory <= room]
    throughput = Throughput(1e-9, 1e-9, 0.0, 0.0, room, 100)
    assert within[0] != SubmodelOption(1.0)
    assert in_time(GRAPH, KEEPS, EFFORT, Timing(math.inf, throughput))[0] == within[0]
    assert in_time(GRAPH, KEEPS, EFFORT, Timing(math.inf, throughput._replace(memory=1)))[0] == SubmodelOption(1.0)


@given(st.floats(1e-12, 1e-6), st.floats(1e-12, 1e-6), st.floats(0, 1e-3), st.floats(1e-6, 10))
def test_a_slower_device_is_never_asked_for_more(still: float, mac: float, step: float, seconds: float) -> None:
    """Twice as slow: what it does takes the other one no longer than what that one does."""
    throughput = Throughput(still, mac, step, 0.0, examples=100)
    slower = Throughput(2 * still, 2 * mac, 2 * step, 0.0, examples=100)
    fast, slow = (in_time(GRAPH, KEEPS, EFFORT, Timing(seconds, each))[0] for each in (throughput, slower))
    took = [throughput.seconds(work(GRAPH, offer, EFFORT, 100)) for offer in (fast, slow)]
    assert took[0] >= took[1]


METHOD = FedSPUCached(keep=KEEPS, per_round=4, epochs=2, batch=5, budget=(1e-9, 1.0), round_seconds=1e-3)


def test_a_tier_counts_only_without_a_throughput_and_capacity_always() -> None:
    fast, slow = (Throughput(each, each, 0.0, 0.0, examples=100) for each in (1e-12, 1.0))
    task = Task(ModelSpec.of(GRAPH), 4, 1, {1: 0.7}, graph=GRAPH, throughputs={0: fast, 1: fast, 3: slow})
    state = METHOD.start(task, GRAPH.init(rng.stream(1, rng.INIT)))
    plans = METHOD.plan(task, state, 1)
    last = cuts(GRAPH)[-1]
    assert plans[0].settings["keep"] == 1.0  # the budget of its tier allows hardly anything
    assert "cut" not in plans[0].settings
    assert plans[1].settings["keep"] == 0.7
    assert plans[2].settings == {"keep": 1.0}  # of the second tier, which has a budget that holds nothing back
    assert plans[3].settings["cut"] == last
    assert [FORETOLD in plan.settings for plan in plans] == [True, True, False, True]
    assert METHOD.replan(task, state, plans[3]).settings == plans[3].settings


def test_without_seconds_throughputs_count_for_nothing() -> None:
    method = FedSPUCached(keep=KEEPS, per_round=4, epochs=2, batch=5)
    throughput = Throughput(1.0, 1.0, 1.0, 1.0, examples=100)
    task = Task(ModelSpec.of(GRAPH), 4, 1, graph=GRAPH)
    state = method.start(task, GRAPH.init(rng.stream(1, rng.INIT)))
    without = [plan.settings for plan in method.plan(task, state, 1)]
    timed = Task(ModelSpec.of(GRAPH), 4, 1, graph=GRAPH, throughputs=dict.fromkeys(range(4), throughput))
    assert [plan.settings for plan in method.plan(timed, state, 1)] == without
    assert not method.wants_throughput
    assert not FedSPU().wants_throughput


@pytest.mark.parametrize("seconds", [-1.0, math.inf, math.nan])
def test_seconds_out_of_range(seconds: float) -> None:
    with pytest.raises(ValueError, match=f"round_seconds={seconds}; expected 0 <= round_seconds, finite"):
        FedSPUCached(round_seconds=seconds)
