"""Parameters that several nodes of a graph use: which uses fit, their groups of neurons, cuts, heads and files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgefl import rng
from edgefl.errors import GraphError
from edgefl.models.graph import INPUT, Graph, Model, Node
from edgefl.models.graph.cuts import after, cuts
from edgefl.models.graph.heads import with_classes
from edgefl.models.graph.json import dumps, loads
from edgefl.models.graph.model_files import load, save
from edgefl.models.graph.operations import AddParameter, BatchNorm1d, Linear, Operation, ReLU
from edgefl.models.neurons.axes import AxisSpec
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.submodel import sub_params
from tests.learning.shared_graphs import SHARED, chain, named


def _two(first: Operation, second: Operation, frozen: frozenset[str] = frozenset()) -> Graph:
    """Two nodes with the same names of parameters."""
    nodes = (Node("a", first, (INPUT,)), Node("b", second, ("a",), named(second, "a")))
    return Graph((4,), nodes, frozen)


@pytest.mark.parametrize("name", SHARED)
def test_a_shared_parameter_is_listed_once_and_survives_json(name: str) -> None:
    graph = SHARED[name]
    uses = [node.full_name(part) for node in graph.nodes for part in node.op.parameters()]
    assert list(graph.parameters()) == list(dict.fromkeys(uses))
    assert {each for each in uses if uses.count(each) > 1} == graph.shared.keys()
    assert loads(dumps(graph)) == graph


def test_uses_are_listed_in_the_order_of_the_graph() -> None:
    assert SHARED["tied"].shared == {"emb.weight": ("emb", "head")}
    assert SHARED["steps"].shared["out.bias"] == ("out", "out_1", "out_2")


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (
            Linear(4, 4),
            Linear(4, 3),
            r"'a.weight' in the nodes 'a' and 'b': shapes \(4, 4\) and \(3, 4\); expected one",
        ),
        (AddParameter((4,)), AddParameter((4,), ones=1), r"shapes \(4,\) and \(1, 4\); expected one shape"),
        (BatchNorm1d(4), BatchNorm1d(4), "'a.running_mean' in the nodes 'a' and 'b': a running statistic of two uses"),
    ],
)
def test_uses_that_do_not_fit_are_refused(first: Operation, second: Operation, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        _two(first, second)


def test_frozen_statistics_may_have_two_uses() -> None:
    frozen = frozenset({"a.running_mean", "a.running_var"})
    assert _two(BatchNorm1d(4), BatchNorm1d(4), frozen).shared.keys() == {*frozen, "a.weight", "a.bias"}


def test_the_first_values_are_drawn_at_the_first_use() -> None:
    """So the values of all other parameters are those of the graph with one use."""
    short = chain((6,), ("first", Linear(6, 8)), ("twice", Linear(8, 8)), ("fc", Linear(8, 5)))
    found, expected = (graph.init(rng.stream(1, rng.INIT)) for graph in (SHARED["again"], short))
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)


@pytest.mark.parametrize(
    ("name", "parameter", "axes"),
    [
        ("tied", "emb.weight", (None, AxisSpec("emb"))),  # every row is active: the classes
        ("again", "twice.weight", (AxisSpec("first"), AxisSpec("first"))),  # inputs and outputs are one group
        ("branches", "conv.weight", (AxisSpec("first"), AxisSpec("first"))),
        ("mirror", "conv.weight", (AxisSpec("conv"), None)),  # the columns are the input's
        ("mirror", "deep.weight", (AxisSpec("conv"), None)),
        ("steps", "out.weight", (None, None)),  # heads with two values each meet single values
    ],
)
def test_all_uses_have_one_group_along_each_axis(
    name: str, parameter: str, axes: tuple[AxisSpec | None, AxisSpec | None]
) -> None:
    found = ModelSpec.of(SHARED[name]).params[parameter]
    assert (found.rows, found.cols) == axes


@pytest.mark.parametrize("name", ["tied", "branches", "again", "steps"])
def test_a_smaller_model_shares_as_well(name: str) -> None:
    graph = SHARED[name]
    neurons = NeuronSet.draw(ModelSpec.of(graph), 0.5, rng.stream(2, rng.NEURONS))
    smaller = graph.sub(neurons)
    smaller.check(sub_params(graph, graph.init(rng.stream(1, rng.INIT)), neurons))
    assert smaller.shared == graph.shared
    assert sum(np.prod(each.shape) for each in smaller.parameters().values()) < sum(
        np.prod(each.shape) for each in graph.parameters().values()
    )


def test_both_sides_of_a_cut_share_nothing_that_is_trained() -> None:
    graph = SHARED["again"]
    assert cuts(graph) == ("relu", "relu_1")
    with pytest.raises(GraphError, match="cut after 'tanh', both sides of which share 'twice\\.weight'"):
        after(graph, "tanh")
    still = replace(graph, frozen=frozenset({"twice.weight", "twice.bias"}))
    assert cuts(still) == ("relu", "tanh", "relu_1")
    assert after(still, "tanh").frozen == still.frozen


def test_a_head_that_shares_its_weight_belongs_to_the_body() -> None:
    graph = SHARED["tied"]
    assert ModelSpec.of(graph).head == ()
    with pytest.raises(
        GraphError, match=r"head 'head': emb.weight has the uses emb, head; expected a head that shares"
    ):
        with_classes(graph, 3)


def test_files_give_a_shared_weight_its_present_value_under_all_names(tmp_path: Path) -> None:
    graph = chain((2,), ("a", Linear(2, 2, bias=False)), ("r", ReLU()), ("b", Linear(2, 2, bias=False), "a"))
    model = Model(graph, {"a.weight": np.ones((2, 2), np.float32)}, {"b.weight": np.zeros((2, 2), np.float32)})
    save(tmp_path / "m.safetensors", model)
    found = load(tmp_path / "m.safetensors")
    assert found.unused["b.weight"].tolist() == [[1, 1], [1, 1]]
    assert found.unused["b.weight"] is found.params["a.weight"], "equal values take memory once"
