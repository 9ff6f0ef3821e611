"""Small graphs that together hold every operation and every way in which a gradient can branch, for the learner's
tests.
"""

from __future__ import annotations

import numpy as np

from edgefl import rng
from edgefl.learning import Samples
from edgefl.learning.losses import CrossEntropy, Loss
from edgefl.models.graph import INPUT, Graph, Model, Node
from edgefl.models.graph.operations import (
    ELU,
    GELU,
    GRU,
    LSTM,
    RNN,
    AdaptiveAvgPool2d,
    Add,
    AddParameter,
    Attention,
    AvgPool1d,
    AvgPool2d,
    BatchNorm1d,
    BatchNorm2d,
    CircularPad2d,
    Concat,
    Conv1d,
    Conv2d,
    ConvTranspose2d,
    Elementwise,
    Embedding,
    Flatten,
    FlattenPlaces,
    Flip,
    GlobalAvgPool,
    GroupNorm,
    Hardsigmoid,
    Hardswish,
    Interpolate,
    LayerNorm,
    LeakyReLU,
    Linear,
    MaxPool1d,
    MaxPool2d,
    Mul,
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
    SelfAttention,
    Sigmoid,
    SiLU,
    Slice,
    Softplus,
    Tanh,
    Upsample,
    ZeroPad2d,
)

CLASSES = 5


def chain(shape: tuple[int, ...], *ops: tuple[str, Operation]) -> Graph:
    """Nodes one after the other."""
    names = [INPUT, *(name for name, _ in ops)]
    return Graph(shape, tuple(Node(name, op, (names[i],)) for i, (name, op) in enumerate(ops)))


def _plain() -> Graph:
    return chain(
        (3, 8, 8),
        ("conv1", Conv2d(3, 6, (3, 3), padding=(1, 1))),
        ("bn1", BatchNorm2d(6)),
        ("relu1", ReLU()),
        ("pool1", MaxPool2d((2, 2), (2, 2))),
        ("conv2", Conv2d(6, 8, (3, 3), padding=(1, 1))),
        ("bn2", BatchNorm2d(8)),
        ("relu2", ReLU()),
        ("pool2", MaxPool2d((2, 2), (2, 2))),
        ("flatten", Flatten()),
        ("fc1", Linear(32, 7, bias=False)),
        ("relu3", ReLU()),
        ("fc2", Linear(7, CLASSES)),
    )


def _groupnorm() -> Graph:
    return chain(
        (2, 7, 6),
        ("conv1", Conv2d(2, 6, (3, 2), (2, 1), (1, 1), bias=False)),
        ("gn1", GroupNorm(2, 6)),
        ("relu1", ReLU()),
        ("conv2", Conv2d(6, 8, (2, 3), padding=(2, 2), dilation=(2, 2))),
        ("gn2", GroupNorm(4, 8)),
        ("relu2", ReLU()),
        ("pool", AvgPool2d((3, 2), (2, 2), (1, 1), count_include_pad=False)),
        ("mean", GlobalAvgPool()),
        ("flatten", Flatten()),
        ("fc", Linear(8, CLASSES)),
    )


def _depthwise() -> Graph:
    return chain(
        (3, 6, 6),
        ("stem", Conv2d(3, 4, (1, 1))),
        ("relu0", ReLU()),
        ("depth", Conv2d(4, 8, (3, 3), padding=(1, 1), groups=4)),
        ("bn", BatchNorm2d(8)),
        ("relu1", ReLU()),
        ("point", Conv2d(8, 6, (1, 1))),
        ("pool", AvgPool2d((2, 2), (2, 2))),
        ("flatten", Flatten()),
        ("fc", Linear(54, CLASSES)),
    )


def _grouped() -> Graph:
    return chain(
        (2, 5, 5),
        ("conv1", Conv2d(2, 4, (3, 3), padding=(1, 1))),
        ("grouped", Conv2d(4, 6, (3, 3), (2, 2), (1, 1), groups=2)),
        ("relu", ReLU()),
        ("conv3", Conv2d(6, 4, (3, 3))),
        ("gn", GroupNorm(1, 4)),
        ("flatten", Flatten()),
        ("fc", Linear(4, CLASSES)),
    )


def _residual() -> Graph:
    """Build two blocks, the second with a convolution on its shortcut. They have norms of both kinds and overlapping
    pooling.
    """
    nodes = (
        Node("stem", Conv2d(3, 4, (3, 3), padding=(1, 1), bias=False), (INPUT,)),
        Node("bn0", BatchNorm2d(4), ("stem",)),
        Node("relu0", ReLU(), ("bn0",)),
        Node("pool0", MaxPool2d((3, 3), (2, 2), (1, 1)), ("relu0",)),
        Node("a.conv1", Conv2d(4, 4, (3, 3), padding=(1, 1)), ("pool0",)),
        Node("a.gn1", GroupNorm(2, 4), ("a.conv1",)),
        Node("a.relu1", ReLU(), ("a.gn1",)),
        Node("a.conv2", Conv2d(4, 4, (3, 3), padding=(1, 1)), ("a.relu1",)),
        Node("a.add", Add(), ("a.conv2", "pool0")),
        Node("a.relu2", ReLU(), ("a.add",)),
        Node("b.conv1", Conv2d(4, 6, (3, 3), (2, 2), (1, 1)), ("a.relu2",)),
        Node("b.bn1", BatchNorm2d(6), ("b.conv1",)),
        Node("b.short", Conv2d(4, 6, (1, 1), (2, 2)), ("a.relu2",)),
        Node("b.add", Add(), ("b.bn1", "b.short")),
        Node("b.relu", ReLU(), ("b.add",)),
        Node("mean", GlobalAvgPool(), ("b.relu",)),
        Node("flatten", Flatten(), ("mean",)),
        Node("fc", Linear(6, CLASSES), ("flatten",)),
    )
    return Graph((3, 8, 8), nodes)


def _fan_out() -> Graph:
    """Results read three times, a norm over a result that a sum reads too, and a sum of the input of a ReLU."""
    nodes = (
        Node("conv", Conv2d(1, 4, (3, 3)), (INPUT,)),
        Node("gn", GroupNorm(2, 4), ("conv",)),
        Node("sum1", Add(), ("conv", "gn")),
        Node("relu", ReLU(), ("sum1",)),
        Node("sum2", Add(), ("sum1", "relu")),
        Node("sum3", Add(), ("sum2", "conv")),
        Node("depth", Conv2d(4, 4, (3, 3), padding=(1, 1), groups=4, bias=False), ("sum3",)),
        Node("sum4", Add(), ("depth", "sum3")),
        Node("flatten", Flatten(), ("sum4",)),
        Node("fc", Linear(36, CLASSES), ("flatten",)),
    )
    return Graph((1, 5, 5), nodes)


def _mlp() -> Graph:
    return chain(
        (9,), ("fc1", Linear(9, 12)), ("relu1", ReLU()), ("fc2", Linear(12, 10)), ("relu2", ReLU()),
        ("fc3", Linear(10, CLASSES)),
    )  # fmt: skip


def _global_pool_output() -> Graph:
    """Logits that come from an average, and a parameter-free prefix."""
    return chain(
        (2, 6, 6),
        ("pool", MaxPool2d((2, 2), (2, 2))),
        ("relu", ReLU()),
        ("conv1", Conv2d(2, 4, (3, 3), padding=(1, 1))),
        ("relu1", ReLU()),
        ("conv2", Conv2d(4, CLASSES, (1, 1))),
        ("mean", GlobalAvgPool()),
    )


def _norm_first() -> Graph:
    return chain(
        (4, 4, 4),
        ("bn", BatchNorm2d(4)),
        ("gn", GroupNorm(2, 4)),
        ("conv", Conv2d(4, 4, (2, 2))),
        ("flatten", Flatten()),
        ("fc", Linear(36, CLASSES)),
    )


def _leaky() -> Graph:
    """Slopes of either sign and 0: after a norm, on a result that a sum reads too, over features."""
    nodes = (
        Node("conv1", Conv2d(2, 6, (3, 3), padding=(1, 1)), (INPUT,)),
        Node("bn", BatchNorm2d(6), ("conv1",)),
        Node("leaky1", LeakyReLU(0.3), ("bn",)),
        Node("conv2", Conv2d(6, 6, (3, 3), padding=(1, 1)), ("leaky1",)),
        Node("leaky2", LeakyReLU(-0.2), ("conv2",)),
        Node("sum", Add(), ("leaky2", "conv2")),
        Node("flatten", Flatten(), ("sum",)),
        Node("fc1", Linear(150, 9), ("flatten",)),
        Node("leaky3", LeakyReLU(), ("fc1",)),
        Node("fc2", Linear(9, 7), ("leaky3",)),
        Node("leaky4", LeakyReLU(0.0), ("fc2",)),
        Node("fc3", Linear(7, CLASSES), ("leaky4",)),
    )
    return Graph((2, 5, 5), nodes)


def _gates() -> Graph:
    """Squeeze and excitation, a product of two results, smooth activations after a norm and over features."""
    nodes = (
        Node("stem", Conv2d(2, 6, (3, 3), padding=(1, 1), bias=False), (INPUT,)),
        Node("bn", BatchNorm2d(6), ("stem",)),
        Node("swish", Hardswish(), ("bn",)),
        Node("mean", GlobalAvgPool(), ("swish",)),
        Node("squeeze", Conv2d(6, 3, (1, 1)), ("mean",)),
        Node("silu", SiLU(), ("squeeze",)),
        Node("excite", Conv2d(3, 6, (1, 1)), ("silu",)),
        Node("gate", Hardsigmoid(), ("excite",)),
        Node("gated", Mul(), ("swish", "gate")),
        Node("one", Conv2d(6, 5, (1, 1)), ("gated",)),
        Node("other", Conv2d(6, 5, (1, 1)), ("gated",)),
        Node("tanh", Tanh(), ("other",)),
        Node("product", Mul(), ("one", "tanh")),
        Node("relu6", ReLU6(), ("product",)),
        Node("flatten", Flatten(), ("relu6",)),
        Node("fc1", Linear(125, 8), ("flatten",)),
        Node("gelu", GELU("tanh"), ("fc1",)),
        Node("fc2", Linear(8, CLASSES), ("gelu",)),
    )
    return Graph((2, 5, 5), nodes)


def _maps() -> Graph:
    """A gate for each place of an image, which a layer of one channel computes, and ELUs."""
    nodes = (
        Node("stem", Conv2d(2, 6, (3, 3), padding=(1, 1)), (INPUT,)),
        Node("elu", ELU(1.5), ("stem",)),
        Node("look", Conv2d(6, 1, (3, 3), padding=(1, 1)), ("elu",)),
        Node("gate", Sigmoid(), ("look",)),
        Node("gated", Mul(), ("elu", "gate")),
        Node("conv", Conv2d(6, 4, (1, 1)), ("gated",)),
        Node("elu2", ELU(), ("conv",)),
        Node("flatten", Flatten(), ("elu2",)),
        Node("fc", Linear(100, CLASSES), ("flatten",)),
    )
    return Graph((2, 5, 5), nodes)


def _expressions() -> Graph:
    """Expressions of planes and of features, broadcast over channels, places and rows; reductions of every kind."""
    nodes = (
        Node("stem", Conv2d(2, 6, (3, 3), padding=(1, 1)), (INPUT,)),
        Node("other", Conv2d(2, 6, (3, 3), padding=(1, 1)), (INPUT,)),
        Node("mean", Reduce("mean", (0,)), ("stem",)),
        Node("spread", Elementwise("(a - b) * (a - b)"), ("stem", "mean")),
        Node("energy", Reduce("mean", (0,)), ("spread",)),
        Node("normal", Elementwise("(a - b) / sqrt(c + 0.1)"), ("stem", "mean", "energy")),
        Node("top", Reduce("max", (1, 2)), ("other",)),
        Node("rows", Reduce("sum", (2,)), ("other",)),
        Node("mixed", Elementwise("where(a > b, a * b, c) + exp(minimum(a, 1.5)) / 4"), ("normal", "rows", "top")),
        Node("conv", Conv2d(6, 4, (1, 1)), ("mixed",)),
        Node("flatten", Flatten(), ("conv",)),
        Node("fc1", Linear(100, 7), ("flatten",)),
        Node("fc2", Linear(100, 7), ("flatten",)),
        Node("least", Reduce("min", (0,)), ("fc2",)),
        Node("gate", Elementwise("log(1 + abs(a)) * cos(b) - sin(a * c)"), ("fc1", "fc2", "least")),
        Node("out", Linear(7, CLASSES), ("gate",)),
    )
    return Graph((2, 5, 5), nodes)


def _skips() -> Graph:
    """Down and up again, with results side by side: of the input, of two layers, and of such results again."""
    nodes = (
        Node("pad", ZeroPad2d((1, 0, 0, 1)), (INPUT,)),
        Node("down1", Conv2d(2, 4, (2, 2)), ("pad",)),
        Node("softplus", Softplus(2.0, 3.0), ("down1",)),
        Node("pool", MaxPool2d((2, 2), (2, 2)), ("softplus",)),
        Node("down2", Conv2d(4, 6, (3, 3), padding=(1, 1)), ("pool",)),
        Node("prelu", PReLU(6), ("down2",)),
        Node("both", Concat(), ("prelu", "pool")),
        Node("mix", Conv2d(10, 4, (1, 1)), ("both",)),
        Node("up", ConvTranspose2d(4, 5, (3, 3), (2, 2), (1, 1), (1, 1)), ("mix",)),
        Node("sigmoid", Sigmoid(), ("up",)),
        Node("near", Upsample((2, 2)), ("pool",)),
        Node("all", Concat(), ("sigmoid", INPUT, "near")),
        Node("prelu1", PReLU(), ("all",)),
        Node("bn", BatchNorm2d(11), ("prelu1",)),
        Node("last", Conv2d(11, 3, (1, 1), bias=False), ("bn",)),
        Node("edge", ReplicationPad2d((1, 1, 0, 2)), ("last",)),
        Node("fewer", Interpolate((6, 5)), ("edge",)),
        Node("mirror", ReflectionPad2d((2, 0, 1, 1)), ("fewer",)),
        Node("turn", Flip(), ("mirror",)),
        Node("more", Interpolate((9, 8), True), ("turn",)),
        Node("around", CircularPad2d((0, 1, 1, 0)), ("more",)),
        Node("mean", AdaptiveAvgPool2d((5, 3)), ("around",)),
        Node("flatten", Flatten(), ("mean",)),
        Node("fc", Linear(45, CLASSES), ("flatten",)),
    )
    return Graph((2, 6, 6), nodes)


def _sequence() -> Graph:
    """Build layers along [channels, length], with a norm over all outputs of a layer."""
    return chain(
        (3, 20),
        ("conv1", Conv1d(3, 6, 5, 2, 2)),
        ("tanh1", Tanh()),
        ("bn1", BatchNorm1d(6)),
        ("relu1", ReLU()),
        ("conv2", Conv1d(6, 8, 3, padding=2, dilation=2, bias=False)),
        ("norm2", LayerNorm((8, 10))),
        ("gelu", GELU()),
        ("pool", MaxPool1d(2, 2)),
        ("depth", Conv1d(8, 8, 3, padding=1, groups=8)),
        ("mean", AvgPool1d(3, 1, 1)),
        ("flatten", Flatten()),
        ("fc1", Linear(40, 9)),
        ("bn2", BatchNorm1d(9)),
        ("relu2", ReLU()),
        ("fc2", Linear(9, 7)),
        ("norm3", LayerNorm((7,))),
        ("elu", SiLU()),
        ("fc3", Linear(7, CLASSES)),
    )


def _moments() -> Graph:
    """Features at each of ten moments, as a transformer has them, and a mixture over the moments."""
    nodes = (
        Node("turned", Permute((1, 0)), (INPUT,)),
        Node("embed", Linear(3, 6), ("turned",)),
        Node("norm1", LayerNorm((6,)), ("embed",)),
        Node("up", Linear(6, 9), ("norm1",)),
        Node("gelu", GELU(), ("up",)),
        Node("down", Linear(9, 6, bias=False), ("gelu",)),
        Node("sum", Add(), ("embed", "down")),
        Node("narrow", Linear(6, 5), ("sum",)),
        Node("norm2", LayerNorm((5,)), ("narrow",)),
        Node("late", Slice(3, 6), ("norm2",)),
        Node("by_moment", Permute((1, 0)), ("late",)),
        Node("mix", Linear(6, 4), ("by_moment",)),
        Node("tanh", Tanh(), ("mix",)),
        Node("back", Permute((1, 0)), ("tanh",)),
        Node("one", Linear(5, 7), ("back",)),
        Node("flatten", FlattenPlaces(), ("one",)),
        Node("fc", Linear(28, CLASSES), ("flatten",)),
    )
    return Graph((10, 3), nodes)


def _cells() -> Graph:
    """Build a Linear layer and a norm at each cell of planes, as in ConvNeXt. Planes become sequences, and features
    planes.
    """
    return chain(
        (4, 6, 2),
        ("turned", Permute((2, 1, 0))),
        ("conv", Conv2d(2, 5, (3, 2))),
        ("norm", LayerNorm((5,))),
        ("up", Linear(5, 8)),
        ("silu", SiLU()),
        ("down", Linear(8, 6)),
        ("rows", Permute((0, 2, 1))),
        ("line", Reshape((12,))),
        ("conv1", Conv1d(6, 4, 3, 2)),
        ("flatten", Flatten()),
        ("fc1", Linear(20, 12)),
        ("planes", Reshape((2, 2))),
        ("conv2", Conv2d(3, 4, (2, 1))),
        ("places", FlattenPlaces()),
        ("fc2", Linear(8, CLASSES)),
    )


def _recurrent() -> Graph:
    """Sensors, states that a sum reads too, and the mean over time."""
    nodes = (
        Node("conv", Conv1d(3, 6, 3, 2, 1), (INPUT,)),
        Node("gru", GRU(6, 9), ("conv",)),
        Node("lstm", LSTM(9, 7, bias=False), ("gru",)),
        Node("mix", Conv1d(9, 7, 1), ("gru",)),
        Node("sum", Add(), ("lstm", "mix")),
        Node("turned", Flip(), ("sum",)),
        Node("rnn", RNN(7, 6, relu=True), ("turned",)),
        Node("rnn2", RNN(6, 7, bias=False), ("rnn",)),
        Node("both", Add(), ("rnn2", "sum")),
        Node("lstm2", LSTM(7, 5), ("both",)),
        Node("mean", GlobalAvgPool(), ("lstm2",)),
        Node("flatten", Flatten(), ("mean",)),
        Node("fc", Linear(5, CLASSES), ("flatten",)),
    )
    return Graph((3, 14), nodes)


def _attention() -> Graph:
    """Build heads whose outputs a layer and a sum read, on the input and on trained layers, with a GRU on top."""
    nodes = (
        Node("first", SelfAttention(4, 3, 2, causal=True), (INPUT,)),
        Node("first.out_proj", Conv1d(6, 8, 1), ("first",)),
        Node("second", SelfAttention(8, 4, 2, bias=False), ("first.out_proj",)),
        Node("sum", Add(), ("second", "first.out_proj")),
        Node("third", SelfAttention(8, 2, 5), ("sum",)),
        Node("gru", GRU(10, 4, bias=False), ("third",)),
        Node("flatten", Flatten(), ("gru",)),
        Node("fc", Linear(36, CLASSES), ("flatten",)),
    )
    return Graph((4, 9), nodes)


def _text() -> Graph:
    """Two tables of words' features, one of them with a row that is not trained."""
    nodes = (
        Node("words", Embedding(7, 6, 2), (INPUT,)),
        Node("other", Embedding(9, 5), (INPUT,)),
        Node("position", AddParameter((12, 6), True, 1), ("words",)),
        Node("both", Concat(), ("position", "other")),
        Node("norm", LayerNorm((11,)), ("both",)),
        Node("conv", Conv1d(11, 6, 3), ("norm",)),
        Node("relu", ReLU(), ("conv",)),
        Node("largest", MaxPool1d(10, 10), ("relu",)),
        Node("flatten", Flatten(), ("largest",)),
        Node("fc", Linear(6, CLASSES), ("flatten",)),
    )
    return Graph((12,), nodes)


def _standing() -> Graph:
    """Parameters that are added and multiplied by themselves: for each channel, and for each value in both orders."""
    nodes = (
        Node("conv", Conv2d(2, 5, (2, 3)), (INPUT,)),
        Node("scale", MulParameter((5, 1, 1)), ("conv",)),
        Node("each", MulParameter((5, 4, 2)), ("scale",)),
        Node("sum", Add(), ("each", "conv")),
        Node("last", AddParameter((4, 2, 5), True), ("sum",)),
        Node("line", Reshape((8,)), ("last",)),
        Node("embed", Linear(5, 6), ("line",)),
        Node("position", AddParameter((8, 6), True, 1), ("embed",)),
        Node("turned", MulParameter((8, 6), True), ("position",)),
        Node("offset", AddParameter((6,)), ("turned",)),
        Node("relu", ReLU(), ("offset",)),
        Node("all", Add(), ("relu", "embed")),
        Node("places", AddParameter((6, 8)), ("all",)),
        Node("flatten", FlattenPlaces(), ("places",)),
        Node("gain", MulParameter((48,)), ("flatten",)),
        Node("fc", Linear(48, CLASSES), ("gain",)),
    )
    return Graph((2, 5, 4), nodes)


def _transformer() -> Graph:
    """Build attention whose heads share keys, with norms, rotary positions and a gate, and with three parts of one
    layer.
    """
    nodes = (
        Node("norm", RMSNorm(4, offset=1.0), (INPUT,)),
        Node("q", Linear(4, 24), ("norm",)),
        Node("k", Linear(4, 12, bias=False), ("norm",)),
        Node("v", Linear(4, 12), ("norm",)),
        Node("q_norm", RMSNorm(6, 1e-5), ("q",)),
        Node("q_turned", Rotary(6, 9), ("q_norm",)),
        Node("k_turned", Rotary(6, 9), ("k",)),
        Node("qkv", Concat(), ("q_turned", "k_turned", "v")),
        Node("heads", Attention(4, 2, 6, 0.5, causal=True, window=4), ("qkv",)),
        Node("out", Linear(24, 10), ("heads",)),
        Node("inner", RMSNorm(10), ("out",)),
        Node("gate", Linear(10, 7), ("inner",)),
        Node("silu", SiLU(), ("gate",)),
        Node("up", Linear(10, 7), ("inner",)),
        Node("gated", Mul(), ("silu", "up")),
        Node("down", Linear(7, 10), ("gated",)),
        Node("sum", Add(), ("down", "out")),
        Node("three", Linear(10, 18), ("sum",)),
        Node("biased", Attention(3, 3, 2, 0.7, bias=(1, 9, 9)), ("three",)),
        Node("flatten", Flatten(), ("biased",)),
        Node("fc", Linear(54, CLASSES), ("flatten",)),
    )
    return Graph((4, 9), nodes)


GRAPHS: dict[str, Graph] = {
    "standing": _standing(),
    "text": _text(),
    "moments": _moments(),
    "cells": _cells(),
    "gates": _gates(),
    "skips": _skips(),
    "line": _sequence(),
    "recurrent": _recurrent(),
    "attention": _attention(),
    "transformer": _transformer(),
    "plain": _plain(),
    "groupnorm": _groupnorm(),
    "depthwise": _depthwise(),
    "grouped": _grouped(),
    "residual": _residual(),
    "fan_out": _fan_out(),
    "mlp": _mlp(),
    "global_pool_output": _global_pool_output(),
    "norm_first": _norm_first(),
    "leaky": _leaky(),
    "maps": _maps(),
    "expressions": _expressions(),
}


def model(graph: Graph, seed: int = 0) -> Model:
    """Return the graph with fresh parameters. Norms and rotary positions are moved off their trivial start so that
    mistakes there show.
    """
    stream = rng.stream(seed, rng.INIT)
    params = graph.init(stream)
    for name, value in params.items():
        if value.ndim == 1 or name.endswith(("bias", ".cos", ".sin")):
            value += (stream.uniform(value.size) * 0.5).astype(np.float32).reshape(value.shape)
    return Model(graph, params)


def samples(
    graph: Graph,
    count: int,
    seed: int = 0,
    dtype: type = np.float32,
    classes: int = CLASSES,
    loss: Loss = CrossEntropy(),  # noqa: B008
) -> Samples:
    """Normally distributed inputs that are exact in float32, and labels or targets."""
    draw = np.random.default_rng(seed)
    x = draw.standard_normal((count, *graph.input_shape)).astype(np.float32).astype(dtype)
    if graph.vocabulary is not None:
        x = np.floor(np.abs(x) * graph.vocabulary / 2) % graph.vocabulary
    y = targets(loss, draw, count, classes)
    return Samples(x, y if loss.has_labels else y.astype(dtype), loss=loss)


def targets(loss: Loss, draw: np.random.Generator, count: int, outputs: int) -> np.ndarray:
    """Labels, right or wrong, or any numbers, as the loss has them."""
    if loss.has_labels:
        return draw.integers(0, outputs, count).astype(np.int32)
    values = draw.standard_normal((count, outputs)).astype(np.float32)
    return (values > 0).astype(np.float32) if loss.decisions(outputs) else values
