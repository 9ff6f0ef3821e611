"""Small graphs with computed parameters: every operation on parameters, chains, and sources with uses."""

from __future__ import annotations

from edgefl.models.graph import INPUT, Graph, Node
from edgefl.models.graph.computed_parameters import (
    ComputedParameter,
    ExchangedAxes,
    MatrixProduct,
    ParameterExpression,
    ParameterProduct,
    ParameterRows,
    ParameterSum,
    ReshapedParameter,
    ScaledParameter,
    StackedParameters,
    TransposedMatrix,
    WeightNorm,
)
from edgefl.models.graph.operations import (
    GRU,
    AddParameter,
    BatchNorm1d,
    Conv1d,
    Conv2d,
    Embedding,
    Flatten,
    GlobalAvgPool,
    Linear,
    ReLU,
    SelfAttention,
    Tanh,
)


def normed(layer: str, shape: tuple[int, ...]) -> ComputedParameter:
    """torch.nn.utils.weight_norm of a layer."""
    return ComputedParameter(f"{layer}.weight", WeightNorm(shape), (f"{layer}.weight_g", f"{layer}.weight_v"))


def _weight_norms() -> Graph:
    """A temporal convolution, as in TCN, above a convolution with neurons of its own."""
    nodes = (
        Node("first", Conv1d(3, 4, 1), (INPUT,)),
        Node("norm", BatchNorm1d(4), ("first",)),
        Node("relu", ReLU(), ("norm",)),
        Node("second", Conv1d(4, 6, 1), ("relu",)),
        Node("conv", Conv1d(6, 4, 3), ("second",)),
        Node("relu_1", ReLU(), ("conv",)),
        Node("flat", Flatten(), ("relu_1",)),
        Node("fc", Linear(24, 5), ("flat",)),
    )
    return Graph((3, 8), nodes, computed=(normed("conv", (4, 6, 3)), normed("fc", (5, 24))))


def _lora() -> Graph:
    """W + 2 B A with a frozen W, in a layer that is called twice."""
    computed = (
        ComputedParameter("fc.delta", MatrixProduct(6, 2, 6), ("fc.b", "fc.a")),
        ComputedParameter("fc.scaled", ScaledParameter((6, 6), 2.0), ("fc.delta",)),
        ComputedParameter("fc.weight", ParameterSum((6, 6)), ("fc.base", "fc.scaled")),
    )
    nodes = (
        Node("fc", Linear(6, 6), (INPUT,)),
        Node("tanh", Tanh(), ("fc",)),
        Node("fc_1", Linear(6, 6), ("tanh",), (("bias", "fc.bias"), ("weight", "fc.weight"))),
        Node("relu", ReLU(), ("fc_1",)),
        Node("head", Linear(6, 5), ("relu",)),
    )
    return Graph((6,), nodes, frozenset({"fc.base"}), computed)


def _fedpara() -> Graph:
    """(X1 Y1) * (X2 Y2) as the weight of a convolution."""
    computed = (
        ComputedParameter("conv.one", MatrixProduct(8, 3, 18), ("conv.x1", "conv.y1")),
        ComputedParameter("conv.turned", ExchangedAxes(1, 6, 3, 3), ("conv.y2",)),
        ComputedParameter("conv.flat", ReshapedParameter((1, 3, 6, 3), (3, 18)), ("conv.turned",)),
        ComputedParameter("conv.two", MatrixProduct(8, 3, 18), ("conv.x2", "conv.flat")),
        ComputedParameter("conv.both", ParameterProduct((8, 18)), ("conv.one", "conv.two")),
        ComputedParameter("conv.weight", ReshapedParameter((8, 18), (8, 2, 3, 3)), ("conv.both",)),
    )
    nodes = (
        Node("conv", Conv2d(2, 8, (3, 3)), (INPUT,)),
        Node("relu", ReLU(), ("conv",)),
        Node("mean", GlobalAvgPool(), ("relu",)),
        Node("flat", Flatten(), ("mean",)),
        Node("fc", Linear(8, 5), ("flat",)),
    )
    return Graph((2, 5, 5), nodes, computed=computed)


def _mirrored() -> Graph:
    """An autoencoder whose decoder has the transposed weight of its encoder, and a sum of a weight with itself."""
    computed = (
        ComputedParameter("up.weight", TransposedMatrix(4, 6), ("down.weight",)),
        ComputedParameter("fc.sum", ParameterSum((5, 6)), ("fc.part", "fc.part")),
        ComputedParameter("fc.weight", ParameterExpression((5, 6), "sin(a) + b * b"), ("fc.sum", "fc.other")),
    )
    nodes = (
        Node("down", Linear(6, 4), (INPUT,)),
        Node("tanh", Tanh(), ("down",)),
        Node("up", Linear(4, 6), ("tanh",)),
        Node("relu", ReLU(), ("up",)),
        Node("fc", Linear(6, 5), ("relu",)),
    )
    return Graph((6,), nodes, computed=computed)


def _parts() -> Graph:
    """Positions that are rows of a longer table, and attention with separate weights of queries, keys and values."""
    names = ("q", "k", "v")
    computed = (
        ComputedParameter("pos", ParameterRows((7, 4), 1, 5), ("table.weight",)),
        ComputedParameter(
            "heads.in_proj_weight", StackedParameters((4, 4, 4), (4,)), tuple(f"{n}.weight" for n in names)
        ),
        ComputedParameter("heads.in_proj_bias", StackedParameters((4, 4, 4), ()), tuple(f"{n}.bias" for n in names)),
        ComputedParameter("gru.weight_hh_l0", WeightNorm((12, 4)), ("gru.g", "gru.v")),
    )
    nodes = (
        Node("emb", Embedding(5, 4), (INPUT,)),
        Node("add", AddParameter((5, 4), channels_last=True), ("emb",), (("", "pos"),)),
        Node("heads", SelfAttention(4, 2, 2), ("add",)),
        Node("gru", GRU(4, 4), ("heads",)),
        Node("mean", GlobalAvgPool(), ("gru",)),
        Node("flat", Flatten(), ("mean",)),
        Node("fc", Linear(4, 5), ("flat",)),
    )
    return Graph((5,), nodes, computed=computed)


COMPUTED: dict[str, Graph] = {
    "weight_norms": _weight_norms(),
    "lora": _lora(),
    "fedpara": _fedpara(),
    "mirrored": _mirrored(),
    "parts": _parts(),
}
