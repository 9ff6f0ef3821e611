"""Images side by side between sparse convolutions: where lowering plans them, and that they change no bit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from edgefl.kernels.sparse_choice import LANES as LANES_OF
from edgefl.learning import SGD, GraphLearner
from edgefl.learning.lowering import lower as lowering
from edgefl.learning.lowering import sparse_weight
from edgefl.learning.lowering.batch_layout import side_by_side
from edgefl.learning.lowering.fusion import fuse
from edgefl.learning.lowering.sparse_weight import SparseWeight, candidate
from edgefl.models.graph import INPUT, Graph, Node
from edgefl.models.graph.architectures import build
from edgefl.models.graph.operations import (
    Add,
    BatchNorm2d,
    Conv2d,
    Flatten,
    GlobalAvgPool,
    GroupNorm,
    LeakyReLU,
    Linear,
    MaxPool2d,
    ReLU,
)
from edgefl.models.neurons.model_spec import ModelSpec

from .graphs import CLASSES, GRAPHS, chain, model, samples
from .test_fit import TERMS
from .test_restrict import drawn

LANES = 16
HALVE = MaxPool2d((2, 2), (2, 2))


def convolution(ins: int, outs: int) -> Conv2d:
    return Conv2d(ins, outs, (3, 3), padding=(1, 1), bias=False)


CHAIN = chain(
    (3, 8, 8),
    ("a", convolution(3, 6)),
    ("relu_a", ReLU()),
    ("b", convolution(6, 8)),
    ("relu_b", LeakyReLU()),
    ("pool_b", HALVE),
    ("c", convolution(8, 6)),
    ("pool_c", MaxPool2d((3, 3), (2, 2), (1, 1))),
    ("relu_c", ReLU()),
    ("flatten", Flatten()),
    ("fc", Linear(24, CLASSES)),
)
BRANCHES = Graph(
    (3, 8, 8),
    (
        Node("stem", convolution(3, 6), (INPUT,)),
        Node("bn", BatchNorm2d(6), ("stem",)),
        Node("relu", ReLU(), ("bn",)),
        Node("a", convolution(6, 6), ("relu",)),
        Node("bn_a", BatchNorm2d(6), ("a",)),
        Node("add_a", Add(), ("bn_a", "relu")),
        Node("relu_a", ReLU(), ("add_a",)),
        Node("b", Conv2d(6, 8, (3, 3), (2, 2), (1, 1)), ("relu_a",)),
        Node("short", Conv2d(6, 8, (1, 1), (2, 2)), ("relu_a",)),
        Node("add_b", Add(), ("b", "short")),
        Node("relu_b", ReLU(), ("add_b",)),
        Node("mean", GlobalAvgPool(), ("relu_b",)),
        Node("flatten", Flatten(), ("mean",)),
        Node("fc", Linear(8, CLASSES), ("flatten",)),
    ),
)


def planned(graph: Graph, names: list[str], batch: int = LANES, lanes: int = LANES) -> list[str]:
    """The results that lie side by side where these layers run sparse, in order."""
    spec = ModelSpec.of(graph)
    sparse = {f"{name}.weight": weight_of(graph, spec, name, batch, lanes) for name in names}
    nodes = fuse(graph.nodes)
    found = side_by_side(nodes, graph.shapes, batch, sparse)
    return [node.name for node in nodes if node.name in found]


def weight_of(graph: Graph, spec: ModelSpec, name: str, batch: int, lanes: int) -> SparseWeight:
    weight = candidate(graph, spec, f"{name}.weight", 10, batch)
    assert weight is not None
    return replace(weight, lanes=lanes)


def test_results_between_sparse_convolutions_lie_side_by_side() -> None:
    first, second, third = ["a", "relu_a"], ["b", "relu_b", "pool_b"], ["c", "pool_c", "relu_c"]
    assert planned(CHAIN, ["a", "b", "c"]) == [*first, *second, *third]  # what is turned for `flatten` is small
    assert planned(CHAIN, ["a", "b"]) == [*first, *second]  # c is dense, and reads less than b makes
    assert planned(CHAIN, ["b", "c"]) == [*second, *third]  # a is dense, and makes as much as b reads
    assert planned(CHAIN, ["c"]) == third
    assert planned(CHAIN, ["fc"]) == planned(CHAIN, []) == []


def test_what_an_addition_joins_has_one_layout() -> None:
    body, end = ["relu", "a", "bn_a", "add_a", "relu_a"], ["b", "short", "add_b", "relu_b"]
    assert planned(BRANCHES, ["stem", "a", "b", "short"]) == ["stem", *body, *end]
    assert planned(BRANCHES, ["a", "b", "short"]) == [*body, *end]
    assert planned(BRANCHES, ["b", "short"]) == end  # two dense results would be turned for two readers
    assert planned(BRANCHES, ["a"]) == []


def test_batches_that_do_not_fill_words_keep_torchs_layout() -> None:
    assert planned(CHAIN, ["a", "b", "c"], batch=24) == []
    assert planned(CHAIN, ["a", "b", "c"], batch=24, lanes=8) == planned(CHAIN, ["a", "b", "c"])
    assert planned(CHAIN, ["a", "b", "c"], lanes=1) == []


def operations(learner: GraphLearner) -> set[str]:
    """Return the operations of the passes that the learner has lowered."""
    sessions = learner._workspace.sessions.values()
    return {call.op for each in sessions for schedule in each.schedules.values() for call in schedule.calls}


def trained(backend: str, graph: Graph) -> tuple[GraphLearner, dict[str, np.ndarray]]:
    """A learner at a mask after some steps, one of them of a batch that fills no word, and what else it says then."""
    learner, data = GraphLearner(model(graph), backend), samples(graph, 2 * LANES + 3)
    learner.restrict(drawn(graph), LANES)
    index, rest = np.arange(2 * LANES, dtype=np.int32), np.arange(3, dtype=np.int32)
    learner.fit(data, [index[:LANES], index[LANES:], rest, index], TERMS["all"])
    learner.fit(data, [index], SGD(0.1))
    score = learner.evaluate(data, index)
    found = {"logits": learner.predict(data.x[index]), "score": np.array([score.loss_sum, score.correct])}
    layers = frozenset(node.name for node in graph.nodes if isinstance(node.op, Conv2d)) - {graph.nodes[0].name}
    gradient = learner.gradient(data, index, layers)
    return learner, {**learner.read(), **found, **{f"gradient of {name}": each for name, each in gradient.items()}}


NORMS = chain(
    (3, 9, 8),
    ("a", convolution(3, 6)),
    ("norm_a", GroupNorm(2, 6)),
    ("relu_a", ReLU()),
    ("pool_a", HALVE),
    ("b", convolution(6, 8)),
    ("norm_b", GroupNorm(4, 8)),
    ("c", convolution(8, 6)),
    ("norm_c", BatchNorm2d(6)),
    ("relu_c", ReLU()),
    ("pool_c", HALVE),
    ("d", convolution(6, 4)),
    ("norm_d", GroupNorm(1, 4)),
    ("relu_d", ReLU()),
    ("flatten", Flatten()),
    ("fc", Linear(16, CLASSES)),
)
GRAPHS_HERE = {
    "norms": NORMS,
    "chain": CHAIN,
    "branches": BRANCHES,
    "residual": GRAPHS["residual"],
    "plain": GRAPHS["plain"],
}
TURNED = {"from_lanes", "maxpool_lanes_forward"}
EXACT = {"chain"}  # sums over a channel, of biases and norms, go in another order where images lie side by side


@pytest.mark.parametrize("backend", ["native", "reference"])
def test_a_layout_changes_no_bit_but_in_sums_over_a_channel(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse_weight, "runs_sparse", lambda weight, ops: True)
    monkeypatch.setitem(LANES_OF, "", 4)
    graphs = {**GRAPHS_HERE, "lenet5": build("lenet5", (1, 28, 28), CLASSES)}
    for name, graph in graphs.items() if backend == "native" else GRAPHS_HERE.items():
        ours, found = trained(backend, graph)
        assert operations(ours) & TURNED, name
        with monkeypatch.context() as patched:
            patched.setattr(lowering, "side_by_side", lambda *_: frozenset())
            plain, expected = trained(backend, graph)
        assert not operations(plain) & TURNED
        equal(f"{backend}, {name}", found, expected, is_exact=name in EXACT)


def equal(note: str, found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray], is_exact: bool) -> None:
    for key, value in expected.items():
        if is_exact:
            assert np.array_equal(found[key], value), f"{note}: {key}"
        else:
            bound = 1e-4 * max(float(np.abs(value).max(initial=0)), 1e-2)
            np.testing.assert_allclose(found[key], value, 0, bound, err_msg=f"{note}: {key}")
