"""The graph value: what it derives, and every way a graph or its text is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

from edgefl import rng
from edgefl.errors import GraphError
from edgefl.models.graph import Graph, Node, architectures
from edgefl.models.graph.json import Limits, dumps, loads
from edgefl.models.graph.operations import (
    Add,
    AvgPool2d,
    BatchNorm2d,
    Conv2d,
    Flatten,
    GlobalAvgPool,
    GroupNorm,
    Linear,
    MaxPool2d,
    ReLU,
)

CONV = Node("conv", Conv2d(1, 2, (3, 3)), ("input",))
FLAT = Node("flat", Flatten(), ("conv",))
FC = Node("fc", Linear(2 * 2 * 2, 3), ("flat",))
TINY = Graph((1, 4, 4), (CONV, FLAT, FC))


def test_shapes_of_every_result_leave_out_the_batch() -> None:
    assert TINY.shapes == {"input": (1, 4, 4), "conv": (2, 2, 2), "flat": (8,), "fc": (3,)}
    assert TINY.output_shape == (3,)


def test_parameters_have_torch_names_shapes_and_kinds() -> None:
    graph = Graph((2, 4, 4), (Node("block.bn", BatchNorm2d(2), ("input",)),))
    assert {name: (info.shape, info.kind) for name, info in graph.parameters().items()} == {
        "block.bn.weight": ((2,), "learn"),
        "block.bn.bias": ((2,), "learn"),
        "block.bn.running_mean": ((2,), "stat"),
        "block.bn.running_var": ((2,), "stat"),
    }


def test_macs_are_counted_per_example_for_convolutions_and_linear() -> None:
    assert TINY.macs() == {"conv": 2 * 2 * 2 * 9, "fc": 8 * 3}


@pytest.mark.parametrize(
    ("op", "shape", "expected"),
    [
        (Conv2d(2, 6, (3, 2), (2, 1), (1, 0), (1, 2)), (2, 7, 9), (6, 4, 7)),
        (Conv2d(4, 8, (1, 1), groups=4), (4, 5, 5), (8, 5, 5)),
        (MaxPool2d((3, 3), (2, 2), (1, 1)), (2, 7, 8), (2, 4, 4)),
        (AvgPool2d((2, 2), (2, 2)), (2, 5, 5), (2, 2, 2)),
        (GlobalAvgPool(), (3, 7, 9), (3, 1, 1)),
        (GroupNorm(2, 4), (4, 3, 3), (4, 3, 3)),
        (Flatten(), (3, 4, 5), (60,)),
        (ReLU(), (7,), (7,)),
    ],
)
def test_output_shape_of_each_operation(op, shape, expected) -> None:
    assert op.output(shape) == expected


def test_init_uses_torch_bounds_and_constants() -> None:
    graph = architectures.build("fedspu_emnist", (1, 28, 28), 62)
    params = graph.init(rng.stream(1, rng.INIT))
    graph.check(params)
    for name in ("conv2.weight", "conv2.bias"):
        bound = 1 / np.sqrt(20 * 9)
        assert np.abs(params[name]).max() <= bound
        assert np.abs(params[name]).max() > 0.8 * bound
    assert abs(float(params["fc.weight"].mean())) < 4 / np.sqrt(980 * 3 * 980 * 62)
    assert (params["bn1.weight"] == 1).all()
    assert (params["bn1.bias"] == 0).all()
    assert (params["bn1.running_mean"] == 0).all()
    assert (params["bn1.running_var"] == 1).all()


def test_init_is_a_function_of_the_stream() -> None:
    first, again, other = (TINY.init(rng.stream(seed, rng.INIT)) for seed in (1, 1, 2))
    assert all((first[name] == again[name]).all() for name in first)
    assert (first["fc.weight"] != other["fc.weight"]).any()


def test_check_names_the_parameter_that_does_not_fit() -> None:
    params = TINY.init(rng.stream(1, rng.INIT))
    with pytest.raises(GraphError, match=r"'fc.bias' is missing"):
        TINY.check({name: value for name, value in params.items() if name != "fc.bias"})
    with pytest.raises(GraphError, match=r"'extra' is not in the graph"):
        TINY.check(params | {"extra": np.zeros(1, np.float32)})
    with pytest.raises(GraphError, match=r"fc.bias: float64 of shape \(3,\); expected float32 \(3,\)"):
        TINY.check(params | {"fc.bias": np.zeros(3)})
    with pytest.raises(GraphError, match=r"fc.bias: float32 of shape \(4,\)"):
        TINY.check(params | {"fc.bias": np.zeros(4, np.float32)})


def refused(*nodes: Node, shape: tuple[int, ...] = (1, 4, 4)) -> str:
    with pytest.raises(GraphError) as error:
        Graph(shape, nodes)
    return str(error.value)


def test_unknown_input_is_refused() -> None:
    message = refused(CONV, Node("flat", Flatten(), ("conb",)))
    assert message == "node 'flat': input 'conb' is unknown; expected a result"


def test_input_that_comes_later_is_refused() -> None:
    assert refused(FLAT, CONV) == "node 'flat': input 'conv' comes later; expected topological order"


def test_repeated_name_is_refused() -> None:
    assert "node 'conv': the name is taken" in refused(CONV, Node("conv", ReLU(), ("conv",)))


def test_name_of_the_graph_input_is_refused() -> None:
    assert "node 'input': the name is taken" in refused(Node("input", ReLU(), ("input",)))


@pytest.mark.parametrize("name", ["", ".a", "a.", "a..b", "a/b", "a b", "a" * 201])
def test_bad_node_name_is_refused(name) -> None:
    assert "bad name; expected letters, digits, _ and inner dots" in refused(Node(name, ReLU(), ("input",)))


def test_wrong_number_of_inputs_is_refused() -> None:
    message = refused(CONV, Node("sum", Add(), ("conv",)))
    assert message == "node 'sum': inputs ('conv',); Add expects 2"


def test_sum_of_a_result_with_itself_is_refused() -> None:
    assert "expected two different results" in refused(CONV, Node("sum", Add(), ("conv", "conv")))


def test_second_unused_result_is_refused() -> None:
    message = refused(CONV, Node("side", ReLU(), ("conv",)), FLAT, FC)
    assert message == "results ['side'] are never used; expected only the last node 'fc'"


def test_graph_without_nodes_is_refused() -> None:
    assert refused() == "graph with 0 nodes; expected at least one"


@pytest.mark.parametrize("shape", [(), (1, 4, 4, 4), (0, 4, 4), (1.0, 4, 4), (True, 4, 4), [1, 4, 4]])
def test_bad_input_shape_is_refused(shape) -> None:
    assert "expected a tuple of 1 to 3 positive integers" in refused(CONV, shape=shape)


def test_wrong_number_of_channels_is_refused() -> None:
    message = refused(CONV, Node("bn", BatchNorm2d(3), ("conv",)))
    assert message == "node 'bn': BatchNorm2d: input with 2 channels; expected 3"


def test_wrong_number_of_features_is_refused() -> None:
    message = refused(CONV, FLAT, Node("fc", Linear(7, 3), ("flat",)))
    assert message == "node 'fc': Linear: input of shape (8,); expected (7,)"


def test_linear_along_another_axis_than_channels_is_refused() -> None:
    message = refused(Node("fc", Linear(4, 3), ("input",)))
    assert message == "node 'fc': Linear: input of shape (1, 4, 4); expected (4, 4, 4)"


def test_convolution_of_a_flat_input_is_refused() -> None:
    assert "expected [channels, height, width]" in refused(CONV, shape=(16,))


def test_window_without_output_is_refused() -> None:
    message = refused(Node("conv", Conv2d(1, 2, (5, 5)), ("input",)))
    assert message.startswith("node 'conv': Conv2d: a window of (5, 5) over (4, 4) cells")


def test_sum_of_different_shapes_is_refused() -> None:
    message = refused(CONV, Node("sum", Add(), ("conv", "input")))
    assert "node 'sum': Add: inputs of shapes (2, 2, 2) and (1, 4, 4); expected equal shapes" in message


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Conv2d(0, 1, (1, 1)), "in_channels=0; expected 1 <= integer"),
        (lambda: Conv2d(2**31, 1, (1, 1)), "in_channels=2147483648"),
        (lambda: Conv2d(True, 1, (1, 1)), "in_channels=True"),
        (lambda: Conv2d(1, 1, (1, 1, 1)), r"kernel_size=\(1, 1, 1\); expected a pair"),
        (lambda: Conv2d(1, 1, 3), "kernel_size=3; expected a pair"),
        (lambda: Conv2d(1, 1, (1, 1), padding=(-1, 0)), r"padding=\(-1, 0\)"),
        (lambda: Conv2d(1, 1, (1, 1), bias=1), "bias=1; expected True or False"),
        (lambda: Conv2d(4, 6, (1, 1), groups=4), "out_channels=6; expected a multiple of groups=4"),
        (lambda: Conv2d(6, 4, (1, 1), groups=4), "in_channels=6; expected a multiple of groups=4"),
        (lambda: GroupNorm(2, 3), "num_channels=3; expected a multiple of num_groups=2"),
        (lambda: BatchNorm2d(3, eps=0.0), "eps=0.0; expected a finite float > 0"),
        (lambda: BatchNorm2d(3, eps=1), "eps=1; expected a finite float > 0"),
        (lambda: BatchNorm2d(3, momentum=float("nan")), "momentum=nan; expected a finite float >= 0"),
        (lambda: BatchNorm2d(3, momentum=-0.1), "momentum=-0.1; expected a finite float >= 0"),
        (lambda: MaxPool2d((16, 16), (1, 1)), "expected a window of at most 255 cells"),
        (lambda: MaxPool2d((3, 3), (1, 1), (2, 0)), r"padding=\(2, 0\); expected at most half"),
        (lambda: AvgPool2d((3, 3), (0, 1)), r"stride=\(0, 1\)"),
    ],
)
def test_bad_setting_is_refused(make, message) -> None:
    with pytest.raises(GraphError, match=message):
        make()


@pytest.mark.parametrize("name", architectures.PUBLISHED)
def test_json_gives_back_the_same_graph(name) -> None:
    graph = architectures.build(name, (3, 32, 32), 10)
    assert loads(dumps(graph)) == graph
    assert hash(loads(dumps(graph))) == hash(graph)


def test_json_form_is_pinned() -> None:
    graph = Graph((4,), (Node("fc", Linear(4, 2), ("input",)),))
    assert dumps(graph) == (
        '{"format":"edgefl.graph.1","input_shape":[4],"nodes":[{"inputs":["input"],"name":"fc","op":"Linear",'
        '"settings":{"bias":true,"in_features":4,"out_features":2}}]}'
    )


def document() -> dict:
    return json.loads(dumps(TINY))


def text_refused(text: str | bytes, limits: Limits | None = None) -> str:
    with pytest.raises(GraphError) as error:
        loads(text, limits)
    return str(error.value)


@pytest.mark.parametrize("text", ["", "{", "[1, 2", b"\xff\xfe", "[" * 100_000, '{"format": "edgefl.graph.1"} x'])
def test_text_that_is_not_json_is_refused(text) -> None:
    assert text_refused(text).startswith("graph text is not JSON")


def test_text_with_a_repeated_key_is_refused() -> None:
    text = dumps(TINY).replace('"bias":true', '"bias":true,"bias":false', 1)
    assert "repeats a key" in text_refused(text)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_text_with_a_number_that_is_not_finite_is_refused(number) -> None:
    assert f"the number {number}" in text_refused(dumps(TINY).replace("8", number))


def test_text_with_an_enormous_integer_is_refused() -> None:
    assert "bad number" in text_refused(dumps(TINY).replace('"in_features":8', '"in_features":' + "9" * 5000))


def test_other_format_version_is_refused() -> None:
    assert "expected 'edgefl.graph.1'" in text_refused(json.dumps(document() | {"format": "edgefl.graph.2"}))


@pytest.mark.parametrize("value", [None, 3, "x", [], {"format": "edgefl.graph.1"}])
def test_document_without_the_three_keys_is_refused(value) -> None:
    assert "expected exactly ['format', 'input_shape', 'nodes']" in text_refused(json.dumps(value))


def test_unknown_key_is_refused() -> None:
    assert "'comment'" in text_refused(json.dumps(document() | {"comment": "x"}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"op": "Conv9d"}, "operation 'Conv9d'; expected a name and one of"),
        ({"op": "__class__"}, "operation '__class__'"),
        ({"op": ["Conv2d"]}, r"operation ['Conv2d']"),
        ({"name": 3}, "node 3"),
        ({"inputs": "input"}, "inputs is str; expected a list"),
        ({"inputs": [1]}, "inputs (1,); expected names"),
        ({"settings": {}}, "settings of Conv2d has []"),
        ({"settings": None}, "settings of Conv2d has NoneType"),
        ({"extra": 1}, "node has"),
    ],
)
def test_bad_node_record_is_refused(change, message) -> None:
    broken = document()
    broken["nodes"][0] |= change
    assert message in text_refused(json.dumps(broken))


@pytest.mark.parametrize("value", ["3", 3.0, None, True, [3], [3, 3, 3], [3, "3"], {"a": 1}])
def test_setting_of_the_wrong_type_is_refused(value) -> None:
    broken = document()
    broken["nodes"][0]["settings"]["kernel_size"] = value
    assert "node 'conv': Conv2d: kernel_size=" in text_refused(json.dumps(broken))


def test_text_above_the_limit_is_refused_before_it_is_parsed() -> None:
    assert text_refused("x" * 101, Limits(text_bytes=100)) == "graph text of 101 bytes; the limit is 100"


def test_too_many_nodes_are_refused() -> None:
    assert text_refused(dumps(TINY), Limits(nodes=2)) == "graph of 3 nodes; the limit is 2"


def test_too_many_parameters_are_refused() -> None:
    count = 2 * 9 + 2 + 8 * 3 + 3
    assert loads(dumps(TINY), Limits(parameters=count)) == TINY
    message = text_refused(dumps(TINY), Limits(parameters=count - 1))
    assert message == f"graph of {count} parameters; the limit is {count - 1}"


def test_parameters_beyond_memory_are_refused_without_allocating_them() -> None:
    node = {"name": "fc", "op": "Linear", "inputs": ["input"]}
    node["settings"] = {"in_features": 2**31 - 1, "out_features": 2**31 - 1, "bias": False}
    text = json.dumps({"format": "edgefl.graph.1", "input_shape": [2**31 - 1], "nodes": [node]})
    assert text_refused(text) == f"graph of {(2**31 - 1) ** 2} parameters; the limit is {2**29}"


def test_too_many_activations_are_refused() -> None:
    count = 16 + 8 + 8 + 3
    message = text_refused(dumps(TINY), Limits(activations=count - 1))
    assert message == f"graph of {count} activations; the limit is {count - 1}"
