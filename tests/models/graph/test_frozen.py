"""The frozen parameters of a graph: what may be frozen, JSON, parts of a graph, and its specification."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from edgefl.errors import GraphError
from edgefl.models.graph import Graph, Node
from edgefl.models.graph.cuts import after, until
from edgefl.models.graph.heads import with_classes
from edgefl.models.graph.json import dumps, loads
from edgefl.models.graph.operations import BatchNorm1d, Linear, ReLU
from edgefl.models.graph.planar import planar
from edgefl.models.neurons.density import weights
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet

NODES = (
    Node("a", Linear(4, 6), ("input",)),
    Node("bn", BatchNorm1d(6), ("a",)),
    Node("r", ReLU(), ("bn",)),
    Node("b", Linear(6, 3), ("r",)),
)
STATISTICS = {"bn.running_mean", "bn.running_var"}
GRAPH = Graph((4,), NODES)
FROZEN = replace(GRAPH, frozen=frozenset({"a.weight", "b.bias"} | STATISTICS))
MARKED = replace(FROZEN, constants=frozenset({"b.bias", "a.weight"}))


def test_a_graph_without_frozen_parameters_has_the_json_of_before() -> None:
    assert json.loads(dumps(GRAPH)).keys() == {"format", "input_shape", "nodes"}
    assert loads(dumps(GRAPH)) == GRAPH


def test_frozen_parameters_are_in_the_json_in_alphabetical_order() -> None:
    text = dumps(FROZEN)
    assert json.loads(text)["frozen"] == ["a.weight", "b.bias", "bn.running_mean", "bn.running_var"]
    assert loads(text) == FROZEN
    assert dumps(loads(text)) == text
    assert ModelSpec.of(FROZEN).fingerprint != ModelSpec.of(GRAPH).fingerprint


@pytest.mark.parametrize(
    ("frozen", "problem"),
    [
        (["c.weight"], r"frozen parameter 'c\.weight' is not in the graph"),
        (
            ["bn.running_mean"],
            r"node 'bn': only bn\.running_mean is frozen; expected both statistics to be frozen, or neither",
        ),
        ([3], r"frozen is \[3\]; expected a list of names"),
        ("a.weight", "frozen is str; expected a list"),
    ],
)
def test_what_cannot_be_frozen_is_refused(frozen: object, problem: str) -> None:
    with pytest.raises(GraphError, match=problem):
        loads(json.dumps({**json.loads(dumps(GRAPH)), "frozen": frozen}))


def test_constants_are_in_the_json_in_alphabetical_order() -> None:
    text = dumps(MARKED)
    assert json.loads(text)["constants"] == ["a.weight", "b.bias"]
    assert loads(text) == MARKED != FROZEN and dumps(loads(text)) == text
    assert "constants" not in json.loads(dumps(FROZEN))
    assert ModelSpec.of(MARKED).fingerprint != ModelSpec.of(FROZEN).fingerprint
    assert MARKED.parameters() == FROZEN.parameters()


@pytest.mark.parametrize(
    ("constants", "problem"),
    [
        (["a.bias"], r"constant 'a\.bias' is not frozen; expected constants among the frozen parameters"),
        (["c"], "constant 'c' is not frozen"),
        ([3], r"constants is \[3\]; expected a list of names"),
        ("a.weight", "constants is str; expected a list"),
    ],
)
def test_what_cannot_be_constant_is_refused(constants: object, problem: str) -> None:
    with pytest.raises(GraphError, match=problem):
        loads(json.dumps({**json.loads(dumps(FROZEN)), "constants": constants}))


def test_constants_of_python_are_a_frozenset() -> None:
    with pytest.raises(GraphError, match=r"constants=\['a\.weight'\]; expected a frozenset"):
        replace(FROZEN, constants=["a.weight"])  # type: ignore[arg-type]


def test_parts_of_a_graph_keep_what_is_constant_of_theirs() -> None:
    assert until(MARKED, "bn").constants == {"a.weight"}
    assert after(MARKED, "r").constants == {"b.bias"}
    assert planar(MARKED).constants == MARKED.constants
    assert with_classes(MARKED, 5).constants == {"a.weight"}  # the new head is trained
    neurons = NeuronSet.of(ModelSpec.of(MARKED), {"a": [0, 4]})
    assert MARKED.sub(neurons).constants == MARKED.constants


def test_the_specification_says_what_is_learned_exchanged_and_frozen() -> None:
    spec = ModelSpec.of(FROZEN)
    assert spec.learned == ("a.bias", "bn.weight", "bn.bias", "b.weight")
    assert spec.exchanged == spec.learned
    assert spec.frozen == ("a.weight", "bn.running_mean", "bn.running_var", "b.bias")
    assert ModelSpec.of(GRAPH).exchanged == tuple(GRAPH.parameters())
    assert weights(spec) == {"b.weight": (3, 6)}  # a mask leaves frozen weights dense


def test_parts_of_a_graph_keep_what_is_frozen_of_theirs() -> None:
    assert until(FROZEN, "bn").frozen == {"a.weight"} | STATISTICS
    assert after(FROZEN, "r").frozen == {"b.bias"}
    assert planar(FROZEN).frozen == FROZEN.frozen
    assert with_classes(FROZEN, 5).frozen == {"a.weight"} | STATISTICS  # the new head is trained
    neurons = NeuronSet.of(ModelSpec.of(FROZEN), {"a": [0, 4]})
    assert FROZEN.sub(neurons).frozen == FROZEN.frozen
    assert FROZEN.sub(neurons).parameters()["a.weight"] == ((2, 4), "frozen")


def test_a_batch_norm_keeps_its_statistics_where_they_are_frozen() -> None:
    assert [FROZEN.keeps_statistics(node) for node in FROZEN.nodes] == [False, True, False, False]
    assert not any(GRAPH.keeps_statistics(node) for node in GRAPH.nodes)
