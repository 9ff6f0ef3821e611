"""Norms of neurons by hand, on layers whose neurons lie along other axes than rows, and choices among equal norms."""

from __future__ import annotations

import numpy as np
import pytest

from edgefl.models.graph import Graph, Node
from edgefl.models.graph.operations import GRU, ConvTranspose2d, Embedding, Flatten, Linear
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_norms import l1_norms, largest_neurons

TWO = Graph((2,), (Node("one", Linear(2, 3), ("input",)), Node("fc", Linear(3, 2), ("one",))))
SPEC = ModelSpec.of(TWO)


def filled(graph: Graph, **given: object) -> dict[str, np.ndarray]:
    """Return parameters of 0, and these values of some."""
    found = {name: np.zeros(info.shape, np.float32) for name, info in graph.parameters().items()}
    return found | {name.replace("__", "."): np.float32(value) for name, value in given.items()}


def test_a_norm_is_the_sum_over_the_neurons_own_weights() -> None:
    """The bias of 9 and the weights of fc, which read the neurons, do not count."""
    params = filled(
        TWO, one__weight=[[1, -2], [0, 0.5], [-3, 3]], one__bias=[9, 9, 9], fc__weight=[[7, 0, 0], [0, 7, 0]]
    )
    norms = l1_norms(params, SPEC)
    assert {group: each.tolist() for group, each in norms.items()} == {"one": [3, 0.5, 6]}
    assert largest_neurons(SPEC, norms, {"one": 2}).active["one"].tolist() == [0, 2]


def test_among_equal_norms_the_lower_id_is_taken() -> None:
    assert largest_neurons(SPEC, {"one": np.ones(3)}, {"one": 2}).active["one"].tolist() == [0, 1]


def test_neurons_along_columns_and_in_gates_have_their_own_weights() -> None:
    """Features of an embedding are its columns. A unit of a GRU has its row in each of three gates, and the columns
    that read the states do not count. Channels of a transposed convolution lie along its columns.
    """
    embedding = Graph(
        (4,), (Node("e", Embedding(5, 2), ("input",)), Node("f", Flatten(), ("e",)), Node("fc", Linear(8, 2), ("f",)))
    )
    (norms,) = l1_norms(filled(embedding, e__weight=np.tile([1, 2], (5, 1))), ModelSpec.of(embedding)).values()
    assert norms.tolist() == [5, 10]
    gru = Graph(
        (2, 3), (Node("g", GRU(2, 2), ("input",)), Node("f", Flatten(), ("g",)), Node("fc", Linear(6, 2), ("f",)))
    )
    params = filled(gru, g__weight_ih_l0=np.tile([[1], [2]], (3, 2)), g__weight_hh_l0=np.tile([[0], [4]], (3, 2)))
    assert l1_norms(params, ModelSpec.of(gru))["g"].tolist() == [3 * 2, 3 * 2 * 2 + 3 * 2 * 4]
    up = Graph(
        (2, 2, 2),
        (
            Node("up", ConvTranspose2d(2, 3, (1, 1)), ("input",)),
            Node("f", Flatten(), ("up",)),
            Node("fc", Linear(12, 2), ("f",)),
        ),
    )
    weight = np.reshape([[1, 2, 3], [-1, 0, 1]], (2, 3, 1, 1))
    assert l1_norms(filled(up, up__weight=weight), ModelSpec.of(up))["up"].tolist() == [2, 2, 4]


@pytest.mark.parametrize("count", [1, 3])
def test_a_set_has_as_many_neurons_as_asked_for(count: int) -> None:
    found = largest_neurons(SPEC, {"one": np.array([1.0, 3.0, 2.0])}, {"one": count}).active["one"]
    assert found.tolist() == {1: [1], 3: [0, 1, 2]}[count]
