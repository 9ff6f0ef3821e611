"""Small graphs whose nodes share parameters, in every way in which the gradients of the uses can meet."""

from __future__ import annotations

from edgefl.models.graph import INPUT, Graph, Node
from edgefl.models.graph.operations import (
    LSTM,
    Add,
    AddParameter,
    BatchNorm2d,
    Conv2d,
    ConvTranspose2d,
    Embedding,
    Flatten,
    GlobalAvgPool,
    GroupNorm,
    LayerNorm,
    Linear,
    MaxPool2d,
    Operation,
    PReLU,
    ReLU,
    SelfAttention,
    Slice,
    Tanh,
    Upsample,
)

Step = tuple[str, Operation] | tuple[str, Operation, str]


def named(op: Operation, layer: str) -> tuple[tuple[str, str], ...]:
    """The names of all parameters of a further call of a layer."""
    return tuple(sorted((part, f"{layer}.{part}" if part else layer) for part in op.parameters()))


def chain(shape: tuple[int, ...], *steps: Step) -> Graph:
    """Nodes one after the other. A step with a third entry is a further call of the layer of this name."""
    nodes, last = [], INPUT
    for name, op, *layer in steps:
        nodes.append(Node(name, op, (last,), named(op, layer[0]) if layer else ()))
        last = name
    return Graph(shape, tuple(nodes))


def _tied() -> Graph:
    """A head whose weight is the table of the embedding, as in language models."""
    nodes = (
        Node("emb", Embedding(5, 6), (INPUT,)),
        Node("pos", AddParameter((4, 6), channels_last=True), ("emb",)),
        Node("mean", GlobalAvgPool(), ("pos",)),
        Node("flat", Flatten(), ("mean",)),
        Node("head", Linear(6, 5), ("flat",), (("weight", "emb.weight"),)),
    )
    return Graph((4,), nodes)


def _branches() -> Graph:
    conv, norm = Conv2d(4, 4, (3, 3), padding=(1, 1)), BatchNorm2d(4)
    nodes = (
        Node("first", Conv2d(2, 4, (3, 3), padding=(1, 1)), (INPUT,)),
        Node("act", PReLU(4), ("first",)),
        Node("conv", conv, ("act",)),
        Node("norm", norm, ("conv",)),
        Node("relu", ReLU(), ("norm",)),
        Node("pooled", MaxPool2d((2, 2), (2, 2)), ("act",)),
        Node("conv_half", conv, ("pooled",), named(conv, "conv")),
        Node("norm_half", norm, ("conv_half",), (("bias", "norm.bias"), ("weight", "norm.weight"))),
        Node("act_half", PReLU(4), ("norm_half",), named(PReLU(4), "act")),
        Node("whole", Upsample((2, 2)), ("act_half",)),
        Node("sum", Add(), ("relu", "whole")),
        Node("mean", GlobalAvgPool(), ("sum",)),
        Node("flat", Flatten(), ("mean",)),
        Node("fc", Linear(4, 5), ("flat",)),
    )
    return Graph((2, 6, 6), nodes)


def _again() -> Graph:
    """A Linear layer that is called twice, one call on the result of the other."""
    twice = Linear(8, 8)
    return chain(
        (6,),
        ("first", Linear(6, 8)),
        ("relu", ReLU()),
        ("twice", twice),
        ("tanh", Tanh()),
        ("twice_1", twice, "twice"),
        ("relu_1", ReLU()),
        ("fc", Linear(8, 5)),
    )


def _steps() -> Graph:
    """An LSTM, attention, its projection, a LayerNorm and added positions, each with two calls."""
    lstm, heads, out, norm, pos = (
        LSTM(4, 4),
        SelfAttention(4, 2, 2),
        Linear(4, 4),
        LayerNorm((4,)),
        AddParameter((5, 4), True),
    )
    return chain(
        (4, 5),
        ("first", Linear(4, 4)),
        ("pos", pos),
        ("lstm", lstm),
        ("norm", norm),
        ("heads", heads),
        ("out", out),
        ("pos_1", pos, "pos"),
        ("lstm_1", lstm, "lstm"),
        ("norm_1", norm, "norm"),
        ("heads_1", heads, "heads"),
        ("out_1", out, "out"),
        ("end", Slice(4, 1)),
        ("flat", Flatten()),
        ("out_2", out, "out"),
        ("fc", Linear(4, 5)),
    )


def _mirror() -> Graph:
    """A transposed convolution with the weight of the first convolution, and a depthwise one that is called twice."""
    deep, norm = Conv2d(6, 6, (3, 3), padding=(1, 1), groups=6), GroupNorm(2, 6)
    nodes = (
        Node("conv", Conv2d(2, 6, (3, 3)), (INPUT,)),
        Node("norm", norm, ("conv",)),
        Node("relu", ReLU(), ("norm",)),
        Node("deep", deep, ("relu",)),
        Node("norm_1", norm, ("deep",), named(norm, "norm")),
        Node("deep_1", deep, ("norm_1",), named(deep, "deep")),
        Node("back", ConvTranspose2d(6, 2, (3, 3)), ("deep_1",), (("weight", "conv.weight"),)),
        Node("flat", Flatten(), ("back",)),
        Node("fc", Linear(32, 5), ("flat",)),
    )
    return Graph((2, 4, 4), nodes)


SHARED: dict[str, Graph] = {
    "tied": _tied(),
    "branches": _branches(),
    "again": _again(),
    "steps": _steps(),
    "mirror": _mirror(),
}
