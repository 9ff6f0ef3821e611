"""Sub-models: their sizes, their parameters, and that they compute the full model with zeroed neurons."""

from __future__ import annotations

import numpy as np
import pytest

from edgefl import rng
from edgefl.errors import GraphError, SelectionError
from edgefl.models.graph import Graph, Node, architectures
from edgefl.models.graph.operations import (
    Add,
    BatchNorm2d,
    Conv2d,
    Flatten,
    GlobalAvgPool,
    GroupNorm,
    Linear,
    MaxPool2d,
    ReLU,
)
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.submodel import sub_params

TINY = Graph(
    (1, 2, 2),
    (
        Node("conv", Conv2d(1, 3, (1, 1)), ("input",)),
        Node("flatten", Flatten(), ("conv",)),
        Node("fc", Linear(12, 2), ("flatten",)),
    ),
)

MIXED = Graph(
    (3, 8, 8),
    (
        Node("stem", Conv2d(3, 6, (3, 3), padding=(1, 1)), ("input",)),
        Node("bn", BatchNorm2d(6), ("stem",)),
        Node("relu", ReLU(), ("bn",)),
        Node("dw", Conv2d(6, 12, (3, 3), padding=(1, 1), groups=6), ("relu",)),
        Node("dw_bn", BatchNorm2d(12), ("dw",)),
        Node("dw_relu", ReLU(), ("dw_bn",)),
        Node("point", Conv2d(12, 6, (1, 1)), ("dw_relu",)),
        Node("point_bn", BatchNorm2d(6), ("point",)),
        Node("sum", Add(), ("point_bn", "relu")),
        Node("relu2", ReLU(), ("sum",)),
        Node("pool", MaxPool2d((2, 2), (2, 2)), ("relu2",)),
        Node("flatten", Flatten(), ("pool",)),
        Node("fc1", Linear(96, 8), ("flatten",)),
        Node("relu3", ReLU(), ("fc1",)),
        Node("fc", Linear(8, 4), ("relu3",)),
    ),
)


def draw(graph: Graph, keep: float) -> NeuronSet:
    return NeuronSet.draw(ModelSpec.of(graph), keep, rng.stream(7, rng.NEURONS))


def test_sub_model_of_a_chosen_neuron_by_hand() -> None:
    neurons = NeuronSet.of(ModelSpec.of(TINY), {"conv": [0, 2]})
    small = TINY.sub(neurons)
    assert [node.op for node in small.nodes] == [Conv2d(1, 2, (1, 1)), Flatten(), Linear(8, 2)]
    params = {
        "conv.weight": np.arange(3, dtype=np.float32).reshape(3, 1, 1, 1),
        "conv.bias": np.arange(3, 6, dtype=np.float32),
        "fc.weight": np.arange(24, dtype=np.float32).reshape(2, 12),
        "fc.bias": np.arange(2, dtype=np.float32),
    }
    kept = sub_params(TINY, params, neurons)
    assert kept["conv.weight"].ravel().tolist() == [0, 2]
    assert kept["conv.bias"].tolist() == [3, 5]
    assert kept["fc.weight"].tolist() == [[0, 1, 2, 3, 8, 9, 10, 11], [12, 13, 14, 15, 20, 21, 22, 23]]
    assert kept["fc.bias"].tolist() == [0, 1]
    small.check(kept)


def test_sub_params_are_copies() -> None:
    params = TINY.init(rng.stream(1, rng.INIT))
    kept = sub_params(TINY, params, NeuronSet.full(ModelSpec.of(TINY)))
    kept["fc.weight"][:] = 9
    assert (params["fc.weight"] != 9).all()


def test_sub_model_of_all_neurons_is_the_graph() -> None:
    for name in architectures.PUBLISHED:
        graph = architectures.build(name, (3, 32, 32), 10)
        assert graph.sub(NeuronSet.full(ModelSpec.of(graph))) == graph


@pytest.mark.parametrize("keep", [0.2, 0.5, 0.8])
@pytest.mark.parametrize(
    "graph", [MIXED, *(architectures.build(name, (3, 32, 32), 10) for name in ("fedspu_cifar", "lenet5"))]
)
def test_sub_model_has_as_many_parameters_as_are_active(graph, keep) -> None:
    spec, neurons = ModelSpec.of(graph), draw(graph, keep)
    small = graph.sub(neurons)
    params = graph.init(rng.stream(1, rng.INIT))
    kept = sub_params(graph, params, neurons)
    small.check(kept)
    assert sum(value.size for value in kept.values()) == neurons.count(spec, ("learn", "stat"))


def test_depthwise_convolution_keeps_its_multiplier() -> None:
    neurons = NeuronSet.of(ModelSpec.of(MIXED), {"stem": [1, 4, 5], "fc1": [0]})
    small = {node.name: node.op for node in MIXED.sub(neurons).nodes}
    assert small["dw"] == Conv2d(3, 6, (3, 3), padding=(1, 1), groups=3)
    assert small["fc1"] == Linear(3 * 16, 1)


def norm_graph() -> Graph:
    return Graph(
        (1, 4, 4),
        (
            Node("conv", Conv2d(1, 4, (3, 3)), ("input",)),
            Node("gn", GroupNorm(2, 4), ("conv",)),
            Node("pool", GlobalAvgPool(), ("gn",)),
            Node("flatten", Flatten(), ("pool",)),
            Node("fc", Linear(4, 2), ("flatten",)),
        ),
    )


def test_group_norm_with_equally_many_kept_channels_is_kept() -> None:
    graph = norm_graph()
    small = graph.sub(NeuronSet.of(ModelSpec.of(graph), {"conv": [1, 2]}))
    assert small.nodes[1].op == GroupNorm(2, 2)


@pytest.mark.parametrize(("kept", "counts"), [([0, 1, 2], [2, 1]), ([0, 1], [2, 0])])
def test_group_norm_whose_groups_would_break_is_refused(kept, counts) -> None:
    graph = norm_graph()
    with pytest.raises(GraphError) as error:
        graph.sub(NeuronSet.of(ModelSpec.of(graph), {"conv": kept}))
    assert str(error.value) == (
        f"node 'gn': a sub-model would keep {counts} channels of the 2 groups of GroupNorm; "
        "expected equally many channels in each group"
    )


def test_grouped_convolution_whose_groups_would_break_is_refused() -> None:
    graph = Graph(
        (4, 4, 4),
        (
            Node("conv", Conv2d(4, 4, (1, 1), groups=2), ("input",)),
            Node("head", Conv2d(4, 2, (1, 1)), ("conv",)),
        ),
    )
    spec = ModelSpec.of(graph)
    assert graph.sub(NeuronSet.of(spec, {"conv": [1, 3]})).nodes[0].op == Conv2d(4, 2, (1, 1), groups=2)
    with pytest.raises(GraphError, match=r"node 'conv': a sub-model would keep \[1, 0\] channels"):
        graph.sub(NeuronSet.of(spec, {"conv": [1]}))


def test_neurons_of_another_model_are_refused() -> None:
    with pytest.raises(SelectionError):
        TINY.sub(draw(MIXED, 0.5))
