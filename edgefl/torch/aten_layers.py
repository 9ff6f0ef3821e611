"""The table ATEN_LAYERS: layers for ATen operations that read parameters.

A layer is one of torch's modules without values. module_table.py and sequence_table.py say what it means in a graph.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx, nn

from edgefl.errors import GraphError
from edgefl.torch.aten_lifting import Entry, Lifting
from edgefl.torch.code_lines import packet

BARE: dict[str, Any] = {"device": "meta"}


def _linear(lift: Lifting, input: fx.Node, weight: Any, bias: Any = None) -> Any:
    if not lift.is_value(input) or lift.is_value(weight):
        raise GraphError("a weight that depends on the input; expected a parameter")
    out, features = weight.meta["val"].shape
    return lift.layer(
        nn.Linear(features, out, bias is not None, **BARE), {"weight": weight, "bias": bias}, lift.lifted(input)
    )


def _product(lift: Lifting, input: Any, other: Any) -> Any:
    """Return a Linear layer for the product with a transposed parameter."""
    if isinstance(other, fx.Node) and str(other.target) in ("aten.t.default", "aten.transpose.int"):
        source = other.args[0]
        if lift.is_value(input) and lift.is_parameter(source) and other.meta["val"].dim() == 2:
            return _linear(lift, input, source)
    if lift.is_value(input) and lift.is_parameter(other) and other.meta["val"].dim() == 2:
        return _turned(lift, input, other, None)
    raise GraphError("a product of two results; expected F.linear(x, weight)")


def _turned(lift: Lifting, input: fx.Node, weight: fx.Node, bias: Any) -> Any:
    """Return a Linear layer whose weight is a transposed parameter [inputs, outputs]."""
    features, out = weight.meta["val"].shape
    layer = nn.Linear(features, out, bias is not None, **BARE)
    return lift.layer(layer, {"weight": lift.transposed(weight), "bias": bias}, lift.lifted(input))


def _sum_with_product(lift: Lifting, bias: Any, input: Any, weight: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    if (
        (beta, alpha) != (1, 1)
        or not lift.is_value(input)
        or not (lift.is_parameter(weight) and lift.is_parameter(bias))
    ):
        raise GraphError("torch.addmm of another form; expected bias + x @ weight with two parameters")
    return _turned(lift, input, weight, bias)


def _convolution(kind: type[nn.Conv1d] | type[nn.Conv2d]) -> Entry:
    def entry(
        lift: Lifting, input: fx.Node, weight: fx.Node, bias: Any = None, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1,
    ) -> Any:  # fmt: skip
        out, each, *window = weight.meta["val"].shape
        settings = (_pair(stride, window), _pair(padding, window), _pair(dilation, window))
        module = kind(each * groups, out, tuple(window), *settings, groups, bias is not None, **BARE)
        return lift.layer(module, {"weight": weight, "bias": bias}, lift.lifted(input))

    return entry


def _transposed_convolution(
    lift: Lifting, input: fx.Node, weight: fx.Node, bias: Any = None, stride: Any = 1, padding: Any = 0,
    output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
) -> Any:  # fmt: skip
    channels, each, *window = weight.meta["val"].shape
    settings = [_pair(value, window) for value in (stride, padding, output_padding)]
    sizes = (channels, each * groups, tuple(window))
    rest: Any = (*settings, groups, bias is not None, _pair(dilation, window))
    module = nn.ConvTranspose2d(*sizes, *rest, **BARE)
    return lift.layer(module, {"weight": weight, "bias": bias}, lift.lifted(input))


def _pair(value: Any, window: list[int]) -> Any:
    """Return a setting for each axis of a window. Torch also takes one number, or a list of one."""
    if isinstance(value, str):
        return value
    values = (value,) if isinstance(value, int) else tuple(value)
    return values * len(window) if len(values) == 1 else values


def _batch_norm(
    lift: Lifting, input: fx.Node, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, momentum: float,
    eps: float, cudnn: bool = False,
) -> Any:  # fmt: skip
    features, tracks = int(input.meta["val"].shape[1]), mean is not None and variance is not None
    kind = nn.BatchNorm2d if input.meta["val"].dim() == 4 else nn.BatchNorm1d
    module = kind(features, eps, momentum, True, tracks, **BARE)
    affine = _affine(weight, bias, (features,))
    parts = {"weight": affine[0], "bias": affine[1], "running_mean": mean, "running_var": variance}
    if not training and tracks:
        lift.kept |= {lift.parameter_name(mean), lift.parameter_name(variance)}
    return lift.layer(module, parts, lift.lifted(input))


def _layer_norm(
    lift: Lifting, input: fx.Node, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5,
    cudnn: bool = False,
) -> Any:  # fmt: skip
    weight, bias = _affine(weight, bias, tuple(shape))
    module = nn.LayerNorm(list(shape), eps, **BARE)
    return lift.layer(module, {"weight": weight, "bias": bias}, lift.lifted(input))


def _group_norm(
    lift: Lifting, input: fx.Node, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5,
    cudnn: bool = False,
) -> Any:  # fmt: skip
    channels = input.meta["val"].shape[1]
    weight, bias = _affine(weight, bias, (channels,))
    module = nn.GroupNorm(groups, channels, eps, **BARE)
    return lift.layer(module, {"weight": weight, "bias": bias}, lift.lifted(input))


def _instance_norm(
    lift: Lifting, input: fx.Node, weight: Any, bias: Any, mean: Any, variance: Any, use_input_stats: bool,
    momentum: float, eps: float, cudnn: bool = False,
) -> Any:  # fmt: skip
    if mean is not None or variance is not None or not use_input_stats:
        raise GraphError("running statistics of an instance norm; expected track_running_stats=False")
    return _group_norm(lift, input, int(input.meta["val"].shape[1]), weight, bias, eps)


def _affine(weight: Any, bias: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Return the weight and the bias of a norm. A missing weight is constant at 1, and a missing bias at 0."""
    return (torch.ones(shape) if weight is None else weight, torch.zeros(shape) if bias is None else bias)


def _prelu(lift: Lifting, input: fx.Node, weight: fx.Node) -> Any:
    return lift.layer(nn.PReLU(weight.meta["val"].numel(), **BARE), {"weight": weight}, lift.lifted(input))


def _embedding(
    lift: Lifting, weight: fx.Node, indices: fx.Node, padding_idx: int = -1, scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:  # fmt: skip
    rows, features = weight.meta["val"].shape
    row = padding_idx if padding_idx >= 0 else None
    if lift.is_value(indices):
        settings = {"scale_grad_by_freq": scale_grad_by_freq, "sparse": sparse}
        module = nn.Embedding(rows, features, row, **settings, **BARE)  # type: ignore[arg-type]
        return lift.layer(module, {"weight": weight}, lift.lifted(indices))
    raise GraphError(f"rows of a table of {rows} at constant ids; expected a parameter of the rows that are used")


def _embedding_bag(
    lift: Lifting, weight: fx.Node, indices: fx.Node, offsets: Any, scale_grad_by_freq: bool = False, mode: int = 0,
    sparse: bool = False, per_sample_weights: Any = None, include_last_offset: bool = False, padding_idx: Any = None,
) -> Any:  # fmt: skip
    """Return the sum, the mean or the maximum of the rows that the ids [batch, bag] name, for each example."""
    ids = indices.args[0] if packet(indices) in ("reshape", "view", "flatten") else None
    if not isinstance(ids, fx.Node) or not lift.is_value(ids) or ids.meta["val"].dim() != 2:
        raise GraphError("an EmbeddingBag with offsets; expected ids [batch, bag], and no offsets")
    if per_sample_weights is not None or padding_idx not in (None, -1):
        raise GraphError("an EmbeddingBag with weights of ids or a padding_idx; expected neither of them")
    count, rows = int(ids.meta["val"].shape[1]), _embedding(lift, weight, ids, -1, scale_grad_by_freq, sparse)
    if count == 1:
        found = lift.call(torch.select, rows, 1, 0)
    elif mode == BAG_OF_MAXIMA:
        found = lift.call(torch.amax, rows, 1)
    else:
        found = lift.call(torch.mean, rows, 1)
        found = found if mode else lift.call(torch.mul, found, lift.constant(torch.tensor(float(count))))
    lift.several[lift.node] = (found,)
    return found


BAG_OF_MAXIMA = 2  # torch's number of the mode

ATEN_LAYERS: dict[str, Entry] = {
    "linear": _linear,
    "matmul": _product,
    "mm": _product,
    "addmm": _sum_with_product,
    "conv1d": _convolution(nn.Conv1d),
    "conv2d": _convolution(nn.Conv2d),
    "conv_transpose2d": _transposed_convolution,
    "batch_norm": _batch_norm,
    "layer_norm": _layer_norm,
    "group_norm": _group_norm,
    "instance_norm": _instance_norm,
    "prelu": _prelu,
    "embedding": _embedding,
    "embedding_bag": _embedding_bag,
}
"""The layers for ATen operations, by the name of the operation without its overload."""
