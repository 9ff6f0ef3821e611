"""Damaged and hostile ONNX files: each is refused in one sentence, within bounds of time and memory."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edgefl.errors import GraphError
from edgefl.models.graph import architectures
from edgefl.models.graph.json import Limits
from edgefl.models.onnx import graph_assembly, wire_bounds
from edgefl.models.onnx.onnx_content import MOST_NODES
from edgefl.study.export.onnx_nodes import to_onnx
from tests.models.onnx.onnx_models import file_of, model_of, node, read
from tests.study.export.test_onnx_nodes import drawn

LONGEST_S = 10.0  # seconds of processor time for any of the files here, on a loaded machine
WEIGHT = {"w": np.eye(2)}
GEMM = [node("Gemm", "x w", "y")]


def refused(content: bytes, shape: tuple[int, ...] | None = None) -> str:
    """Return the sentence with which a file is refused. It has one line and is not longer than a reader reads."""
    began = time.process_time()
    with pytest.raises(GraphError) as error:
        read(content, shape)
    assert time.process_time() - began < LONGEST_S
    text = str(error.value)
    assert "\n" not in text.strip(), text
    assert len(text) < 1000, text[:1000]
    return text


def changed(change: Callable[[onnx.ModelProto], Any]) -> bytes:
    """Return the file of one Gemm after a change."""
    model = model_of(GEMM, (2,), WEIGHT)
    change(model)
    return model.SerializeToString()


def damaged_tensor(**settings: Any) -> bytes:
    """Return the file of one Gemm whose weight has other fields than its values need."""

    def change(model: onnx.ModelProto) -> None:
        tensor = model.graph.initializer[0]
        for name, value in settings.items():
            if name == "dims":
                del tensor.dims[:]
                tensor.dims.extend(value)
            else:
                setattr(tensor, name, value)

    return changed(change)


def test_bytes_that_are_not_onnx() -> None:
    assert "has no end; expected an undamaged ONNX file" in refused(b"PK\x03\x04 a zip file that is not protobuf")
    assert "has no end" in refused(b"\xff" * 100)
    assert refused(b"\x12\x02\xff\xff") == "the text at byte 2 is not UTF-8; expected an undamaged ONNX file"
    assert refused(b"") == "no graph; expected an ONNX model"
    assert refused(bytes(1000)).startswith("the field at byte 0 of 1000 has no end")


def test_every_file_that_is_cut_off_is_refused() -> None:
    content = file_of(GEMM, (2,), WEIGHT)
    for end in range(len(content)):
        try:
            read(content[:end])
        except GraphError as error:
            assert "\n" not in str(error)
        else:
            # what is cut off after the graph is the opset, which is written last
            raise AssertionError(end)


TENSORS = {
    "fewer bytes than the shape needs": (damaged_tensor(dims=[2, 3]), "16 bytes; expected 24 for the shape (2, 3)"),
    "no bytes": (damaged_tensor(raw_data=b""), "0 bytes; expected 16"),
    "a negative extent": (damaged_tensor(dims=[-2, 2]), "shape (-2, 2); expected at most"),
    "an extent that overflows": (damaged_tensor(dims=[2**62, 4]), "expected at most 268435456 values"),
    "many axes": (damaged_tensor(dims=[1] * 1000), "expected at most 268435456 values"),
    "texts": (damaged_tensor(data_type=TensorProto.STRING), "constant 'w' is of type string; expected float32"),
    "a type that is not there": (damaged_tensor(data_type=99), "is of type 99; expected float32"),
    "half precision": (
        damaged_tensor(data_type=TensorProto.FLOAT16, raw_data=bytes(8)),
        "constant 'w' is float16; expected float32: export the model in float32",
    ),
    "2 GB that are not there": (damaged_tensor(dims=[2**14, 2**14], raw_data=b""), "0 bytes; expected 1073741824"),
    "values that are not numbers": (
        damaged_tensor(raw_data=np.array([0, np.nan, 1, 2], "<f4").tobytes()),
        "parameter 'y.weight' has values that are not finite",
    ),
}


@pytest.mark.parametrize("name", TENSORS)
def test_a_damaged_weight_is_named(name: str) -> None:
    content, message = TENSORS[name]
    assert message in refused(content)


def test_graphs_that_contradict_themselves() -> None:
    loop = [node("Add", "x b", "a"), node("Relu", "a", "b"), node("Relu", "b", "y")]
    assert refused(file_of(loop, (2,))) == ("Add 'a': input 'b' comes later; expected the order of computation")
    assert "input 'y' comes later" in refused(file_of([node("Add", "x y", "y")], (2,)))
    assert "input 'gone' is made by nothing" in refused(file_of([node("Add", "x gone", "y")], (2,)))
    twice = [node("Relu", "x", "y"), node("Tanh", "x", "y")]
    assert "the name 'y' is taken; expected different names" in refused(file_of(twice, (2,)))
    assert "the name 'w' is taken" in refused(file_of([node("Relu", "x", "w")], (2,), WEIGHT))
    assert "the output 'y' is made by nothing" in refused(file_of([node("Relu", "x", "z")], (2,)))
    assert "the output 'y' does not follow from the input" in refused(
        file_of([node("Identity", "w", "y")], (2,), WEIGHT)
    )
    two = changed(lambda model: model.graph.initializer.append(model.graph.initializer[0]))
    assert refused(two) == "two constants with the name 'w'; expected one"


def test_what_a_graph_takes_and_gives() -> None:
    def grown(side: str) -> bytes:
        more = helper.make_tensor_value_info("more", TensorProto.FLOAT, [1, 2])
        return changed(lambda model: getattr(model.graph, side).append(more))

    assert "2 inputs ('x', 'more'); expected one input: onnx.utils.extract_model" in refused(grown("input"))
    assert "2 outputs ('y', 'more'); expected one output: onnx.utils.extract_model" in refused(grown("output"))
    assert "input 'x' has a batch of 8; expected an open batch, or 1" in refused(file_of(GEMM, (2,), WEIGHT, 8))
    assert "leaves open: features; expected the shape of one example" in refused(file_of(GEMM, ("features",), WEIGHT))
    assert read(file_of(GEMM, ("features",), WEIGHT), (2,)).graph.input_shape == (2,)
    assert "takes examples of shape (2); expected (3,), as --input says" in refused(file_of(GEMM, (2,), WEIGHT), (3,))
    assert "has 6 axes; expected [batch, ...]" in refused(file_of(GEMM, (2, 2, 2, 2, 2), WEIGHT))
    assert "input 'x' is string; expected float32" in refused(file_of(GEMM, (2,), WEIGHT, dtype=TensorProto.STRING))
    huge = file_of([node("Relu", "x", "y")], (2**40,))
    assert "expected extents below 2147483647" in refused(huge)
    large = file_of([node("Relu", "x", "y")], (2**10, 2**10, 2**10))
    assert "graph of 2147483648 activations; the limit is 268435456" in refused(large)


def test_a_graph_that_is_tied_to_its_batch_is_refused_with_what_helps() -> None:
    tied = file_of([node("Reshape", "x s", "y")], (2, 3), {"s": np.array([1, -1])})
    assert "the graph is tied to one batch size, so export with a batch axis that is dynamic" in refused(tied)
    turned = file_of([node("Transpose", "x", "y", perm=[1, 0])], (2,))
    assert "the output is [2, batch]; expected [batch, ...]" in refused(turned)
    mixed = file_of([node("Concat", "x x", "y", axis=0)], (2,))
    assert "expected an axis that is not the batch" in refused(mixed)


def test_other_versions_and_domains() -> None:
    assert "opset 6; expected 7 to" in refused(file_of(GEMM, (2,), WEIGHT, opset=6))
    assert "opset 999; expected 7 to" in refused(file_of(GEMM, (2,), WEIGHT, opset=999))
    foreign = [helper.make_node("FusedGemm", ["x", "w"], ["y"], "n", domain="com.microsoft")]
    assert "com.microsoft.FusedGemm 'n': edgefl has no operation for it" in refused(file_of(foreign, (2,), WEIGHT))


def branch(depth: int) -> onnx.GraphProto:
    inner = [helper.make_node("Identity", ["x"], ["z"], "n")]
    if depth:
        inner = [helper.make_node("If", ["c"], ["z"], "n", then_branch=branch(depth - 1), else_branch=branch(0))]
    return helper.make_graph(inner, "b", [], [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)])


def test_control_flow_is_refused_at_any_depth() -> None:
    def of(depth: int) -> bytes:
        nodes = [helper.make_node("If", ["c"], ["y"], "choice", then_branch=branch(depth), else_branch=branch(0))]
        return file_of([*nodes, node("Relu", "x", "r")], (2,), {"c": np.array(True)})

    assert "on constants alone; edgefl does not compute it" in refused(of(0))
    assert "messages within messages, more than 12 deep; expected a graph without subgraphs" in refused(of(20))


def test_a_refusal_names_the_first_node_and_counts_nodes_like_it() -> None:
    nodes = [node("LRN", "x", "a"), node("LRN", "a", "b"), node("TopK", "b k", "y i")]
    text = refused(file_of(nodes, (2,), {"k": np.array([1])}, opset=18))
    assert text == (
        "LRN 'a': edgefl has no operation for it; use BatchNormalization (1 more nodes like it); "
        "1 more kinds of nodes are refused, and --explain lists them"
    )


def test_what_the_output_does_not_need_is_not_refused() -> None:
    nodes = [node("LRN", "x", "a"), node("Relu", "x", "y")]
    assert [each.op.title for each in read(file_of(nodes, (2,), opset=18)).graph.nodes] == ["ReLU"]


def chained(count: int, *operators: str, inputs: str = "{}") -> bytes:
    """Return a file of many nodes, one after another."""
    names = ["x", *(f"v{at}" for at in range(count - 1)), "y"]
    nodes = [node(operators[at % len(operators)], inputs.format(names[at]), names[at + 1]) for at in range(count)]
    return file_of(nodes, (2,), {"c": np.float32(2), "w": np.eye(2)})


MANY = {
    "activations": (("Relu",), "{}", "{} operations; the limit is {}"),
    "identities": (("Identity",), "{}", ""),
    "scales": (("Mul",), "{} c", "{} operations; the limit is {}"),
    "products": (("MatMul",), "{} w", "{} operations; the limit is {}"),
    "squares": (("Mul",), "{0} {0}", " operations; the limit is"),
    "softmaxes": (("Softmax",), "{}", "expected at the end only, over the classes"),
    "unknown operators": (("LRN",), "{}", "more nodes like it"),
    "patterns that do not end": (("Mul", "Add", "Div"), "{} c", " operations; the limit is"),
}


@pytest.mark.parametrize("name", MANY)
def test_more_nodes_than_a_graph_may_have_are_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_assembly, "LIMITS", Limits(nodes=200))
    check_many_nodes(name, 210, 200)


@pytest.mark.parametrize("name", MANY)
def test_as_many_nodes_as_a_file_may_have_take_bounded_time(name: str) -> None:
    check_many_nodes(name, MOST_NODES, 4096)


def check_many_nodes(name: str, count: int, limit: int) -> None:
    operators, inputs, message = MANY[name]
    content = chained(count, *operators, inputs=inputs)
    if message:
        assert message.format(count, limit) in refused(content)
    else:
        assert len(read(content).graph.nodes) == 1


def test_more_nodes_than_a_file_may_have_are_not_read() -> None:
    assert "16385 nodes; the limit is 16384" in refused(chained(MOST_NODES + 1, "Relu"))


def empty_nodes(count: int) -> bytes:
    """Return a file of empty nodes, each of which is two bytes, and would take more than 200 bytes in memory."""
    graph = b"\x0a\x00" * count
    length = bytes(((len(graph) >> shift) & 127) | (128 if shift < 28 else 0) for shift in range(0, 35, 7))
    return b"\x3a" + length + graph


def test_empty_messages_are_counted_before_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire_bounds, "MOST_FIELDS", 1000)
    assert refused(empty_nodes(1000)) == "more than 1000 fields; expected a model with fewer nodes"
    assert "has no output; expected one" in refused(empty_nodes(998))


def test_many_empty_messages_take_no_memory() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert f"more than {wire_bounds.MOST_FIELDS} fields" in refused(empty_nodes(2 * wire_bounds.MOST_FIELDS))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB


COMPUTED = {
    "a range": (
        [node("Range", "zero many one", "r")],
        {"zero": np.array(0), "many": np.array(2**40), "one": np.array(1)},
    ),
    "a fill": (
        [node("ConstantOfShape", "many", "f"), node("Neg", "f", "r")],
        {"many": np.array([2**20, 2**20])},
    ),
    "an expansion": (
        [node("Expand", "one many", "f"), node("Cast", "f", "r", to=1)],
        {"one": np.array(1), "many": np.array([2**20, 2**20])},
    ),
    "tiles": ([node("Tile", "one many", "r")], {"one": np.array([1]), "many": np.array([2**40])}),
    "sums that grow": (
        [node("Expand", "row many", "f"), *(node("Add", "f f", f"s{at}") for at in range(64)), node("Add", "f f", "r")],
        {"row": np.zeros((1, 2**10), np.int8), "many": np.array([2**14, 1])},
    ),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_computations_with_constants_are_bounded(name: str) -> None:
    nodes, constants = COMPUTED[name]
    text = refused(file_of([*nodes, node("Add", "x r", "y")], (2,), constants))
    assert "computed from constants; the limit for a file leaves" in text


def test_mutations_of_files_are_read_or_refused_in_one_sentence() -> None:
    assert fuzzed(seeds=range(150)) < LONGEST_S


def test_many_mutations_of_files_are_read_or_refused_in_one_sentence() -> None:
    assert fuzzed(seeds=range(150, 6000)) < LONGEST_S


def fuzzed(seeds: range) -> float:
    """Read mutations of valid files, and return the longest time for one file, in seconds of processor time."""
    shape, classes = architectures.EXAMPLES["digits_cnn"]
    scale = {"s": [1.0, 2.0]}
    files = [
        to_onnx(drawn(architectures.build("digits_cnn", shape, classes))),
        file_of([node("LayerNormalization", "x s", "n"), node("MatMul", "n w", "y")], (3, 2), WEIGHT | scale),
        file_of(
            [node("Shape", "x", "s"), node("Reshape", "x s", "r"), node("Gemm", "r w b", "y", alpha=2.0)],
            (2,),
            WEIGHT | {"b": [1.0, 2.0]},
        ),
    ]  # fmt: skip
    longest = 0.0
    for seed in seeds:
        content = mutated(files[seed % len(files)], np.random.default_rng(seed))
        began = time.process_time()
        try:
            read(content)
        except GraphError as error:
            assert "\n" not in str(error).strip(), (seed, str(error))
        longest = max(longest, time.process_time() - began)
    return longest


def mutated(content: bytes, draw: np.random.Generator) -> bytes:
    """Return the file with a few bytes changed, removed or repeated, mostly outside the weights."""
    found = bytearray(content)
    for _ in range(int(draw.integers(1, 6))):
        at = int(draw.integers(len(found)))
        kind = int(draw.integers(4))
        if kind == 0:
            found[at] = int(draw.integers(256))
        elif kind == 1:
            del found[at : at + int(draw.integers(1, 9))]
        elif kind == 2:
            found[at:at] = found[max(0, at - int(draw.integers(1, 40))) : at]
        else:
            found[at] ^= 1 << int(draw.integers(8))
        if len(found) < 2:
            break
    return bytes(found)
