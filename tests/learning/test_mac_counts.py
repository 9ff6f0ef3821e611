"""The MAC bound against numbers worked out by hand."""

from fractions import Fraction

import pytest

from edgefl.learning.lowering.mac_counts import layer_macs, step_macs
from edgefl.models.graph.architectures import build
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.rng import NEURONS, stream

EMNIST = build("fedspu_emnist", (1, 28, 28), 62)
CONV1, CONV2, FC = 28 * 28 * 20 * 9, 14 * 14 * 20 * 20 * 9, 980 * 62


def active(keep: float) -> NeuronSet:
    return NeuronSet.draw(ModelSpec.of(EMNIST), keep, stream(1, NEURONS))


def test_dense_step_has_no_input_gradient_in_the_first_layer() -> None:
    assert step_macs(EMNIST) == step_macs(EMNIST, active(1.0)) == 2 * CONV1 + 3 * CONV2 + 3 * FC == 2_581_320


def test_each_layer_of_the_emnist_cnn_at_one_fifth() -> None:
    """4 of 20 channels are active: conv2 needs dX for those 4 only, its dW has 4 * 4 of 20 * 20 blocks."""
    layers = layer_macs(EMNIST, active(0.2))
    assert layers["conv1"][:3] == (CONV1, 0, CONV1 / 5)
    assert layers["conv2"][:3] == (CONV2, CONV2 / 5, CONV2 / 25)
    assert layers["fc"][:3] == (FC, FC, FC / 5)
    assert step_macs(EMNIST, active(0.2)) == 1_177_960


def test_published_share_counts_the_input_gradient_of_conv2_in_full() -> None:
    """A hidden layer has (2 + a_in a_out) M, which gives .675 at p = .2. The exact bound is below it."""
    layers = layer_macs(EMNIST, active(0.2))
    generic = step_macs(EMNIST, active(0.2)) + CONV2 - layers["conv2"].grad_input
    assert generic / step_macs(EMNIST) == pytest.approx(0.675, abs=5e-4)
    assert step_macs(EMNIST, active(0.2)) / step_macs(EMNIST) == pytest.approx(0.456, abs=5e-4)


def test_neuron_counts_are_floors() -> None:
    """CIFAR CNN at p = .2: 1 of 6 and 3 of 16 channels, 24 of 120 and 16 of 84 features."""
    graph = build("fedspu_cifar", (3, 32, 32), 10)
    layers = layer_macs(graph, NeuronSet.draw(ModelSpec.of(graph), 0.2, stream(1, NEURONS)))
    shares = {name: Fraction(layer.grad_weight, layer.forward) for name, layer in layers.items()}
    assert shares == {
        "conv1": Fraction(1, 6), "conv2": Fraction(3, 16 * 6), "fc1": Fraction(24 * 3, 120 * 16),
        "fc2": Fraction(16 * 24, 84 * 120), "fc": Fraction(16, 84),
    }  # fmt: skip
    assert layers["conv2"].grad_input * 6 == layers["conv2"].forward
    assert layers["fc1"].grad_input == layers["fc1"].forward


def test_group_norm_needs_whole_groups_above_the_first_layer() -> None:
    graph = build("vgg11", (3, 32, 32), 10)
    spec = ModelSpec.of(graph)
    one_each = NeuronSet.of(spec, {group: [0] for group in spec.groups})
    conv2 = layer_macs(graph, one_each)["conv2"]
    assert 2 * conv2.grad_input == conv2.forward  # one of two groups of 32 channels
