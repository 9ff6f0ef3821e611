"""A model as ONNX, against our own learner: checked by onnx, run by onnxruntime, in batches of 1 and 7."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import permutations

import numpy as np
import onnx
import onnxruntime
import pytest

from edgefl import rng
from edgefl.errors import GraphError
from edgefl.learning import GraphLearner
from edgefl.models import add_adapters
from edgefl.models.graph import INPUT, Graph, Model, Node, architectures
from edgefl.models.graph.operations import (
    ELU,
    FIXED_ACTIVATIONS,
    GELU,
    GRU,
    LSTM,
    OPERATIONS,
    RNN,
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    Add,
    AddParameter,
    Attention,
    AvgPool1d,
    AvgPool2d,
    BatchNorm1d,
    BatchNorm2d,
    CircularPad2d,
    Conv1d,
    Conv2d,
    ConvTranspose2d,
    Dropout,
    Dropout1d,
    Dropout2d,
    Elementwise,
    Embedding,
    Flatten,
    FlattenPlaces,
    Flip,
    GaussianNoise,
    GlobalAvgPool,
    GroupNorm,
    InputPart,
    Interpolate,
    LayerNorm,
    LeakyReLU,
    Linear,
    MaxPool1d,
    MaxPool2d,
    MulParameter,
    Operation,
    Permute,
    PReLU,
    Reduce,
    ReflectionPad2d,
    ReLU,
    ReLU6,
    ReplicationPad2d,
    Reshape,
    RMSNorm,
    Rotary,
    Scaler,
    SelfAttention,
    Shape,
    Slice,
    Softplus,
    StochasticDepth,
    Upsample,
    ZeroPad2d,
)
from edgefl.study.export.onnx_nodes import NODES, OPSET, to_onnx
from tests.learning.computed_graphs import COMPUTED
from tests.learning.graphs import GRAPHS
from tests.learning.random_graphs import trial
from tests.learning.shared_graphs import SHARED
from tests.models.adapters.adapted_graphs import base

WITHIN = 1e-5  # of the largest output
BATCHES = (1, 7)
PLANES: Shape = (6, 9, 11)
SEQUENCE: Shape = (6, 19)
SMOOTH = (*(op() for op in FIXED_ACTIVATIONS), GELU(), GELU("tanh"), Softplus(), Softplus(2.0, 0.5))
CASES: list[tuple[Operation, Shape]] = [
    (Conv2d(6, 4, (3, 3)), PLANES),
    (Conv2d(6, 4, (3, 2), (2, 1), (1, 0), bias=False), PLANES),
    (Conv2d(6, 4, (2, 3), (1, 2), (0, 2), (3, 2)), PLANES),
    (Conv2d(6, 9, (3, 3), padding=(2, 1), groups=3), PLANES),
    (Conv2d(6, 12, (3, 3), (2, 2), (1, 1), groups=6), PLANES),
    (Conv2d(6, 6, (5, 5), padding=(2, 2), dilation=(2, 1), groups=6, bias=False), PLANES),
    (Linear(13, 5), (13,)),
    (Linear(13, 5, bias=False), (13,)),
    (BatchNorm2d(6), PLANES),
    (BatchNorm2d(6, eps=0.25, momentum=0.5), PLANES),
    (GroupNorm(1, 6), PLANES),
    (GroupNorm(3, 6, eps=0.5), PLANES),
    (GroupNorm(6, 6), PLANES),
    (ReLU(), PLANES),
    (ReLU(), (13,)),
    (LeakyReLU(), PLANES),
    (ELU(), PLANES),
    (ELU(0.5), (13,)),
    (LeakyReLU(-0.75), (13,)),
    (MaxPool2d((2, 2), (2, 2)), PLANES),
    (MaxPool2d((3, 2), (1, 3), (1, 1)), PLANES),
    (AvgPool2d((2, 2), (2, 2)), PLANES),
    (AvgPool2d((3, 4), (2, 1), (1, 2)), PLANES),
    (AvgPool2d((3, 4), (2, 1), (1, 2), count_include_pad=False), PLANES),
    (GlobalAvgPool(), PLANES),
    (Flatten(), PLANES),
    (Flatten(), (13,)),
    (Conv1d(6, 4, 3), SEQUENCE),
    (Conv1d(6, 6, 5, 2, 2, 2, 3, False), SEQUENCE),
    (ConvTranspose2d(6, 4, (3, 3)), PLANES),
    (ConvTranspose2d(6, 4, (3, 2), (2, 3), (1, 0), (1, 2), 2, False, (2, 1)), PLANES),
    (BatchNorm1d(6), SEQUENCE),
    (BatchNorm1d(13), (13,)),
    (BatchNorm2d(6, track_running_stats=False), PLANES),
    (BatchNorm1d(6, track_running_stats=False), SEQUENCE),
    (GroupNorm(6, 6), SEQUENCE),
    (LayerNorm((6, 9, 11)), PLANES),
    (LayerNorm((13,), 0.25), (13,)),
    (ReLU6(), PLANES),
    (PReLU(), PLANES),
    (PReLU(6), PLANES),
    (PReLU(6), SEQUENCE),
    (PReLU(13), (13,)),
    *((op, shape) for op in SMOOTH for shape in (PLANES, (13,))),
    (MaxPool1d(3, 2, 1), SEQUENCE),
    (AvgPool1d(3, 2, 1), SEQUENCE),
    (AvgPool1d(3, 2, 1, False), SEQUENCE),
    (GlobalAvgPool(), SEQUENCE),
    (AdaptiveAvgPool2d((3, 11)), PLANES),
    (AdaptiveAvgPool2d((4, 7)), PLANES),
    (AdaptiveAvgPool1d(8), SEQUENCE),
    (MaxPool2d((2, 3), (2, 2), ceil_mode=True), PLANES),
    (MaxPool2d((3, 2), (2, 4), (1, 1), True), PLANES),
    (AvgPool2d((2, 3), (2, 2), ceil_mode=True), PLANES),
    (AvgPool2d((4, 3), (4, 4), (1, 1), True, True), PLANES),
    (AvgPool2d((4, 3), (4, 4), (1, 1), False, True), PLANES),
    (MaxPool1d(3, 4, 1, True), SEQUENCE),
    (AvgPool1d(3, 4, 1, True, True), SEQUENCE),
    (AvgPool1d(4, 5, 0, False, True), SEQUENCE),
    (Dropout(0.5), PLANES),
    (Dropout1d(0.25), SEQUENCE),
    (Dropout2d(0.25), PLANES),
    (StochasticDepth(0.25), PLANES),
    (Scaler(2.5), PLANES),
    (Upsample((2, 3)), PLANES),
    (Upsample((1, 3)), SEQUENCE),
    (ZeroPad2d((1, 0, 2, 3)), PLANES),
    (Interpolate((5, 20)), PLANES),
    (Interpolate((9, 7), True), PLANES),
    (Interpolate((1, 30), True), SEQUENCE),
    (ReflectionPad2d((1, 0, 2, 3)), PLANES),
    (ReflectionPad2d((3, 2, 0, 0)), SEQUENCE),
    (ReplicationPad2d((0, 4, 0, 0)), PLANES),
    (CircularPad2d((0, 4, 2, 1)), PLANES),
    (Flip(), PLANES),
    (Flip(), SEQUENCE),
    (Linear(6, 5), PLANES),
    (Linear(6, 5, bias=False), SEQUENCE),
    (LayerNorm((6,)), PLANES),
    (LayerNorm((6,), 0.25), SEQUENCE),
    (Reshape((11, 3)), PLANES),
    (Reshape((2,)), SEQUENCE),
    (Permute((1, 0)), SEQUENCE),
    *((Permute(axes), PLANES) for axes in permutations(range(3))),
    (FlattenPlaces(), PLANES),
    (Slice(2, 5), SEQUENCE),
    (InputPart(2, (5,)), (13,)),
    (InputPart(1, (2, 2, 3)), (13,)),
    *((op(SEQUENCE[0], 7, bias), SEQUENCE) for op in (RNN, GRU, LSTM) for bias in (True, False)),
    (RNN(SEQUENCE[0], 7, relu=True), SEQUENCE),
    (SelfAttention(SEQUENCE[0], 3, 5), SEQUENCE),
    (SelfAttention(SEQUENCE[0], 4, 2, causal=True, bias=False), (SEQUENCE[0], 1, SEQUENCE[1])),
    (Attention(4, 2, 3, 0.5, causal=True, window=5), (24, 19)),
    (Attention(4, 1, 3, 0.7, p=0.5, bias=(2, 19, 19)), (18, 19)),
    (RMSNorm(6), SEQUENCE),
    (RMSNorm(3, 0.25, 1.0), PLANES),
    (RMSNorm(13), (13,)),
    (Rotary(2, 19), SEQUENCE),
    (Embedding(7, 5, 2), (13,)),
    (AddParameter((6,)), SEQUENCE),
    (AddParameter((19, 6), True, 1), SEQUENCE),
    (AddParameter((6, 9, 11)), PLANES),
    (AddParameter((9, 11, 6), True), PLANES),
    (Elementwise("where(a > 0.2, a * a, abs(a) + 1) / exp(a) - sqrt(abs(a))"), PLANES),
    (Elementwise("maximum(a, -0.5) * (a <= 0.5) + minimum(a, 1) * (a == 0)"), (13,)),
    (Elementwise("sin(a) + cos(a) - log(a * a + 1) ** 1.5 * (a != 1)"), SEQUENCE),
    *((Reduce(kind, axes), PLANES) for kind in ("sum", "mean", "max", "min") for axes in ((0,), (1, 2))),
    (MulParameter((6, 1, 1)), PLANES),
    (MulParameter((13,)), (13,)),
    (MulParameter((19, 6), True), SEQUENCE),
]


def graphs() -> Iterator[tuple[str, Graph]]:
    """Yield every setting of an operation by itself, sums, every built-in model, and random models."""
    for op, shape in CASES:
        last = () if len(op.output(shape)) == 1 else (Node("last", Flatten(), ("only.one",)),)
        yield f"{op} on {shape}", Graph(shape, (Node("only.one", op, (INPUT,)), *last))
    noise = (Node("noise", GaussianNoise(False), (INPUT,)), Node("output", Add(), ("noise", INPUT)))
    yield "noise of training", Graph((13,), noise)
    nodes = (Node("input.weight", ReLU(), (INPUT,)), Node("output", Add(), ("input.weight", INPUT)))
    yield "a sum, with names that others could take", Graph((13,), nodes)
    for name in ("gates", "maps", "skips", "recurrent", "attention"):
        yield name, GRAPHS[name]
    yield from (SHARED | COMPUTED).items()
    yield "adapters", add_adapters(base("pictures"), rank=2).graph
    for name, (shape, classes) in architectures.EXAMPLES.items():
        yield name, architectures.build(name, shape, classes)
    for seed in range(30):
        yield f"random {seed}", trial(seed).graph


def drawn(graph: Graph) -> Model:
    """The graph with parameters that are off their trivial start, norms' above all."""
    stream = rng.stream(5, rng.INIT)
    params = graph.init(stream)
    for value in params.values():
        if value.ndim == 1:
            value += (stream.uniform(value.size) * 0.5).astype(np.float32)
    return Model(graph, params)


def test_onnxruntime_gives_our_outputs_for_every_operation_and_model() -> None:
    seen: set[type[Operation]] = set()
    for name, graph in graphs():
        model = drawn(graph)
        content = to_onnx(model)
        onnx.checker.check_model(onnx.load_from_string(content), full_check=True)
        session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
        learner = GraphLearner(model)
        for batch in BATCHES:
            x = np.random.default_rng(batch).standard_normal((batch, *graph.input_shape)).astype(np.float32)
            x = x if graph.vocabulary is None else np.floor(np.abs(x)) % graph.vocabulary
            (found,) = session.run(["output"], {"input": x})
            expected = learner.predict(x).reshape(batch, *graph.output_shape)
            assert found.shape == expected.shape, name
            error = np.abs(found - expected).max() / np.abs(expected).max()
            assert error <= WITHIN, f"{name}, batch {batch}: {error:.3g} of the largest output"
        seen |= {type(node.op) for node in graph.nodes}
    assert seen == set(OPERATIONS.values()) == set(NODES)


def test_the_file_says_what_it_is() -> None:
    graph = architectures.build("digits_cnn", (1, 8, 8), 3)
    content = to_onnx(drawn(graph), classes=(2, 5, 7))
    written = onnx.load_from_string(content)
    assert [(each.domain, each.version) for each in written.opset_import] == [("", OPSET)] == [("", 17)]
    assert written.ir_version == 8
    for value, shape in ((written.graph.input[0], graph.input_shape), (written.graph.output[0], graph.output_shape)):
        batch, *rest = value.type.tensor_type.shape.dim
        assert batch.dim_param == "batch"
        assert tuple(each.dim_value for each in rest) == shape
    names = [each.name for each in written.graph.initializer]
    assert sorted(names) == sorted(graph.parameters())
    assert {each.key: json.loads(each.value) for each in written.metadata_props} == {"edgefl.classes": [2, 5, 7]}
    assert to_onnx(drawn(graph), classes=(2, 5, 7)) == content


class Cube(Operation):
    """No operation of ours."""


def test_what_has_no_form_in_onnx_is_named() -> None:
    graph = Graph((3,), (Node("strange", Cube(), (INPUT,)),))
    with pytest.raises(GraphError, match="node 'strange': edgefl does not write Cube to ONNX"):
        to_onnx(Model(graph, {}))


def test_it_is_written_without_torch_and_asks_for_onnx_in_one_sentence() -> None:
    script = "import sys; sys.modules['torch'] = None; import edgefl.study.export.onnx_nodes as o; print(len(o.NODES))"
    assert int(run(script).stdout) == len(NODES)
    lacking = run("import sys; sys.modules['onnx'] = None; import edgefl.study.export.onnx_nodes")
    message = "edgefl.study.export.onnx_nodes needs onnx, which is not installed; pip install onnx"
    assert lacking.stderr.splitlines()[-1] == f"ModuleNotFoundError: {message}"


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
