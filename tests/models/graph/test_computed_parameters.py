"""Computed parameters of a graph: values by hand, the list of a graph, its JSON, its parts, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

from edgefl.errors import GraphError
from edgefl.models.graph import INPUT, Graph, Node
from edgefl.models.graph.computed_parameters import (
    ComputedParameter,
    ExchangedAxes,
    MatrixProduct,
    ParameterExpression,
    ParameterOperation,
    ParameterProduct,
    ParameterRows,
    ParameterSum,
    ReshapedParameter,
    RowsAtPlaces,
    ScaledParameter,
    StackedParameters,
    TransposedMatrix,
    WeightNorm,
    zero_places,
)
from edgefl.models.graph.cuts import after, cuts
from edgefl.models.graph.heads import with_classes
from edgefl.models.graph.json import Limits, dumps, loads
from edgefl.models.graph.operations import BatchNorm1d, Linear
from edgefl.models.neurons import density
from edgefl.models.neurons.model_spec import ModelSpec
from tests.learning.computed_graphs import COMPUTED


@pytest.mark.parametrize(
    ("op", "sources", "value"),
    [
        (WeightNorm((2, 2)), ([[10], [2]], [[3, 4], [0, 5]]), [[6, 8], [0, 2]]),
        (MatrixProduct(2, 1, 2), ([[1], [2]], [[3, 4]]), [[3, 4], [6, 8]]),
        (ParameterSum((2,)), ([1, 2], [3, 5]), [4, 7]),
        (ParameterProduct((2,)), ([1, 2], [3, 5]), [3, 10]),
        (ScaledParameter((2,), 0.5), ([1, 2],), [0.5, 1]),
        (TransposedMatrix(1, 2), ([[1, 2]],), [[1], [2]]),
        (ExchangedAxes(1, 2, 3, 1), ([[[[1], [2], [3]], [[4], [5], [6]]]],), [[[[1], [4]], [[2], [5]], [[3], [6]]]]),
        (ParameterExpression((3,), "abs(a) - b / 2"), ([-1, 2, 3], [2, 4, 6]), [0, 0, 0]),
        (ReshapedParameter((4,), (2, 2)), ([1, 2, 3, 4],), [[1, 2], [3, 4]]),
        (ParameterRows((3, 1), 1, 2), ([[1], [2], [3]],), [[2], [3]]),
        (StackedParameters((1, 2), (1,)), ([[1]], [[2], [3]]), [[1], [2], [3]]),
    ],
)
def test_values_by_hand(op: ParameterOperation, sources: tuple[list[float], ...], value: list[float]) -> None:
    given = [np.array(source, np.float32) for source in sources]
    assert [each.shape for each in given] == list(op.sources)
    found = op.value(*given)
    assert found.tolist() == value
    assert (found.shape, found.dtype) == (op.result, np.float32)


@pytest.mark.parametrize("name", COMPUTED)
def test_the_parameters_are_the_sources_and_json_keeps_the_list(name: str) -> None:
    graph = COMPUTED[name]
    roots = {root for each in graph.roots.values() for root in each}
    assert roots <= graph.parameters().keys()
    assert not graph.roots.keys() & graph.parameters().keys()
    assert loads(dumps(graph)) == graph
    assert ModelSpec.of(graph).fingerprint != ModelSpec.of(COMPUTED["lora" if name != "lora" else "parts"]).fingerprint


def test_parameters_stand_where_their_first_node_needs_them() -> None:
    graph = COMPUTED["lora"]
    assert list(graph.parameters()) == ["fc.base", "fc.b", "fc.a", "fc.bias", "head.weight", "head.bias"]
    assert graph.roots["fc.weight"] == ("fc.base", "fc.b", "fc.a")
    assert {name: info.kind for name, info in graph.parameters().items()}["fc.base"] == "frozen"


def _graph(*computed: ComputedParameter, frozen: frozenset[str] = frozenset()) -> Graph:
    nodes = (Node("norm", BatchNorm1d(2), (INPUT,)), Node("fc", Linear(2, 2, bias=False), ("norm",)))
    return Graph((2,), nodes, frozen, computed)


SQUARE = MatrixProduct(2, 2, 2)


@pytest.mark.parametrize(
    ("computed", "message"),
    [
        ((ComputedParameter("fc.weight", SQUARE, ("a",)),), r"sources \('a',\); MatrixProduct expects 2"),
        (
            (ComputedParameter("fc.weight", WeightNorm((3, 2)), ("g", "v")),),
            r"of shape \(3, 2\) in node 'fc'",
        ),
        ((ComputedParameter("fc.weight", SQUARE, ("fc.weight", "b")),), "source 'fc.weight' comes later"),
        ((ComputedParameter("fc.weight", SQUARE, ("a b", "b")),), "name 'a b'; expected letters"),
        ((ComputedParameter("w", SQUARE, ("a", "b")),), "computed parameter 'w' is never used"),
        (
            (ComputedParameter("fc.weight", SQUARE, ("norm.weight", "b")),),
            r"'norm.weight' of shape \(2,\);",
        ),
        (
            (ComputedParameter("fc.weight", StackedParameters((1, 1), (2,)), ("a", "a")),) * 2,
            "'fc.weight' is listed twice or frozen",
        ),
        ((ComputedParameter("norm.running_mean", ParameterSum((2,)), ("a", "b")),), "expected a stat parameter"),
        (
            (
                ComputedParameter("half", ScaledParameter((2,), 0.5), ("norm.running_var",)),
                ComputedParameter("norm.weight", ScaledParameter((2,), 0.5), ("half",)),
            ),
            "source 'norm.running_var' is a running statistic",
        ),
    ],
)
def test_lists_that_do_not_fit_are_refused(computed: tuple[ComputedParameter, ...], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        _graph(*computed)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"op": "WeightNorms"}, r"operation 'WeightNorms'; expected a name and one of \['ExchangedAxes'"),
        ({"sources": [1, 2]}, r"sources \[1, 2\]; expected names"),
        ({"settings": {"rows": 0, "inner": 2, "cols": 2}}, "rows=0; expected 1 <= integer"),
        ({"more": 1}, "computed parameter has"),
        ({"settings": {"rows": 2**20, "inner": 2, "cols": 2**20}}, "computed values; the limit is"),
    ],
)
def test_malformed_json_is_refused(change: dict[str, object], message: str) -> None:
    document = json.loads(dumps(_graph(ComputedParameter("fc.weight", SQUARE, ("a", "b")))))
    document["computed"][0] |= change
    with pytest.raises(GraphError, match=message):
        loads(json.dumps(document), Limits())


def test_a_cut_between_uses_of_one_source_is_refused() -> None:
    graph = COMPUTED["mirrored"]
    assert graph.shared == {"down.weight": ("down", "up")}
    assert cuts(graph) == ("relu",)
    with pytest.raises(GraphError, match=r"both sides of which share 'down.weight'"):
        after(graph, "tanh")
    rest = after(graph, "relu")
    assert [each.name for each in rest.computed] == ["fc.sum", "fc.weight"]
    assert list(rest.parameters()) == ["fc.part", "fc.other", "fc.bias"]


def test_a_head_with_a_computed_weight_cannot_be_resized() -> None:
    with pytest.raises(GraphError, match=r"head 'fc': fc.weight is computed; expected a head whose weight is a param"):
        with_classes(COMPUTED["mirrored"], 3)


def test_a_mask_leaves_sources_whole() -> None:
    assert density.weights(ModelSpec.of(COMPUTED["fedpara"])).keys() == {"fc.weight"}


def test_rows_of_a_table_at_places_are_turned() -> None:
    op, table = RowsAtPlaces(3, 2, 4), np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    found = op.value(table, np.array([2, 0, 0, 1], np.float32))
    assert found.tolist() == [[5, 1, 1, 3], [6, 2, 2, 4]]
    computed = (ComputedParameter("bias", RowsAtPlaces(3, 2, 4), ("table", "places")),)
    assert zero_places(computed)["places"].tolist() == [0, 0, 0, 0]  # a fresh model has valid places
