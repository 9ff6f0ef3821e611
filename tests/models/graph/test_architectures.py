"""The built-in models against the figures of their papers: parameters and multiply-accumulates."""

from __future__ import annotations

import math

import pytest

from edgefl.errors import GraphError
from edgefl.models.graph import Graph, architectures


def scalars(graph: Graph, kind: str) -> int:
    return sum(math.prod(info.shape) for info in graph.parameters().values() if info.kind == kind)


@pytest.mark.parametrize(
    ("name", "input_shape", "classes", "learn", "stat"),
    [
        ("fedspu_emnist", (1, 28, 28), 62, 64_722, 80),
        ("fedspu_cifar", (3, 32, 32), 10, 134_902, 44),
        ("fedspu_speech", (1, 32, 32), 35, 26_285, 200),
        ("lenet5", (1, 28, 28), 26, 439_096, 0),
        ("vgg11", (3, 32, 32), 10, 9_231_114, 0),
        ("resnet18", (3, 32, 32), 100, 11_220_132, 0),
        ("pflego_mlp", (1, 28, 28), 10, 784 * 200 + 200 + 200 * 10 + 10, 0),
        ("feddyn_mlp", (1, 28, 28), 10, 784 * 100 + 100 + 100 * 100 + 100 + 100 * 10 + 10, 0),
        ("digits_cnn", (1, 8, 8), 10, 320 + 64 + 18_496 + 128 + 2_570, 192),
    ],
)
def test_parameter_counts(name, input_shape, classes, learn, stat) -> None:
    graph = architectures.build(name, input_shape, classes)
    assert (scalars(graph, "learn"), scalars(graph, "stat")) == (learn, stat)
    assert graph.output_shape == (classes,)


@pytest.mark.parametrize(
    ("name", "input_shape", "classes", "macs"),
    [
        ("vgg11", (3, 32, 32), 10, 152_769_536),
        ("resnet18", (3, 32, 32), 100, 555_468_800),
        ("lenet5", (1, 28, 28), 26, 2_301_000),
    ],
)
def test_multiply_accumulates_per_example(name, input_shape, classes, macs) -> None:
    assert sum(architectures.build(name, input_shape, classes).macs().values()) == macs


def test_layer_names_are_those_of_the_public_code() -> None:
    graph = architectures.build("fedspu_cifar", (3, 32, 32), 10)
    layers = [node.name for node in graph.nodes if node.op.parameters()]
    assert layers == ["conv1", "bn1", "conv2", "bn2", "fc1", "fc2", "fc"]
    assert "fc1.bias" not in graph.parameters()
    assert "fc.bias" in graph.parameters()


def test_flat_features_follow_the_input_shape() -> None:
    assert architectures.build("fedspu_emnist", (3, 20, 36), 7).parameters()["fc.weight"].shape == (7, 20 * 5 * 9)


def test_pflego_features_have_the_sizes_of_the_paper() -> None:
    cifar = architectures.build("pflego_cifar", (3, 32, 32), 10)
    assert (cifar.shapes["flatten"], cifar.parameters()["fc.weight"].shape) == ((4096,), (10, 192))
    omniglot = architectures.build("pflego_omniglot", (1, 28, 28), 26)
    assert [omniglot.shapes[f"conv{i}"] for i in range(1, 5)] == [(64, 28, 28), (64, 14, 14), (64, 7, 7), (64, 3, 3)]
    assert omniglot.parameters()["fc.weight"].shape == (26, 64)


def test_mlp_takes_flat_examples_too() -> None:
    assert architectures.build("pflego_mlp", (784,), 10).parameters()["fc1.weight"].shape == (200, 784)


def test_unknown_model_is_refused_with_the_list_of_names() -> None:
    with pytest.raises(GraphError, match=r"model 'unet'; expected one of fedspu_emnist, .*, digits_cnn"):
        architectures.build("unet", (3, 32, 32), 10)


def test_input_too_small_for_the_model_is_refused_by_node() -> None:
    with pytest.raises(GraphError, match=r"node 'pool4': MaxPool2d: a window of \(2, 2\) over \(1, 1\) cells"):
        architectures.build("pflego_omniglot", (1, 8, 8), 5)


def test_no_classes_are_refused() -> None:
    with pytest.raises(GraphError, match="out_features=0"):
        architectures.build("digits_cnn", (1, 8, 8), 0)
