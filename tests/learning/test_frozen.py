"""Frozen parameters in a learner: against torch in float64, and on backends. They have no gradient, state or backward
pass.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from edgefl.learning import SGD, FitOptions, GraphLearner, Samples
from edgefl.learning.batches import Keyed, Listed
from edgefl.learning.losses import MSE
from edgefl.learning.lowering.lower import lower
from edgefl.learning.lowering.updates import Terms
from edgefl.learning.optimizers import Adam
from edgefl.models.graph import INPUT, Graph, Model, Node
from edgefl.models.graph.operations import BatchNorm, BatchNorm2d, Conv2d, Flatten, Linear, ReLU
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.rng import NEURONS, stream
from edgefl.torch import TorchLearner
from tests.learning.graphs import GRAPHS, model, samples

ROWS = np.arange(8, dtype=np.int32)
OPTIMIZERS = {"momentum": SGD(0.05, momentum=0.9, weight_decay=0.01, clip=1.0), "adam": Adam(0.01)}


def partly_frozen(graph: Graph, seed: int) -> Graph:
    """About half of the parameters, one by one, and the statistics of about half of the BatchNorms."""
    draw = np.random.default_rng(seed)
    learned = ModelSpec.of(graph).learned
    chosen = {name for name in learned[:-1] if draw.random() < 0.5}
    for node in graph.nodes:
        if isinstance(node.op, BatchNorm) and draw.random() < 0.5:
            chosen |= {node.full_name("running_mean"), node.full_name("running_var")}
    return replace(graph, frozen=frozenset(chosen))


def batches() -> Listed:
    return Listed([ROWS[:4], ROWS[4:], ROWS[2:6]], Keyed(5))


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", [name for name, graph in GRAPHS.items() if len(graph.output_shape) == 1])
def test_any_parameters_may_be_frozen(name: str, seed: int) -> None:
    """Half of a layer, too: gradients and steps are torch's, and what is frozen keeps its bits."""
    given = model(partly_frozen(GRAPHS[name], seed))
    ours, theirs = GraphLearner(given, "reference", np.float64), TorchLearner(given, dtype=np.float64)
    data = samples(given.graph, len(ROWS), dtype=np.float64)
    found, expected = (each.gradient(data, ROWS, key=3) for each in (ours, theirs))
    assert found.keys() == expected.keys() == set(ModelSpec.of(given.graph).learned)
    for parameter, value in expected.items():
        np.testing.assert_allclose(found[parameter].reshape(value.shape), value, rtol=1e-7, atol=1e-9)
    for each in (ours, theirs):
        each.fit(data, batches(), OPTIMIZERS["momentum"])
    for parameter, value in theirs.read().items():
        np.testing.assert_allclose(ours.read()[parameter], value, rtol=1e-6, atol=1e-8, err_msg=parameter)
    for parameter in given.graph.frozen:
        start = given.params[parameter].astype(np.float64)
        assert ours.read()[parameter].tobytes() == theirs.read()[parameter].tobytes() == start.tobytes()


@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
@pytest.mark.parametrize("keep", [1.0, 0.5])
@pytest.mark.parametrize(
    ("name", "backend"), [("plain", "native"), ("depthwise", "native"), ("residual", "native"), ("plain", "numba")]
)
def test_backends_agree(name: str, backend: str, keep: float, optimizer: SGD | Adam) -> None:
    given = model(partly_frozen(GRAPHS[name], 1))
    neurons = NeuronSet.draw(ModelSpec.of(given.graph), keep, stream(1, NEURONS))
    learners = [GraphLearner(given, each) for each in (backend, "reference")]
    for each in learners:
        each.fit(samples(given.graph, len(ROWS)), batches(), optimizer, FitOptions(neurons))
    for parameter, value in learners[1].read().items():
        np.testing.assert_allclose(learners[0].read()[parameter], value, rtol=2e-3, atol=2e-4, err_msg=parameter)
    for parameter in given.graph.frozen:
        assert learners[0].read()[parameter].tobytes() == given.params[parameter].tobytes()


def test_a_batch_norm_that_keeps_its_statistics_by_hand() -> None:
    """x = 3 in one channel with mean 1 and variance 4 gives y = w (3 - 1) / 2 + b = w + b. With dy = 1, dw = 1 and db =
    1.
    """
    nodes = (
        Node("bn", BatchNorm2d(1, eps=1e-30), (INPUT,)),
        Node("flat", Flatten(), ("bn",)),
        Node("fc", Linear(1, 1, bias=False), ("flat",)),
    )
    graph = Graph((1, 1, 1), nodes, frozenset({"bn.running_mean", "bn.running_var", "fc.weight"}))
    start = {"bn.weight": 5, "bn.bias": 7, "bn.running_mean": 1, "bn.running_var": 4, "fc.weight": 1}
    params = {name: np.full(info.shape, start[name], np.float32) for name, info in graph.parameters().items()}
    learner = GraphLearner(Model(graph, params), "reference", np.float64)
    data = samples(graph, 1, dtype=np.float64, classes=1)
    data.x[...] = 3
    assert learner.predict(data.x).item() == 12
    gradient = learner.gradient(Samples(data.x, np.full((1, 1), 11.5), loss=MSE()), ROWS[:1])
    assert {name: value.item() for name, value in gradient.items()} == {"bn.weight": 1, "bn.bias": 1}  # 2 (12 - 11.5)


CHAIN = Graph(
    (3, 6, 6),
    (
        Node("conv1", Conv2d(3, 8, (3, 3), padding=(1, 1)), (INPUT,)),
        Node("bn1", BatchNorm2d(8), ("conv1",)),
        Node("relu1", ReLU(), ("bn1",)),
        Node("conv2", Conv2d(8, 8, (3, 3), padding=(1, 1)), ("relu1",)),
        Node("bn2", BatchNorm2d(8), ("conv2",)),
        Node("relu2", ReLU(), ("bn2",)),
        Node("flat", Flatten(), ("relu2",)),
        Node("fc", Linear(288, 5), ("flat",)),
    ),
)
BODY = frozenset(name for name in CHAIN.parameters() if not name.startswith("fc."))


def test_below_the_lowest_trained_layer_nothing_runs_backward() -> None:
    frozen, whole = (lower(each, ModelSpec.of(each), 4) for each in (replace(CHAIN, frozen=BODY), CHAIN))
    after = [call.op for call in frozen.calls[[call.node for call in frozen.calls].index("loss") :]]
    assert {call.node for call in frozen.calls if call.op.endswith(("backward", "grad_input"))} == set()
    assert sum(op in ("linear_update", "channel_sum", "sgd") for op in after) == 3  # weight: one, bias: two
    assert frozen.arena_bytes < whole.arena_bytes / 2


def test_the_optimizer_has_no_state_of_what_is_frozen() -> None:
    graph = replace(CHAIN, frozen=BODY)
    terms = Terms(momentum=True, pull=True, linear=True)
    schedule = lower(graph, ModelSpec.of(graph), 4, terms=terms)
    assert {state.param for state in schedule.states} == {"fc.weight", "fc.bias"}
    assert sum(math.prod(state.shape) for state in schedule.states) == 3 * (288 * 5 + 5)


def test_kept_statistics_stay_and_moving_ones_move() -> None:
    """Frozen weight and bias alone: as in torch the statistics follow the batches."""
    affine = frozenset(name for name in BODY if "running" not in name)
    for frozen, moves in ((BODY, False), (affine, True)):
        given = model(replace(CHAIN, frozen=frozen))
        learner = GraphLearner(given)
        learner.fit(samples(given.graph, len(ROWS)), batches(), SGD(0.1))
        found = {name: not np.array_equal(learner.read()[name], given.params[name]) for name in BODY}
        assert found == {name: moves and "running" in name for name in BODY}


def test_learners_beside_one_keep_what_is_frozen() -> None:
    """These are learners of other heads, after a cut and of fewer neurons, and a clone."""
    given = model(replace(CHAIN, frozen=BODY))
    learner, data = GraphLearner(given), samples(given.graph, len(ROWS))
    neurons = NeuronSet.draw(learner.spec, 0.5, stream(1, NEURONS))
    smaller = learner.sub(neurons)
    before = {name: value.copy() for name, value in smaller.read().items()}
    relatives = [learner.with_head(3), learner.clone(), smaller]
    for each in relatives:
        each.fit(samples(each.graph, len(ROWS), classes=each.graph.output_shape[0]), batches(), SGD(0.1))
    learner.fit(data, batches(), SGD(0.1), FitOptions(cut="relu1"))
    learner.absorb(smaller, neurons)
    for name in BODY:
        assert learner.read()[name].tobytes() == given.params[name].tobytes()
        assert smaller.read()[name].tobytes() == before[name].tobytes()
    assert not np.array_equal(smaller.read()["fc.weight"], before["fc.weight"])


@pytest.fixture(autouse=True, scope="module")
def one_torch_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
