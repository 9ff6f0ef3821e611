"""Slices in patterns: what they choose, in which order, how a graph keeps them, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgefl.errors import GraphError
from edgefl.models.graph import Graph, Node
from edgefl.models.graph.cuts import after
from edgefl.models.graph.heads import with_classes
from edgefl.models.graph.json import dumps, loads
from edgefl.models.graph.operations import BatchNorm2d, Conv2d, Flatten, Linear
from edgefl.models.graph.parameter_slices import SlicedParameter
from edgefl.models.neurons.block_index import slice_index
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.trainable_parameters import TrainableParameters
from edgefl.models.neurons.trained_part import patterns, with_trained

GRAPH = Graph(
    (2, 2, 2),
    (
        Node("conv", Conv2d(2, 4, (1, 1)), ("input",)),
        Node("bn", BatchNorm2d(4), ("conv",)),
        Node("flat", Flatten(), ("bn",)),
        Node("fc", Linear(16, 3), ("flat",)),
    ),
)
CONV, FC = "conv.weight", "fc.weight"
CHOSEN = [
    ("conv.weight[1:3]", [SlicedParameter(CONV, (1, 3))]),
    ("conv.weight[:2]", [SlicedParameter(CONV, (0, 2))]),
    ("conv.weight[3:]", [SlicedParameter(CONV, (3, 4))]),
    ("fc.weight[:, 4:8]", [SlicedParameter(FC, None, (4, 8))]),
    ("fc.weight[0:2,4:]", [SlicedParameter(FC, (0, 2), (4, 16))]),
    ("conv.weight[0:4]", []),  # the whole parameter
    ("fc.*,conv.weight[:2], conv.bias[1:2]", [SlicedParameter("conv.bias", (1, 2)), SlicedParameter(CONV, (0, 2))]),
    ("*.weight[0:1],-bn.*", [SlicedParameter(CONV, (0, 1)), SlicedParameter(FC, (0, 1))]),
    ("[cf]*.weight[0:1]", [SlicedParameter(CONV, (0, 1)), SlicedParameter(FC, (0, 1))]),
    ("fc.*,fc.weight[0:1]", []),  # it is chosen as a whole before
    ("fc.weight[0:1],fc.*", []),  # and after
    ("fc.*,-fc.weight,fc.weight[0:1]", [SlicedParameter(FC, (0, 1))]),
    ("bn.weight[1:2]", [SlicedParameter("bn.weight", (1, 2))]),  # its statistics are kept
]


@pytest.mark.parametrize(("text", "slices"), CHOSEN)
def test_patterns_choose_rows_and_columns(text: str, slices: list[SlicedParameter]) -> None:
    found = with_trained(GRAPH, text)
    assert list(found.slices) == slices
    assert not found.frozen & {each.name for each in slices}
    assert loads(dumps(found)) == found
    assert [each.text for each in slices] == [part.text for part in ModelSpec.of(found).slices.values()]


REFUSED = [
    (
        "conv.weight[2:9]",
        r"train=conv\.weight\[2:9\] names the rows 2:9 of conv\.weight, whose shape is \(4, 2, 1, 1\)",
    ),
    ("conv.weight[2:2]", "names the rows 2:2 of conv.weight"),
    ("fc.weight[:, 8:17]", r"names the columns 8:17 of fc\.weight, whose shape is \(3, 16\); expected some of 0:16"),
    ("fc.bias[:, 0:1]", r"names columns of fc\.bias, whose shape is \(3,\); expected rows"),
    ("bn.running_mean[0:1]", "a slice of the running statistic bn.running_mean; expected all of it"),
    (
        "fc.weight[0:1],fc.weight[1:2]",
        r"names a second slice of fc\.weight after fc\.weight\[0:1\]; expected one",
    ),
    ("-fc.weight[0:1]", r"takes away a slice; expected the slice that is trained, as in -fc\.weight,fc\.weight\[0:8\]"),
    ("fc.weight[0:4:2]", r"train=fc\.weight\[0:4:2\] is not a slice; expected a name with rows"),
    ("fc.weight[-1:]", "is not a slice"),
    ("fc.weight[:,:,:]", "is not a slice"),
    ("fd.weight[0:1]", r"train=fd\.weight names no parameter; the nearest are fc\.weight"),
    (
        "bn.*,-bn.weight,bn.weight[0:1]",
        r"slice of bn\.weight, while bn\.running_mean follows the batches; expected",
    ),
]


@pytest.mark.parametrize(("text", "problem"), REFUSED)
def test_a_slice_that_does_not_fit_is_refused(text: str, problem: str) -> None:
    with pytest.raises(GraphError, match=problem):
        with_trained(GRAPH, text)


def test_a_comma_in_brackets_belongs_to_the_pattern() -> None:
    assert patterns("a.*, fc.weight[:, 0:4],b") == ("a.*", "fc.weight[:, 0:4]", "b")


WRONG = [
    ((SlicedParameter("fd.weight", (0, 1)),), r"slice fd\.weight\[0:1\]: the parameter is not in the graph"),
    ((SlicedParameter("bn.running_mean", (0, 1)),), "is a running statistic; expected a parameter that is learned"),
    ((SlicedParameter(FC),), "without rows and columns"),
    ((SlicedParameter(FC, (0, 3)),), r"rows 0:3 of the shape \(3, 16\); expected some of 0:3, and at least one"),
    ((SlicedParameter(FC, (2, 1)),), "rows 2:1"),
    ((SlicedParameter("fc.bias", None, (0, 1)),), r"fc\.bias has the shape \(3,\); expected rows alone"),
    (
        (SlicedParameter(FC, (0, 1)), SlicedParameter(CONV, (0, 1))),
        "expected each parameter once, in alphabetical order",
    ),
    ([SlicedParameter(FC, (0, 1))], "expected a tuple of SlicedParameter"),
]


@pytest.mark.parametrize(("slices", "problem"), WRONG)
def test_a_graph_refuses_slices_that_do_not_fit(slices: tuple[SlicedParameter, ...], problem: str) -> None:
    with pytest.raises(GraphError, match=problem):
        replace(GRAPH, slices=slices)


@pytest.mark.parametrize(
    ("slice", "problem"),
    [
        ('{"name":"fc.weight","rows":[0,1]}', "slice has"),
        ('{"name":"fc.weight","rows":[0],"cols":null}', "expected .first, end. or null"),
        ('{"name":"fc.weight","rows":[0,true],"cols":null}', "expected .first, end. or null"),
        ('{"name":1,"rows":[0,1],"cols":null}', "expected the name of a parameter"),
    ],
)
def test_json_with_a_wrong_slice_is_refused(slice: str, problem: str) -> None:
    text = dumps(GRAPH)[:-1] + f',"slices":[{slice}]}}'
    with pytest.raises(GraphError, match=problem):
        loads(text)


def test_parts_of_a_graph_have_their_slices() -> None:
    graph = with_trained(GRAPH, "conv.weight[0:2],fc.weight[:, 4:8],-bn.*")
    assert after(graph, "bn").slices == (SlicedParameter(FC, None, (4, 8)),)
    assert with_classes(graph, 5).slices == (SlicedParameter(CONV, (0, 2)),)  # the new head is trained as a whole


def test_an_update_has_the_slice_alone() -> None:
    """Columns 4 to 7 of three rows of 16 are the positions 4 to 7, 20 to 23 and 36 to 39."""
    spec = ModelSpec.of(with_trained(GRAPH, "fc.weight[:, 4:8]"))
    values = {FC: np.arange(48, dtype=np.float32).reshape(3, 16)}
    (found,) = take(values, spec).blocks.values()
    assert found.values.tolist() == [4, 5, 6, 7, 20, 21, 22, 23, 36, 37, 38, 39]
    assert found.index == slice_index(spec, FC)
    assert TrainableParameters.of(spec, None).blocks(spec)[FC].cols.tolist() == [4, 5, 6, 7]  # type: ignore[union-attr]
