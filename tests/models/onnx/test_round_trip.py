"""Every model that edgefl writes as ONNX is read again: outputs agree. Parameters of built-in models
keep their names and bits."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from edgefl.models.graph import INPUT, Graph, Model, Node, architectures
from edgefl.models.graph.operations import (
    LSTM,
    Attention,
    AvgPool2d,
    BatchNorm,
    CircularPad2d,
    Dropout,
    Elementwise,
    Flatten,
    Flip,
    GroupNorm,
    Linear,
    Reduce,
    RMSNorm,
    Rotary,
    Slice,
)
from edgefl.study.export.onnx_nodes import to_onnx
from tests.learning.graphs import GRAPHS
from tests.models.onnx.onnx_models import by_edgefl, by_onnxruntime, distance, read
from tests.study.export.test_onnx_nodes import drawn, graphs, trial

WITHIN = 1e-5
SMALL = 200_000  # parameters of a model of the short tests


def inputs_of(graph: Graph, count: int) -> np.ndarray:
    x = np.random.default_rng(count).standard_normal((count, *graph.input_shape)).astype(np.float32)
    return x if graph.vocabulary is None else np.floor(np.abs(x)) % graph.vocabulary


def is_small(graph: Graph) -> bool:
    return sum(math.prod(info.shape) for info in graph.parameters().values()) < SMALL


def is_only_written(graph: Graph) -> bool:
    """Return whether an operation is written in operators that are not read, such as a selection of cells."""
    return any(
        isinstance(op, CircularPad2d | Flip) or (isinstance(op, BatchNorm) and not op.track_running_stats)
        for op in (node.op for node in graph.nodes)
    )


def test_every_operation_and_small_model_that_is_written_is_read_again() -> None:
    small = [(name, graph) for name, graph in graphs() if is_small(graph)]
    check_round_trip(each for each in small if not is_only_written(each[1]))


def test_every_larger_model_that_is_written_is_read_again() -> None:
    check_round_trip((name, graph) for name, graph in graphs() if not is_small(graph))


def test_many_random_models_that_are_written_are_read_again() -> None:
    check_round_trip((f"random {seed}", trial(seed).graph) for seed in range(30, 300))


def check_round_trip(cases: Iterable[tuple[str, Graph]]) -> None:
    listed = list(cases)
    assert len(listed) >= 3
    for name, graph in listed:
        content = to_onnx(drawn(graph))
        model, x = read(content), inputs_of(graph, 3)
        assert model.graph.input_shape == graph.input_shape, name
        assert model.graph.output_shape == graph.output_shape, name
        assert distance(by_edgefl(model, x), by_onnxruntime(content, x)) <= WITHIN, name


def test_built_in_models_keep_their_graph_and_the_bits_of_their_parameters() -> None:
    for name in ("fedspu_emnist", "fedspu_speech", "pflego_omniglot", "digits_cnn"):
        shape, classes = architectures.EXAMPLES[name]
        model = drawn(architectures.build(name, shape, classes))
        found = read(to_onnx(model))
        assert [node.op for node in found.graph.nodes] == [node.op for node in model.graph.nodes], name
        assert list(found.params) == list(model.params), name
        assert all(np.array_equal(found.params[each], value) for each, value in model.params.items()), name
        assert not found.graph.frozen, name


def test_layers_that_onnx_writes_as_several_operators_are_one_layer_again() -> None:
    nodes = (
        Node("norm", GroupNorm(2, 4), (INPUT,)),
        Node("drop", Dropout(0.5), ("norm",)),
        Node("pool", AvgPool2d((1, 6), (1, 6)), ("drop",)),
        Node("flat", Flatten(), ("pool",)),
        Node("fc", Linear(16, 3), ("flat",)),
    )
    found = read(to_onnx(drawn(Graph((4, 4, 6), nodes))))
    kinds = [node.op.title for node in found.graph.nodes]
    assert kinds == ["GroupNorm", "AvgPool2d", "Flatten", "Linear"]  # a Dropout is written as nothing
    assert list(found.params) == ["norm.weight", "norm.bias", "fc.weight", "fc.bias"]


def test_operations_of_transformers_come_back_as_they_were() -> None:
    """Also a norm with an offset, which is then part of its weight, heads that share keys, and a window."""
    begun = GRAPHS["transformer"]
    found = read(to_onnx(drawn(begun)))
    kinds = Attention | RMSNorm | Rotary
    own = [node.op for node in begun.nodes if isinstance(node.op, kinds)]
    assert [node.op for node in found.graph.nodes if isinstance(node.op, kinds)] == [RMSNorm(4), *own[1:]]
    assert found.graph.frozen == {f"{name}.{part}" for name in ("q_turned", "k_turned") for part in ("cos", "sin")}


def test_expressions_are_read_with_constants_in_them_and_extents_of_one() -> None:
    """The steps are one operation again, but for one of fewer values: the sum of the channels is repeated for each."""
    nodes = (
        Node("sum", Reduce("sum", (0,)), (INPUT,)),
        Node("mixed", Elementwise("where(a <= 0.5, a / b, maximum(b, 2)) ** 1.5"), (INPUT, "sum")),
        Node("flat", Flatten(), ("mixed",)),
        Node("fc", Linear(12, 3), ("flat",)),
    )
    found = read(to_onnx(drawn(Graph((3, 2, 2), nodes))))
    texts = [node.op.expression for node in found.graph.nodes if isinstance(node.op, Elementwise)]
    assert texts == ["maximum(a, (2.0))", "where(b <= 0.5, b / c, a) ** 1.5"]


def test_the_gates_of_a_recurrent_layer_come_back_in_torchs_order() -> None:
    nodes = (
        Node("rnn", LSTM(3, 2), (INPUT,)),
        Node("end", Slice(4, 1), ("rnn",)),
        Node("flat", Flatten(), ("end",)),
        Node("fc", Linear(2, 2), ("flat",)),
    )
    model = drawn(Graph((3, 5), nodes))
    found = read(to_onnx(model))
    assert list(found.params) == list(model.params)
    for name, value in model.params.items():
        np.testing.assert_array_equal(found.params[name], value, err_msg=name)


def test_the_reader_is_checked_against_another_model() -> None:
    """The distance of two models that differ in one bias is not within the bound."""
    model = drawn(architectures.build("lenet5", (1, 28, 28), 10))
    content, x = to_onnx(model), inputs_of(model.graph, 3)
    other = Model(model.graph, model.params | {"fc.bias": model.params["fc.bias"] + np.float32(0.01)})
    assert distance(by_edgefl(other, x), by_onnxruntime(content, x)) > WITHIN
