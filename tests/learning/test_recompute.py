"""Training that computes parts of its forward pass again: equal bits in less memory, planned to fit a limit."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from edgefl import rng
from edgefl.learning import SGD, Adam, FitOptions, GraphLearner
from edgefl.learning.batches import Listed
from edgefl.learning.lowering.lower import lower
from edgefl.learning.lowering.plan_search import PlanSearch
from edgefl.learning.lowering.recompute import NO_PLAN, MemoryPlan
from edgefl.learning.lowering.updates import Terms
from edgefl.learning.memory import TrainingConfiguration, estimate
from edgefl.learning.optimizers import Optimizer
from edgefl.learning.running.schedule_planner import SchedulePlanner
from edgefl.models.graph import INPUT, Graph, Node
from edgefl.models.graph.operations import Conv2d, Flatten, GroupNorm, Linear, ReLU
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet

from .graphs import GRAPHS, model, samples

BATCHES = Listed([np.arange(8, dtype=np.int32), np.arange(8, 16, dtype=np.int32)], 7)
LAYERS = [
    node
    for number in range(6)
    for node in (
        Node(
            f"conv{number}",
            Conv2d(3 if number == 0 else 8, 8, (3, 3), padding=(1, 1)),
            (f"relu{number - 1}" if number else INPUT,),
        ),
        Node(f"norm{number}", GroupNorm(2, 8), (f"conv{number}",)),
        Node(f"relu{number}", ReLU(), (f"norm{number}",)),
    )
]
DEEP = Graph((3, 12, 12), (*LAYERS, Node("flat", Flatten(), ("relu5",)), Node("fc", Linear(8 * 144, 5), ("flat",))))


def _trained(graph: Graph, backend: str, optimizer: Optimizer, keep: float = 1.0, limit: int | None = None) -> Any:
    """Return the sum of losses and the bits of all parameters after two steps, and the learner."""
    learner = GraphLearner(model(graph), backend, limit_bytes=limit)
    neurons = NeuronSet.draw(learner.spec, keep, rng.stream(3, rng.NEURONS)) if keep < 1 else None
    found = learner.fit(samples(graph, 16), BATCHES, optimizer, FitOptions(neurons))
    return (found.loss_sum, {name: value.tobytes() for name, value in learner.read().items()}), learner


def _drawn(graph: Graph, seed: int) -> MemoryPlan:
    """Return a plan with some nodes as checkpoints and some as splits."""
    names, chance = [node.name for node in graph.nodes], np.random.default_rng(seed)
    chosen = sorted(chance.choice(len(names), min(len(names) - 1, chance.integers(1, 6)), replace=False))
    is_split = chance.random(len(chosen)) < 0.4
    kinds = list(zip(chosen, is_split, strict=True))
    return MemoryPlan(
        tuple(names[at] for at, each in kinds if not each), tuple(names[at] for at, each in kinds if each)
    )


def _lowered_by(lowered: Any, plan: MemoryPlan, planner: SchedulePlanner, session: Any, size: int, _: Any) -> Any:
    """Lower a pass by this plan, whatever plan was asked for."""
    return lowered(planner, session, size, plan)


@pytest.mark.parametrize(
    "optimizer", [SGD(0.05, momentum=0.5), SGD(0.1), Adam(0.01)], ids=["momentum", "plain", "adam"]
)
@pytest.mark.parametrize("keep", [1.0, 0.5])
@pytest.mark.parametrize("name", GRAPHS)
def test_any_plan_gives_the_same_bits(
    name: str, keep: float, optimizer: Optimizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = GRAPHS[name]
    whole, _ = _trained(graph, "native", optimizer, keep)
    lowered = SchedulePlanner.lowered
    for seed in range(2):
        plan = _drawn(graph, seed)
        planned = partial(_lowered_by, lowered, plan)
        monkeypatch.setattr(SchedulePlanner, "lowered", lambda *args, planned=planned: planned(*args))
        found, _ = _trained(graph, "native", optimizer, keep)
        assert found == whole, plan


def test_a_limit_makes_a_step_compute_again_with_the_same_bits() -> None:
    whole, free = _trained(DEEP, "native", SGD(0.1, momentum=0.5))
    exact = estimate("exact", TrainingConfiguration("deep", DEEP, 8, examples=16, terms=Terms(momentum=True)))
    arena = exact.parts["arena"]
    assert arena == free.memory()["arena"]
    arenas = []
    for share in (1.0, 0.8, 0.6, 0.5):
        limit = exact.total - arena + int(share * arena)
        found, learner = _trained(DEEP, "native", SGD(0.1, momentum=0.5), limit=limit)
        assert found == whole
        arenas.append(learner.memory()["arena"])
        assert arenas[-1] <= share * arena
    assert arenas[0] == arena
    assert arenas[1] > arenas[3]


def test_the_gradient_within_a_limit_has_the_same_bits() -> None:
    free = GraphLearner(model(DEEP))
    index, data = np.arange(16, dtype=np.int32), samples(DEEP, 16)
    whole = free.gradient(data, index)
    exact = estimate("exact", TrainingConfiguration("deep", DEEP, 16, examples=16))
    limited = GraphLearner(model(DEEP), limit_bytes=exact.total - free.memory()["arena"] // 3)
    for name, value in limited.gradient(data, index).items():
        assert value.tobytes() == whole[name].tobytes()
    assert limited.memory()["arena"] < free.memory()["arena"]


def test_less_memory_computes_more_again() -> None:
    spec = ModelSpec.of(DEEP)

    def lowered(plan: MemoryPlan) -> Any:
        return lower(DEEP, spec, 8, plan=plan)

    found = PlanSearch(lowered, lowered(NO_PLAN)).frontier()
    assert [each.plan == NO_PLAN for each in found] == [True] + [False] * (len(found) - 1)
    assert len(found) >= 3
    arenas, again = [each.schedule.arena_bytes for each in found], [each.again for each in found]
    assert arenas == sorted(arenas, reverse=True)
    assert again == sorted(again)
    assert again[0] == 0
    assert PlanSearch(lowered, lowered(NO_PLAN)).within(arenas[-1] // 2) is None


def test_only_what_is_read_is_computed_again() -> None:
    """Behind the last layer of a segment nothing of it is read, so the layer runs once."""
    spec, plan = ModelSpec.of(DEEP), MemoryPlan(("conv2",))
    calls = [(call.op, call.node) for call in lower(DEEP, spec, 8, plan=plan).calls if call.op == "conv2d_forward"]
    counts = {node.name: calls.count(("conv2d_forward", node.name)) for node in DEEP.nodes if "conv" in node.name}
    assert counts == {"conv0": 2, "conv1": 2, "conv2": 1, "conv3": 1, "conv4": 1, "conv5": 1}
