"""Blocks of a model, by the names of its layers: torchvision's and timm's ways to write names, and built-in models."""

from __future__ import annotations

import pytest

from edgefl.models.graph import Graph, Node
from edgefl.models.graph.architectures import EXAMPLES, build
from edgefl.models.graph.operations import BatchNorm1d, Linear, Operation, ReLU
from edgefl.models.neurons.model_blocks import blocks, parameters_from

WIDTH = 4


def chain(*names: str) -> Graph:
    """A chain of layers. A name that ends in bn is a norm, in relu a ReLU, and every other name a Linear layer."""
    nodes, before = [], "input"
    for name in names:
        op: Operation = Linear(WIDTH, WIDTH)
        if name.endswith("bn"):
            op = BatchNorm1d(WIDTH)
        elif name.endswith("relu"):
            op = ReLU()
        nodes.append(Node(name, op, (before,)))
        before = name
    return Graph((WIDTH,), tuple(nodes))


NAMED = [
    (  # MobileNetV2: numbers below a number with one product each are not blocks
        ("features.0.0", "features.0.bn", "features.17.conv.0.0", "features.17.conv.1", "classifier.1"),
        ("features.0", "features.17"),
    ),
    (("stem", "layer1.0.conv1", "layer1.0.conv2", "layer4.1.conv1", "fc"), ("layer1.0", "layer4.1")),  # ResNet
    (
        ("blocks.0.attn", "blocks.0.mlp", "blocks.11.attn", "blocks.11.mlp", "norm_bn", "head"),
        ("blocks.0", "blocks.11"),
    ),
    (  # EfficientNet: stages of numbered blocks with two products each
        ("blocks.0.0.pw", "blocks.0.0.dw", "blocks.1.0.pw", "blocks.1.0.dw", "blocks.1.1.pw", "blocks.1.1.dw", "head"),
        ("blocks.0.0", "blocks.1.0", "blocks.1.1"),
    ),
    (("0", "1.bn", "1.relu", "3", "5"), ("0", "3")),  # nn.Sequential: a norm belongs to the block before it
    (("0.features.0", "0.features.1", "1"), ("0.features.0", "0.features.1")),  # nn.Sequential(backbone, head)
    (("conv1", "bn", "relu", "conv2", "fc"), ("conv1", "conv2")),  # no numbers: the layers with products
    (("fc",), ()),
]


@pytest.mark.parametrize(("names", "expected"), NAMED)
def test_blocks_follow_the_numbers_in_names(names: tuple[str, ...], expected: tuple[str, ...]) -> None:
    assert blocks(chain(*names)) == expected


def test_built_in_models_have_blocks() -> None:
    found = {name: blocks(build(name, *EXAMPLES[name])) for name in ("digits_cnn", "lenet5", "resnet18")}
    assert found["digits_cnn"] == ("conv1", "conv2")
    assert found["lenet5"] == ("conv1", "conv2", "fc1")
    assert found["resnet18"] == tuple(f"layer{stage}.{block}" for stage in (1, 2, 3, 4) for block in (0, 1))


def test_the_parameters_from_a_block_on_reach_the_end_of_the_graph() -> None:
    graph = chain("stem", "blocks.0", "blocks.0.bn", "blocks.1", "head")
    expected = {f"{layer}.{part}" for layer in ("blocks.1", "head") for part in ("weight", "bias")}
    assert parameters_from(graph, "blocks.1") == expected
