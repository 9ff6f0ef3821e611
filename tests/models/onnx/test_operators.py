"""Single ONNX operators and patterns of exporters, against onnxruntime and against numbers by hand."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from onnx import TensorProto, helper

from edgefl.learning import SGD, GraphLearner, Samples
from edgefl.learning.batches import Keyed, Listed
from edgefl.models.graph import Model
from tests.models.onnx.onnx_models import by_edgefl, by_onnxruntime, distance, file_of, node, read

DRAW = np.random.default_rng(3)
IMAGE, SEQUENCE, FEATURES = (4, 7, 9), (4, 10), (5,)


def drawn(*shape: int) -> np.ndarray:
    return DRAW.standard_normal(shape).astype(np.float32)


class Case(NamedTuple):
    """A graph of a few nodes, and the operations that it becomes.

    kinds   names of the operations in order
    """

    nodes: list[Any]
    shape: tuple[int, ...]
    kinds: str
    constants: dict[str, Any] = {}  # noqa: RUF012
    opset: int = 17


def one(operator: str, constants: str = "", **attributes: Any) -> list[Any]:
    return [node(operator, f"x {constants}".strip(), "y", **attributes)]


W3, W1 = {"w": drawn(6, 4, 3, 3), "b": drawn(6)}, {"w": drawn(6, 4, 3), "b": drawn(6)}
NORM = {"s": drawn(4), "b": drawn(4), "m": drawn(4), "v": np.abs(drawn(4)) + 0.5}
CASES = {
    "conv": Case(one("Conv", "w b", pads=[1, 1, 1, 1], strides=[2, 1]), IMAGE, "Conv2d", W3),
    "conv padded on one side": Case(one("Conv", "w", pads=[1, 0, 0, 2]), IMAGE, "ZeroPad2d Conv2d", W3),
    "conv same upper": Case(one("Conv", "w", auto_pad="SAME_UPPER", strides=[2, 2]), IMAGE, "Conv2d", W3),
    "conv same lower": Case(one("Conv", "w", auto_pad="SAME_LOWER", strides=[2, 2]), (4, 8, 8), "ZeroPad2d Conv2d", W3),
    "conv valid": Case(one("Conv", "w", auto_pad="VALID", dilations=[2, 1]), IMAGE, "Conv2d", W3),
    "conv in groups": Case(one("Conv", "w", group=2), IMAGE, "Conv2d", {"w": drawn(6, 2, 3, 2)}),
    "conv 1-d": Case(one("Conv", "w b", pads=[1, 1]), SEQUENCE, "Conv1d", W1),
    "conv 1-d padded on one side": Case(
        one("Conv", "w b", pads=[2, 0]), SEQUENCE, "Reshape ZeroPad2d Reshape Conv1d", W1
    ),
    "conv and its bias": Case(
        [node("Conv", "x w", "c"), node("Add", "c b", "y")], IMAGE, "Conv2d", {"w": W3["w"], "b": drawn(6, 1, 1)}
    ),
    "transposed": Case(
        one("ConvTranspose", "w", strides=[2, 2], output_padding=[1, 1], pads=[1, 1, 1, 1]),
        IMAGE,
        "ConvTranspose2d",
        {"w": drawn(4, 3, 3, 3)},
    ),
    "transposed, cut at the end": Case(
        one("ConvTranspose", "w", strides=[2, 2], pads=[1, 1, 0, 0]), IMAGE, "ConvTranspose2d", {"w": drawn(4, 3, 3, 3)}
    ),
    "transposed 1-d": Case(
        one("ConvTranspose", "w", strides=[2]), SEQUENCE, "Reshape ConvTranspose2d Reshape", {"w": drawn(4, 3, 3)}
    ),
    "gemm": Case(one("Gemm", "w b", transB=1), FEATURES, "Linear", {"w": drawn(3, 5), "b": drawn(3)}),
    "gemm with factors": Case(
        one("Gemm", "w b", alpha=0.5, beta=2.0), FEATURES, "Linear", {"w": drawn(5, 3), "b": drawn(1, 3)}
    ),
    "matmul and its bias": Case(
        [node("MatMul", "x w", "m"), node("Add", "b m", "y")],
        (6, 5),
        "Permute Linear Permute",
        {"w": drawn(5, 3), "b": drawn(3)},
    ),
    "matmul of planes": Case(one("MatMul", "w"), (2, 3, 5), "Permute Linear Permute", {"w": drawn(5, 4)}),
    "matmul from the left": Case([node("MatMul", "w x", "y")], (6, 5), "Linear", {"w": drawn(3, 6)}),
    "batch norm": Case(one("BatchNormalization", "s b m v", epsilon=0.25), IMAGE, "BatchNorm2d", NORM),
    "batch norm 1-d": Case(one("BatchNormalization", "s b m v"), SEQUENCE, "BatchNorm1d", NORM),
    "batch norm of features": Case(one("BatchNormalization", "s b m v"), (4,), "BatchNorm1d", NORM),
    "layer norm": Case(
        one("LayerNormalization", "s b", epsilon=0.01),
        (6, 4),
        "Permute LayerNorm Permute",
        {"s": drawn(4), "b": drawn(4)},
    ),
    "layer norm of all": Case(
        one("LayerNormalization", "s b", axis=1), (3, 4), "LayerNorm", {"s": drawn(3, 4), "b": drawn(3, 4)}
    ),
    "instance norm": Case(one("InstanceNormalization", "s b"), IMAGE, "GroupNorm", {"s": drawn(4), "b": drawn(4)}),
    "group norm 18": Case(
        one("GroupNormalization", "s b", num_groups=2), IMAGE, "GroupNorm", {"s": drawn(2), "b": drawn(2)}, 18
    ),
    "group norm 21": Case(
        one("GroupNormalization", "s b", num_groups=2), IMAGE, "GroupNorm", {"s": drawn(4), "b": drawn(4)}, 21
    ),
    "relu6": Case(one("Clip", "a b"), IMAGE, "ReLU6", {"a": np.float32(0), "b": np.float32(6)}),
    "relu6 before opset 11": Case(one("Clip", min=0.0, max=6.0), IMAGE, "ReLU6", opset=10),
    "relu by clip": Case(one("Clip", "a"), IMAGE, "ReLU", {"a": np.float32(0)}),
    "prelu": Case(one("PRelu", "s"), IMAGE, "PReLU", {"s": drawn(4, 1, 1)}),
    "prelu of one slope": Case(one("PRelu", "s"), IMAGE, "PReLU", {"s": drawn(1)}),
    "gelu 20": Case(one("Gelu", approximate="tanh"), IMAGE, "GELU", opset=20),
    "silu": Case([node("Sigmoid", "x", "s"), node("Mul", "s x", "y")], IMAGE, "SiLU"),
    "gelu, halved first": Case(
        [
            node("Mul", "x half", "h"),
            node("Div", "x root", "q"),
            node("Erf", "q", "e"),
            node("Add", "e unit", "p"),
            node("Mul", "p h", "y"),
        ],
        IMAGE,
        "GELU",
        {"half": np.float32(0.5), "root": np.float32(2**0.5), "unit": np.float32(1)},
    ),
    "Mish": Case(one("Mish"), IMAGE, "Mish", opset=18),
    "Mish of exporters before opset 18": Case(
        [node("Softplus", "x", "s"), node("Tanh", "s", "t"), node("Mul", "x t", "y")], IMAGE, "Mish"
    ),
    "hard swish of old exporters": Case(
        [
            node("Add", "x three", "a"),
            node("Clip", "a zero six", "c"),
            node("Mul", "x c", "m"),
            node("Div", "m six", "y"),
        ],
        IMAGE,
        "Hardswish",
        {"three": np.float32(3), "zero": np.float32(0), "six": np.float32(6)},
    ),
    "hard sigmoid of another slope": Case(
        one("HardSigmoid", alpha=0.2, beta=0.25), IMAGE, "MulParameter AddParameter Hardsigmoid"
    ),
    "layer norm before opset 17": Case(
        [
            node("ReduceMean", "x", "mean", axes=[-1]),
            node("Sub", "x mean", "d"),
            node("Pow", "d two", "q"),
            node("ReduceMean", "q", "v", axes=[-1]),
            node("Add", "v eps", "e"),
            node("Sqrt", "e", "root"),
            node("Div", "d root", "n"),
            node("Mul", "n s", "m"),
            node("Add", "m b", "y"),
        ],
        (6, 4),
        "Permute LayerNorm Permute",
        {"two": np.float32(2), "eps": np.float32(0.01), "s": drawn(4), "b": drawn(4)},
    ),
    "every second column": Case(
        one("Slice", "s e a t"),
        (4, 6, 8),
        "Reshape Slice Reshape",
        {"s": np.array([1]), "e": np.array([2**63 - 1]), "a": np.array([3]), "t": np.array([2])},
    ),
    "leaky relu by max": Case(
        [node("Mul", "x a", "m"), node("Max", "x m", "y")], IMAGE, "LeakyReLU", {"a": np.float32(0.25)}
    ),
    "max pool": Case(one("MaxPool", kernel_shape=[3, 2], strides=[2, 2], pads=[1, 1, 1, 1]), IMAGE, "MaxPool2d"),
    "max pool same upper": Case(
        one("MaxPool", kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER"), (4, 8, 8), "MaxPool2d"
    ),
    "max pool rounded up": Case(one("MaxPool", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1), IMAGE, "MaxPool2d"),
    "average pool": Case(one("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]), IMAGE, "AvgPool2d"),
    "average pool with zeros": Case(
        one("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 0, 0], count_include_pad=1), IMAGE, "ZeroPad2d AvgPool2d"
    ),
    "average pool 1-d": Case(one("AveragePool", kernel_shape=[3], strides=[2]), SEQUENCE, "AvgPool1d"),
    "global average": Case(one("GlobalAveragePool"), IMAGE, "GlobalAvgPool"),
    "global maximum": Case(one("GlobalMaxPool"), IMAGE, "MaxPool2d"),
    "mean of places": Case(one("ReduceMean", axes=[2, 3], keepdims=0), IMAGE, "GlobalAvgPool Flatten"),
    "mean of steps": Case(one("ReduceMean", axes=[1], keepdims=0), (6, 4), "Permute GlobalAvgPool Flatten"),
    "mean by an input": Case(one("ReduceMean", "a", keepdims=1), IMAGE, "GlobalAvgPool", {"a": np.array([2, 3])}, 18),
    "pad": Case(one("Pad", "p"), IMAGE, "ZeroPad2d", {"p": np.array([0, 0, 1, 0, 0, 0, 2, 3])}),
    "resize": Case(
        one("Resize", "- s", mode="nearest", nearest_mode="floor", coordinate_transformation_mode="asymmetric"),
        IMAGE,
        "Upsample",
        {"s": np.array([1.0, 1.0, 2.0, 3.0])},
    ),
    "resize linearly": Case(
        one("Resize", "- s", mode="linear"), IMAGE, "Interpolate", {"s": np.array([1.0, 1.0, 3.0, 2.0])}
    ),
    "resize by scales, with corners": Case(
        one("Resize", "- s", mode="linear", coordinate_transformation_mode="align_corners"),
        IMAGE,
        "Interpolate",
        {"s": np.array([1.0, 1.0, 2.0, 3.0], np.float32)},
    ),
    "pad by reflection": Case(
        one("Pad", "p", mode="reflect"), IMAGE, "ReflectionPad2d", {"p": np.array([0, 0, 1, 0, 0, 0, 2, 3])}
    ),
    "pad by the edge": Case(
        one("Pad", "p", mode="edge"), IMAGE, "ReplicationPad2d", {"p": np.array([0, 0, 1, 0, 0, 0, 2, 3])}
    ),
    "resize by half pixels": Case(one("Resize", "- s"), IMAGE, "Upsample", {"s": np.array([1.0, 1.0, 2.0, 3.0])}),
    "flatten": Case(one("Flatten"), IMAGE, "Flatten"),
    "reshape": Case(one("Reshape", "s"), IMAGE, "Reshape", {"s": np.array([0, 2, -1, 9])}),
    "channels shuffled": Case(
        [node("Reshape", "x s", "r"), node("Transpose", "r", "t", perm=[0, 2, 1, 3, 4]), node("Reshape", "t u", "y")],
        IMAGE,
        "Reshape Permute Reshape",
        {"s": np.array([0, 2, 2, 7, 9]), "u": np.array([0, 4, 7, 9])},
    ),
    "squeeze and unsqueeze": Case(
        [node("Unsqueeze", "x a", "u"), node("Squeeze", "u b", "y")],
        (1, 7),
        "Flatten",
        {"a": np.array([3]), "b": np.array([1, 3])},
    ),
    "one step": Case(one("Gather", "i", axis=1), (6, 4), "Permute Slice Flatten", {"i": np.array(-1)}),
    "channels of planes": Case(
        one("Slice", "s e a"),
        IMAGE,
        "Permute Reshape Slice Permute Reshape",
        {"s": np.array([1]), "e": np.array([3]), "a": np.array([1])},
    ),
    "two halves": Case(
        [node("Split", "x", "a b", axis=1), node("Mul", "a b", "y")], (4, 6), "Permute Slice Slice Mul Permute"
    ),
    "concat along steps": Case(
        [node("Relu", "x", "r"), node("Concat", "x r", "y", axis=2)], SEQUENCE, "ReLU Permute Permute Concat Permute"
    ),
    "joined with itself": Case([node("Concat", "x x", "y", axis=1)], SEQUENCE, "Reshape Concat"),
    "twice": Case([node("Add", "x x", "y")], FEATURES, "Flatten Add"),
    "a difference": Case([node("Relu", "x", "r"), node("Sub", "r x", "y")], FEATURES, "ReLU MulParameter Add"),
    "gates": Case([node("GlobalAveragePool", "x", "g"), node("Mul", "g x", "y")], IMAGE, "GlobalAvgPool Mul"),
    "a mean added to all": Case(
        [node("GlobalAveragePool", "x", "g"), node("Add", "g x", "y")], IMAGE, "GlobalAvgPool Upsample Add"
    ),
    "positions": Case([node("Add", "x p", "y")], (6, 4), "AddParameter", {"p": drawn(1, 6, 4)}),
    "scale of channels": Case([node("Mul", "g x", "y")], IMAGE, "MulParameter", {"g": drawn(4, 1, 1)}),
    "divided": Case([node("Div", "x g", "y")], IMAGE, "MulParameter", {"g": np.abs(drawn(4, 1, 1)) + 1}),
    "one minus": Case([node("Sub", "o x", "y")], FEATURES, "MulParameter AddParameter", {"o": np.float32(1)}),
}


@pytest.mark.parametrize("name", CASES)
def test_operator_gives_the_outputs_of_onnxruntime(name: str) -> None:
    case = CASES[name]
    content = file_of(case.nodes, case.shape, case.constants, opset=case.opset)
    model = read(content)
    assert " ".join(each.op.title for each in model.graph.nodes) == case.kinds
    x = np.random.default_rng(1).standard_normal((3, *case.shape)).astype(np.float32)
    assert distance(by_edgefl(model, x), by_onnxruntime(content, x)) <= 1e-5


def weights(model: Model) -> dict[str, list[Any]]:
    return {name: value.tolist() for name, value in model.params.items()}


def test_numbers_by_hand() -> None:
    """y = 2 (x W) + 3 b with W = [[1], [10]] and b = 4 is 2 x1 + 20 x2 + 12."""
    content = file_of(
        one("Gemm", "fc.weight fc.bias", alpha=2.0, beta=3.0), (2,), {"fc.weight": [[1.0], [10.0]], "fc.bias": [4.0]}
    )
    model = read(content)
    assert weights(model) == {"fc.weight": [[2.0, 20.0]], "fc.bias": [12.0]}
    assert by_edgefl(model, np.array([[1, 1], [0, 5]], np.float32)).tolist() == [[34.0], [112.0]]


def test_ids_are_looked_up_in_a_table() -> None:
    nodes = [node("Gather", "e.weight x", "g"), node("ReduceMean", "g", "y", axes=[1], keepdims=0)]
    content = file_of(nodes, (2,), {"e.weight": [[1.0, 0.0], [0.0, 1.0], [4.0, 8.0]]}, dtype=TensorProto.INT64)
    model = read(content)
    assert model.graph.vocabulary == 3
    assert by_edgefl(model, np.array([[0, 2], [1, 1]])).tolist() == [[2.5, 4.0], [0.0, 1.0]]


def test_constants_that_nobody_trains_are_frozen_and_parameters_are_not() -> None:
    """x / 255 is a scale of the inputs. A constant with a value for each channel is a parameter of the file."""
    nodes = [node("Div", "x k", "a"), node("Mul", "a gamma", "y")]
    model = read(file_of(nodes, (2, 3, 3), {"k": 255.0, "gamma": np.full((2, 1, 1), 3.0)}))
    assert list(model.params) == ["k", "gamma"]
    assert model.graph.frozen == model.graph.constants == {"k"}
    assert model.params["gamma"].shape == (2, 1, 1)


def test_computations_of_shapes_leave_no_operation() -> None:
    """x.view(x.size(0), -1), as exporters write it."""
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "n"),
        node("Unsqueeze", "n axis", "u"),
        node("Concat", "u rest", "t", axis=0),
        node("Reshape", "x t", "y"),
    ]
    constants = {"zero": np.array(0), "axis": np.array([0]), "rest": np.array([-1])}
    for batch in ("n", 1):
        model = read(file_of(nodes, (2, 3, 3), constants, batch))
        assert [each.op.title for each in model.graph.nodes] == ["Flatten"]


def test_a_batch_of_one_is_any_batch() -> None:
    content = file_of(one("Reshape", "s"), (2, 3, 3), {"s": np.array([1, 18])}, batch=1)
    x = np.arange(36, dtype=np.float32).reshape(2, 2, 3, 3)
    assert by_edgefl(read(content), x).tolist() == x.reshape(2, 18).tolist()


def test_names_follow_the_constants_and_then_the_modules() -> None:
    nodes = [
        node("Gemm", "x layer1.0.fc.weight", "a", transB=1),
        helper.make_node("Relu", ["a"], ["b"], "/layer1/layer1.0/relu/Relu"),
        helper.make_node("Gemm", ["b", "onnx::Gemm_7"], ["y"], "/head/Gemm"),
    ]
    model = read(file_of(nodes, (2,), {"layer1.0.fc.weight": drawn(3, 2), "onnx::Gemm_7": drawn(3, 2)}))
    assert [each.name for each in model.graph.nodes] == ["layer1.0.fc", "layer1.0.relu", "head"]
    assert list(model.params) == ["layer1.0.fc.weight", "head.weight"]


def test_a_softmax_at_the_end_is_left_to_the_loss() -> None:
    nodes = [node("Gemm", "x w", "l"), node("Softmax", "l", "p"), node("Identity", "p", "y")]
    with pytest.warns(UserWarning, match=r"Softmax 'p' at the end is left to the loss: outputs are logits"):
        model = read(file_of(nodes, (2,), {"w": [[1.0, 0.0], [0.0, 1.0]]}))
    assert by_edgefl(model, np.array([[3, 4]], np.float32)).tolist() == [[3.0, 4.0]]


def test_a_weight_in_two_places_is_copied_with_a_warning() -> None:
    nodes = [node("Gemm", "x w", "a"), node("Gemm", "a w", "y")]
    with pytest.warns(UserWarning, match=r"'w' is used by 2 layers; each layer gets a copy of its own"):
        model = read(file_of(nodes, (2,), {"w": [[0.0, 1.0], [2.0, 0.0]]}))
    assert by_edgefl(model, np.array([[1, 10]], np.float32)).tolist() == [[2.0, 20.0]]


def test_a_value_that_is_read_twice_has_the_gradient_of_both() -> None:
    """a + a is trained as 2 a, where the 2 is a constant of the file."""
    draw = np.random.default_rng(7)
    constants = {"w": draw.standard_normal((3, 4)), "v": draw.standard_normal((4, 2)), "two": 2.0}
    x, labels = draw.standard_normal((6, 3)).astype(np.float32), np.array([0, 1, 0, 1, 1, 0], np.int32)
    trained = []
    for middle in (node("Add", "a a", "b"), node("Mul", "a two", "b")):
        nodes = [node("Gemm", "x w", "a"), middle, node("Tanh", "b", "t"), node("Gemm", "t v", "y")]
        learner = GraphLearner(read(file_of(nodes, (3,), constants)))
        learner.fit(Samples(x, labels), Listed([np.arange(6, dtype=np.int32)] * 3, Keyed(key=1)), SGD(0.5))
        trained.append(learner.read())
    first, second = trained
    assert not np.allclose(first["a.weight"], constants["w"].T, atol=0.01)
    for name in ("a.weight", "y.weight"):
        np.testing.assert_allclose(first[name], second[name], atol=1e-5)
