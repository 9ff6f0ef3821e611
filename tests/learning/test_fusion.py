"""The rewrite of normalisation, ReLU and max pool into one node: which runs it takes, and that nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest

from edgefl import rng
from edgefl.learning import SGD, FitOptions, GraphLearner
from edgefl.learning.lowering import lower as lowering
from edgefl.learning.lowering.fusion import FusedNormReLU, fuse
from edgefl.learning.lowering.lower import Mode, lower
from edgefl.models.graph import INPUT, Graph, Model, Node, architectures
from edgefl.models.graph.cuts import cuts
from edgefl.models.graph.operations import (
    Add,
    BatchNorm,
    BatchNorm1d,
    BatchNorm2d,
    Conv2d,
    Flatten,
    GroupNorm,
    Linear,
    MaxPool2d,
    Operation,
    ReLU,
    ReLU6,
)
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet

from . import oracle
from .graphs import chain, model, samples

NORMS: dict[str, Operation] = {"batch": BatchNorm2d(4), "group": GroupNorm(2, 4)}
HALVING = MaxPool2d((2, 2), (2, 2))


def block(norm: Operation, pool: Operation | None, size: tuple[int, int] = (9, 7), kernel: int = 2) -> Graph:
    """An even kernel and odd planes: convolution, norm, ReLU, pool, convolution, norm, ReLU, classes."""
    nodes = [Node("conv1", Conv2d(2, 4, (kernel, kernel)), (INPUT,)), Node("norm1", norm, ("conv1",))]
    nodes += [Node("relu1", ReLU(), ("norm1",))]
    if pool is not None:
        nodes.append(Node("pool1", pool, (nodes[-1].name,)))
    nodes += [Node("conv2", Conv2d(4, 4, (2, 2), stride=(2, 1)), (nodes[-1].name,)), Node("norm2", norm, ("conv2",))]
    nodes += [Node("relu2", ReLU(), ("norm2",)), Node("flatten", Flatten(), ("relu2",))]
    features = Graph((2, *size), tuple(nodes)).output_shape[0]
    return Graph((2, *size), (*nodes, Node("fc", Linear(features, 5), ("flatten",))))


def kinds(graph: Graph) -> list[str]:
    return [type(node.op).__name__ for node in fuse(graph.nodes)]


def test_a_run_becomes_one_node_with_the_name_of_its_last() -> None:
    nodes = fuse(block(BatchNorm2d(4), HALVING).nodes)
    assert [node.name for node in nodes] == ["conv1", "pool1", "conv2", "relu2", "flatten", "fc"]
    first, second = nodes[1].op, nodes[3].op
    assert isinstance(first, FusedNormReLU) and first.is_pooled and nodes[1].inputs == ("conv1",)
    assert isinstance(second, FusedNormReLU) and not second.is_pooled and second.norm.name == "norm2"


@pytest.mark.parametrize(
    "pool", [MaxPool2d((3, 3), (2, 2)), MaxPool2d((2, 2), (1, 1)), MaxPool2d((2, 2), (2, 2), (1, 1))]
)
def test_other_pools_stay_apart(pool: Operation) -> None:
    assert kinds(block(GroupNorm(2, 4), pool))[1:3] == ["FusedNormReLU", "MaxPool2d"]


def test_a_result_with_two_readers_is_not_swallowed() -> None:
    nodes = [Node("norm", BatchNorm2d(2), (INPUT,)), Node("relu", ReLU(), ("norm",)), Node("pool", HALVING, ("relu",))]
    twice = Node("again", HALVING, ("relu",)), Node("sum", Add(), ("pool", "again"))
    assert kinds(Graph((2, 4, 4), (*nodes, *twice)))[:2] == ["FusedNormReLU", "MaxPool2d"]
    skip = Node("sum", Add(), ("norm", "relu"))
    assert kinds(Graph((2, 4, 4), (*nodes[:2], skip))) == ["BatchNorm2d", "ReLU", "Add"]


def test_batch_norm_takes_relu6_and_group_norm_does_not() -> None:
    for norm, expected in ((BatchNorm2d(2), ["FusedNormReLU"]), (GroupNorm(2, 2), ["GroupNorm", "ReLU6", "MaxPool2d"])):
        nodes = Node("norm", norm, (INPUT,)), Node("relu", ReLU6(), ("norm",)), Node("pool", HALVING, ("relu",))
        assert kinds(Graph((2, 4, 4), nodes)) == expected
    (fused,) = fuse((Node("norm", BatchNorm2d(2), (INPUT,)), Node("relu", ReLU6(), ("norm",))))
    assert isinstance(fused.op, FusedNormReLU) and fused.op.is_relu6


def calls(graph: Graph, mode: Mode, batch: int = 3) -> list[str]:
    return [call.op for call in lower(graph, ModelSpec.of(graph), batch, mode=mode).calls]


@pytest.mark.parametrize("mode", ["evaluate", "predict"])
def test_batch_norm_by_running_statistics_is_one_call_with_its_rectifier_and_pool(mode: Mode) -> None:
    found = calls(block(BatchNorm2d(4), HALVING), mode)
    convolutions = ["conv2d_forward", "batchnorm_relu_eval"] * 2
    assert found[: found.index("linear_forward") + 1] == ["gather_rows", *convolutions, "linear_forward"]
    assert "batchnorm_relu_eval" not in calls(block(BatchNorm2d(4), HALVING), "train")
    assert "batchnorm_relu_eval" not in calls(block(GroupNorm(2, 4), HALVING), mode)


CAPPED = chain(
    (3, 32, 32),
    ("conv", Conv2d(3, 6, (3, 3), (2, 3))),
    ("norm1", BatchNorm2d(6)),
    ("relu1", ReLU6()),
    ("pool", HALVING),
    ("flatten", Flatten()),
    ("fc1", Linear(210, 19)),
    ("norm2", BatchNorm1d(19)),
    ("relu2", ReLU6()),
    ("fc2", Linear(19, 10)),
)


@pytest.mark.parametrize("backend", ["native", "numba", "reference"])
@pytest.mark.parametrize("name", ["capped", "fedspu_emnist", "fedspu_speech"])
def test_evaluation_by_running_statistics_has_the_bits_of_the_parts(
    monkeypatch: pytest.MonkeyPatch, name: str, backend: str
) -> None:
    """Logits, losses and results at a cut are compared, and the arena is not larger."""
    graph = CAPPED if name == "capped" else architectures.build(name, (3, 32, 32), 10)
    data, cut = samples(graph, 3), cuts(graph)[0]
    learner, parts = GraphLearner(away_from_start(graph), backend), GraphLearner(away_from_start(graph), backend)
    found = learner.predict(data.x), learner.evaluate(data), learner.features(data, cut=cut)
    planned = lower(graph, ModelSpec.of(graph), 3, mode="predict")
    assert "batchnorm_relu_eval" in {call.op for call in planned.calls}
    monkeypatch.setattr(lowering, "fuse", lambda nodes, apart, outputs: nodes)
    assert planned.arena_bytes <= lower(graph, ModelSpec.of(graph), 3, mode="predict").arena_bytes
    expected = parts.predict(data.x), parts.evaluate(data), parts.features(data, cut=cut)
    assert found[0].tobytes() == expected[0].tobytes()
    assert found[1] == expected[1]
    assert found[2].tobytes() == expected[2].tobytes()


def away_from_start(graph: Graph) -> Model:
    """The graph's model with statistics, weights and biases of norms that no initialisation gives."""
    found, draw = model(graph), np.random.default_rng(4)
    for node in graph.nodes:
        if isinstance(node.op, BatchNorm):
            channels = node.op.num_features
            found.params[f"{node.name}.running_mean"][:] = draw.normal(0, 0.2, channels)
            found.params[f"{node.name}.running_var"][:] = draw.uniform(0.2, 2, channels)
            found.params[f"{node.name}.weight"][:] = draw.normal(0, 1, channels)
            found.params[f"{node.name}.bias"][:] = draw.normal(0, 0.5, channels)
    return found


@pytest.mark.parametrize("delta", ["exact", "cut"])
@pytest.mark.parametrize("batch", [1, 6])
@pytest.mark.parametrize("pool", [None, HALVING], ids=["unpooled", "pooled"])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("backend", ["native", "numba", "reference"])
def test_fused_training_equals_the_parts(
    monkeypatch: pytest.MonkeyPatch, backend: str, norm: str, pool: Operation | None, batch: int, delta: str
) -> None:
    """Three steps run with all neurons and with half of them. Frozen coordinates keep their bits, and statistics
    follow.
    """
    graph = block(NORMS[norm], pool)
    data, spec = samples(graph, batch), ModelSpec.of(graph)
    half = NeuronSet.draw(spec, 0.5, rng.stream(2, rng.NEURONS))
    for neurons in (None, half):
        found = []
        for is_fused in (True, False):
            if not is_fused:
                monkeypatch.setattr(lowering, "fuse", lambda nodes, apart, outputs: nodes)
            learner = GraphLearner(model(graph), backend)
            learner.fit(
                data, [np.arange(batch, dtype=np.int32)] * 3, SGD(0.05, momentum=0.5), FitOptions(neurons, delta=delta)
            )
            found.append((dict(learner.read()), learner.evaluate(data).loss_sum))
            monkeypatch.undo()
        (fused, fused_loss), (parts, parts_loss) = found
        assert fused_loss == pytest.approx(parts_loss, rel=1e-4)
        for name, value in parts.items():
            np.testing.assert_allclose(fused[name], value, rtol=1e-4, atol=2e-5, err_msg=name)
        frozen = {} if neurons is None else neurons.blocks(spec, kinds=("learn",))
        for name, (rows, cols) in frozen.items():
            is_frozen = np.ones_like(parts[name], bool)
            rows = np.arange(is_frozen.shape[0]) if rows is None else rows
            is_frozen[rows if cols is None else np.ix_(rows, cols)] = False
            np.testing.assert_array_equal(fused[name][is_frozen], model(graph).params[name][is_frozen], err_msg=name)


@pytest.mark.parametrize("keep", [1.0, 0.5])
@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize(("kernel", "size"), [(2, (9, 7)), (3, (8, 11)), (4, (14, 13))])
@pytest.mark.parametrize("pool", [None, HALVING], ids=["unpooled", "pooled"])
@pytest.mark.parametrize("norm", NORMS)
def test_gradients_of_fused_blocks_equal_autograd(
    norm: str, pool: Operation | None, kernel: int, size: tuple[int, int], batch: int, keep: float
) -> None:
    """The error is within 1e-10 of a gradient's largest value in float64, and within float32's roundings on native."""
    graph = block(NORMS[norm], pool, size, kernel)
    assert kinds(graph).count("FusedNormReLU") == 2
    for backend, dtype, bound in (("reference", np.float64, 1e-10), ("native", np.float32, 2e-5)):
        learner = GraphLearner(model(graph), backend, dtype)
        data = samples(graph, batch, dtype=dtype)
        neurons = NeuronSet.draw(learner.spec, keep, rng.stream(3, rng.NEURONS))
        dense = oracle.gradients(graph, dict(model(graph).params), data.x, data.y)
        found = learner.gradient(data, np.arange(batch, dtype=np.int32), neurons)
        scale = max(np.abs(value).max() for value in dense.values())
        for name, axes in neurons.blocks(learner.spec, kinds=("learn",)).items():
            expected = oracle.block(dense[name], *axes)
            np.testing.assert_allclose(found[name], expected, rtol=0, atol=bound * scale, err_msg=f"{backend} {name}")


@pytest.mark.parametrize("name", ["fedspu_emnist", "fedspu_cifar", "vgg11"])
def test_fused_plans_are_smaller(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    graph = architectures.build(name, (3, 32, 32), 10)
    fused = lower(graph, ModelSpec.of(graph), 16).arena_bytes
    monkeypatch.setattr(lowering, "fuse", lambda nodes, apart, outputs: nodes)
    assert fused < lower(graph, ModelSpec.of(graph), 16).arena_bytes
