"""Bounds of the error of a float32 kernel against the float64 reference.

A sum of n terms computed in float32 in any order errs by at most about n eps sum |terms|, and by about sqrt(n) eps sum
terms| when roundings are independent (Higham, Accuracy and Stability of Numerical Algorithms, section 4.2). The bound
here is this square root with room for the few roundings outside the sum:

    |error| <= eps (4 + 2 sqrt(n)) magnitude,    eps = 2^-24,  magnitude = the same formula on absolute values

So a kernel that drops, repeats or misplaces one ordinary term fails. Operations that only move or compare values have
no entry, because their results are exact. An operation of the family activation needs no entry if a few roundings
suffice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from edgefl.kernels import reference
from edgefl.kernels.reference.sdpa import kept_factors, masked_scores, shared_parts
from edgefl.kernels.reference.stored_weight import stored_weight
from edgefl.kernels.table import FAMILIES, TABLE

from .cases import Args, Array

EPS = 2.0**-24
Bounds = dict[str, Array]


def bounds(op: str, before: Args, after: Args) -> Bounds:
    """Return absolute error bounds per output. `before` and `after` are the reference's float64 arguments around the
    call.
    """
    if op in LINEAR:
        name, terms = LINEAR[op]
        return {name: growth(terms(before)) * _on_absolute_values(op, before)[name]}
    if op in OTHERS:
        return OTHERS[op](before, after)
    return of_activation(before, after) if TABLE[op] in FAMILIES["activation"] else {}


def growth(terms: float) -> float:
    return EPS * (4 + 2 * math.sqrt(terms))


def _absolute(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype == np.float64:
        return np.abs(value)
    return abs(value) if isinstance(value, float) else value


def _on_absolute_values(op: str, before: Args) -> Args:
    args = {name: _absolute(value) for name, value in before.items()}
    getattr(reference, op)(**args)
    return args


def _inner(array: Array) -> int:
    return len(array) * math.prod(array.shape[2:])


def _window(args: Args) -> int:
    return math.prod(args["kernel"])


def _adaptive(source: Array, result: Array) -> int:
    """Cells of a window, or windows of a cell, whichever are more."""
    axes = zip(source.shape[2:], result.shape[2:], strict=True)
    return math.prod(max(n, m) // min(n, m) + 2 for n, m in axes)


def _planes_of(array: Array) -> int:
    return math.prod(array.shape[2:])


# Operations linear in each argument: output name, and the number of terms of its sums.
LINEAR: dict[str, tuple[str, Callable[[Args], int]]] = {
    "gather_rows": ("out", lambda a: 1),
    "conv2d_forward": ("y", lambda a: math.prod(a["weight"].shape[1:])),
    "conv2d_grad_input": ("dx", lambda a: len(a["weight"]) * math.prod(a["weight"].shape[2:])),
    "conv2d_grad_weight": ("dw", lambda a: _inner(a["dy"])),
    "sparse_conv2d_forward": ("y", lambda a: a["x"].shape[1] * math.prod(a["kernel"])),
    "sparse_conv2d_grad_input": ("dx", lambda a: a["dy"].shape[1] * math.prod(a["kernel"])),
    "sparse_conv2d_grad_weight": ("gradients", lambda a: _inner(a["dy"])),
    "linear_forward": ("y", lambda a: a["x"].shape[1]),
    "linear_grad_input": ("dx", lambda a: len(a["weight"])),
    "linear_grad_weight": ("dw", lambda a: len(a["x"])),
    "sparse_linear_forward": ("y", lambda a: a["x"].shape[1]),
    "sparse_linear_grad_input": ("dx", lambda a: a["dy"].shape[1]),
    "sparse_linear_grad_weight": ("gradients", lambda a: len(a["x"])),
    "channel_sum": ("out", lambda a: _inner(a["dy"])),
    "add": ("y", lambda a: 1),
    "mul": ("y", lambda a: 1),
    "add_channels": ("y", lambda a: 1),
    "scale_channels": ("y", lambda a: 1),
    "channel_dot": ("out", lambda a: math.prod(a["a"].shape[2:])),
    "scale_places": ("y", lambda a: 1),
    "place_dot": ("out", lambda a: a["a"].shape[1]),
    "upsample_backward": ("dx", lambda a: math.prod(a["scale"])),
    "resample_forward": ("y", lambda a: 16),
    "resample_backward": ("dx", lambda a: 16 + _planes_of(a["dy"]) // max(_planes_of(a["dx"]), 1)),
    "embedding_backward": ("dweight", lambda a: a["ids"].size),
    "dropout": ("y", lambda a: 1),
    "adaptive_avgpool_forward": ("y", lambda a: _adaptive(a["x"], a["y"])),
    "adaptive_avgpool_backward": ("dx", lambda a: _adaptive(a["dx"], a["dy"])),
    "avgpool_forward": ("y", _window),
    "avgpool_backward": ("dx", _window),
    "maxpool_backward": ("dx", _window),
    "maxpool_lanes_backward": ("dx", _window),
}


def _rows(array: Array) -> Array:
    return array.reshape(*array.shape[:2], math.prod(array.shape[2:]))


def _magnitude(args: Args) -> Array:
    return np.abs(stored_weight(args["codes"], args["row_scale"], args["col_scale"])).astype(np.float64)


def pointwise_forward(before: Args, after: Args) -> Bounds:
    bias = 0 if before["bias"] is None else np.abs(before["bias"])[:, None]
    return {"y": growth(before["x"].shape[1]) * (_magnitude(before) @ np.abs(before["x"]) + bias)}


def pointwise_grad_input(before: Args, after: Args) -> Bounds:
    return {"dx": growth(before["dy"].shape[1]) * (_magnitude(before).T @ np.abs(before["dy"]))}


def batchnorm_forward(before: Args, after: Args) -> Bounds:
    """Cancellation in x - mean costs a factor of max |x| / std, which is squared in the variance."""
    x, grow = np.abs(_rows(before["x"])), growth(_inner(before["x"]))
    largest = x.max(axis=(0, 2))
    condition = 1 + largest * after["inv_std"]
    xhat = _rows(np.abs(after["xhat"]))
    xhat_bound = grow * condition[:, None] * (1 + xhat)
    y = np.abs(before["weight"])[:, None] * (xhat_bound + 4 * EPS * xhat) + 4 * EPS * np.abs(before["bias"])[:, None]
    return {
        "xhat": xhat_bound.reshape(before["x"].shape),
        "y": y.reshape(before["x"].shape),
        "inv_std": grow * condition * after["inv_std"],
        "running_mean": grow * (largest + np.abs(before["running_mean"])),
        "running_var": grow * (np.abs(after["running_var"]) + np.abs(before["running_var"]) + EPS * largest**2),
    }


def batchnorm_eval(before: Args, after: Args) -> Bounds:
    inv_std = 1 / np.sqrt(before["running_var"] + before["eps"])
    spread = (np.abs(_rows(before["x"])) + np.abs(before["running_mean"])[:, None]) * inv_std[:, None]
    y = growth(4) * (np.abs(before["weight"])[:, None] * spread + np.abs(before["bias"])[:, None])
    return {"y": y.reshape(before["x"].shape)}


def batchnorm_backward(before: Args, after: Args) -> Bounds:
    sent, seen = np.abs(_rows(before["dy"])), np.abs(_rows(before["xhat"]))
    grow, gain = growth(_inner(before["dy"])), np.abs(before["weight"] * before["inv_std"])[:, None]
    count = max(_inner(before["dy"]), 1)
    bias_sum, weight_sum = sent.sum(axis=(0, 2)), (sent * seen).sum(axis=(0, 2))
    dx = grow * gain * (sent + (bias_sum[:, None] + seen * weight_sum[:, None]) / count)
    rows = slice(None) if before["outs"] is None else before["outs"]
    return {"dx": dx.reshape(before["dx"].shape), "dweight": grow * weight_sum[rows], "dbias": grow * bias_sum[rows]}


def _by_group(array: Array, groups: int) -> Array:
    return array.reshape(len(array), groups, array.shape[1] // groups * math.prod(array.shape[2:]))


def groupnorm_forward(before: Args, after: Args) -> Bounds:
    x, groups = before["x"], before["groups"]
    members = np.abs(_by_group(x, groups))
    grow, inv_std = growth(members.shape[2]), after["inv_std"]
    condition = 1 + members.max(axis=2, initial=0) * inv_std
    normal = members * inv_std[:, :, None] + condition[:, :, None]
    xhat = _rows((grow * condition[:, :, None] * (1 + normal)).reshape(x.shape))
    weight, bias = np.abs(before["weight"])[:, None], np.abs(before["bias"])[:, None]
    y = weight * (xhat + 4 * EPS * _rows(normal.reshape(x.shape))) + 4 * EPS * bias
    return {"xhat": xhat.reshape(x.shape), "y": y.reshape(x.shape), "inv_std": grow * condition * inv_std}


def groupnorm_backward(before: Args, after: Args) -> Bounds:
    dy, groups = np.abs(before["dy"]), before["groups"]
    sent = _by_group((_rows(dy) * np.abs(before["weight"])[:, None]).reshape(dy.shape), groups)
    seen = _by_group(np.abs(before["xhat"]), groups)
    drift = (sent.sum(axis=2) + 0)[:, :, None] + seen * (sent * seen).sum(axis=2)[:, :, None]
    dx = growth(sent.shape[2]) * np.abs(before["inv_std"])[:, :, None] * (sent + drift / max(sent.shape[2], 1))
    rows, grow = slice(None) if before["outs"] is None else before["outs"], growth(_inner(dy))
    dweight, dbias = (grow * _rows(product).sum(axis=(0, 2))[rows] for product in (dy * np.abs(before["xhat"]), dy))
    return {"dx": dx.reshape(dy.shape), "dweight": dweight, "dbias": dbias}


def _by_position(args: Args) -> Args:
    """Turn the arguments of a norm of positions into a group norm of one group, with an example for each position."""
    images = ("x", "dy", "xhat", "y", "dx")
    turned = {name: np.moveaxis(args[name], 2, 1) for name in images if args.get(name) is not None}
    apart = {name: each.reshape(-1, each.shape[2]) for name, each in turned.items()}
    return args | apart | {"inv_std": args["inv_std"].reshape(-1, 1), "groups": 1}


def _of_positions(found: Bounds, shape: tuple[int, ...]) -> Bounds:
    batch, channels, inner = shape
    images = {name: np.moveaxis(each.reshape(batch, inner, channels), 1, 2) for name, each in found.items()
              if name in ("y", "xhat", "dx")}  # fmt: skip
    places = {name: each.reshape(batch, inner) for name, each in found.items() if name == "inv_std"}
    return found | images | places


def layernorm_forward(before: Args, after: Args) -> Bounds:
    return _of_positions(groupnorm_forward(_by_position(before), _by_position(after)), before["x"].shape)


def layernorm_backward(before: Args, after: Args) -> Bounds:
    return _of_positions(groupnorm_backward(_by_position(before), _by_position(after)), before["dy"].shape)


def batchnorm_relu_forward(before: Args, after: Args) -> Bounds:
    """Bound the results as without ReLU and pooling, which do not enlarge an error. A window's largest error bounds its
    maximum.
    """
    xhat = _xhat(before["x"], after["mean"], after["inv_std"])
    found = batchnorm_forward(before, after | {"xhat": xhat})
    del found["xhat"]
    return {**found, "y": _window_largest(found["y"], after["y"]), "mean": found["running_mean"]}


def batchnorm_relu_eval(before: Args, after: Args) -> Bounds:
    return {"y": _window_largest(batchnorm_eval(before, after)["y"], after["y"])}


def _xhat(x: Array, mean: Array, inv_std: Array) -> Array:
    groups = mean.shape[-1]
    members = x.reshape(len(x), groups, math.prod(x.shape[1:]) // groups)
    return (
        (members - mean.reshape(mean.size // groups, groups, 1)) * inv_std.reshape(mean.size // groups, groups, 1)
    ).reshape(x.shape)


def _window_largest(bound: Array, y: Array) -> Array:
    if bound.shape == y.shape:
        return bound
    height, width = y.shape[2:]
    cells = bound[:, :, : 2 * height, : 2 * width].reshape(*y.shape[:2], height, 2, width, 2)
    return cells.max(axis=(3, 5))


def groupnorm_relu_forward(before: Args, after: Args) -> Bounds:
    found = groupnorm_forward(before, after)
    del found["xhat"]
    members = np.abs(_by_group(before["x"], before["groups"]))
    mean = growth(members.shape[2]) * members.max(axis=2, initial=0)
    return {**found, "y": _window_largest(found["y"], after["y"]), "mean": mean}


def _spread(dy: Array, shape: tuple[int, ...]) -> Array:
    """|dy| at every cell of its window: at least what the winning cell gets."""
    if dy.shape == shape:
        return np.abs(dy)
    spread = np.zeros(shape)
    height, width = dy.shape[2:]
    spread[:, :, : 2 * height, : 2 * width] = np.abs(dy).repeat(2, axis=2).repeat(2, axis=3)
    return spread


def _plain_backward(before: Args) -> Args:
    """The arguments of the backward pass without ReLU and pooling, with signals at least as large."""
    xhat = np.abs(_xhat(before["x"], before["mean"], before["inv_std"]))
    return before | {"dy": _spread(before["dy"], before["x"].shape), "xhat": xhat}


def batchnorm_relu_backward(before: Args, after: Args) -> Bounds:
    return batchnorm_backward(_plain_backward(before), after)


def groupnorm_relu_backward(before: Args, after: Args) -> Bounds:
    return groupnorm_backward(_plain_backward(before), after)


def _apart(args: Args) -> Args:
    """The arguments with images that lie side by side, [B, ..., L], as [B L, ...]."""
    names = ("x", "y", "dy", "dx", "mean", "inv_std")
    found = {name: np.moveaxis(args[name], -1, 1) for name in names if name in args}
    return args | {name: each.reshape(-1, *each.shape[2:]) for name, each in found.items()} | {"outs": None}


def _together(found: Bounds, before: Args) -> Bounds:
    """Return the bounds in the layout of the call's results, without results that the call does not write."""
    batch, *_, lanes = before["x"].shape
    turned = {name: np.moveaxis(each.reshape(batch, lanes, *each.shape[1:]), 1, -1) for name, each in found.items()
              if name in ("y", "dx", "mean", "inv_std")}  # fmt: skip
    return {name: each for name, each in (found | turned).items() if before.get(name) is not None}


def groupnorm_lanes_forward(before: Args, after: Args) -> Bounds:
    return _together(groupnorm_relu_forward(_apart(before), _apart(after)), before)


def groupnorm_lanes_backward(before: Args, after: Args) -> Bounds:
    return _together(groupnorm_relu_backward(_apart(before), _apart(after)), before)


def activation_forward(before: Args, after: Args) -> Bounds:
    """f has a few roundings. An argument of the exponential errs by its own size, times what is left of the result."""
    return {"y": 16 * EPS * (np.abs(after["y"]) + np.minimum(np.abs(before["x"]), 1)) + 1e-38}


def activation_backward(before: Args, after: Args) -> Bounds:
    """No slope exceeds 1.2, and in the slopes of the GELUs terms of that size cancel."""
    return {"dx": 48 * EPS * np.abs(before["dy"]) + 1e-38}


def of_activation(before: Args, after: Args) -> Bounds:
    """Bound the results of an activation without an entry of its own: a few roundings.

    An argument of the exponential errs by its own size, which no argument with a result of some size exceeds.
    """
    least = 1e-37 * (1 + np.abs(before.get("dy", 0.0)))
    return {name: 16 * EPS * np.abs(after[name]) + least for name in ("y", "dx") if name in after}


def prelu_forward(before: Args, after: Args) -> Bounds:
    return {"y": growth(1) * np.abs(after["y"])}


def prelu_backward(before: Args, after: Args) -> Bounds:
    x, dy, weight = (np.abs(before[name]) for name in ("x", "dy", "weight"))
    products = _rows(dy * x).sum(axis=(0, 2))
    sums = products if len(weight) > 1 or x.shape[1] == 1 else products.sum(keepdims=True)
    rows = slice(None) if before["outs"] is None else before["outs"]
    channels = weight.reshape(1, len(weight), *(1 for _ in x.shape[2:]))
    return {"dx": growth(1) * dy * (1 + channels), "dweight": growth(max(x.size, 1)) * sums[rows]}


def _largest(*arrays: Array | None) -> float:
    return max((float(np.abs(array).max()) for array in arrays if array is not None and array.size), default=0.0)


def _recurrence(before: Args, after: Args, names: tuple[str, ...]) -> Bounds:
    """The error of a step is handed on, hardly shrunk or grown, because rows of these weights have length 1."""
    steps, units = len(before["gates"]), before["weight"].shape[1]
    read = (before.get(name) for name in ("dy", "hidden", "cells") if name not in names)
    size = 1 + _largest(*read, *(after[name] for name in names))
    if "bias" in before:
        size += _largest(before["gates"], before["bias"])
    return {name: np.full(after[name].shape, 8 * growth(4 * units) * (1 + steps) * size) for name in names}


def rnn_forward(before: Args, after: Args) -> Bounds:
    return _recurrence(before, after, ("gates", "states"))


def rnn_backward(before: Args, after: Args) -> Bounds:
    return _recurrence(before, after, ("gates",))


def gru_forward(before: Args, after: Args) -> Bounds:
    kept = ("gates", "hidden", "states") if before["hidden"] is not None else ("gates", "states")
    return _recurrence(before, after, kept)


def gru_backward(before: Args, after: Args) -> Bounds:
    return _recurrence(before, after, ("gates", "dhidden"))


def lstm_forward(before: Args, after: Args) -> Bounds:
    return _recurrence(before, after, ("gates", "cells", "states"))


def lstm_backward(before: Args, after: Args) -> Bounds:
    return _recurrence(before, after, ("gates",))


def _heads(args: Args) -> tuple[Array, Array, Array]:
    """|q|, |k| and |v| by head."""
    qkv = np.abs(args["qkv"])
    batch, channels, places = qkv.shape
    parts = qkv.reshape(batch, 3, args["heads"], channels // 3 // args["heads"], places)
    return parts[:, 0], parts[:, 1], parts[:, 2]


def _scores(args: Args) -> Array:
    """Return by query the size of scores without cancellation.

    Their absolute error is the relative error of a share.
    """
    q, k, _ = _heads(args)
    return np.einsum("bhcj,bhci->bhji", k, q).max(axis=2, keepdims=True, initial=0) / math.sqrt(max(q.shape[2], 1))


def attention_forward(before: Args, after: Args) -> Bounds:
    q, _, v = _heads(before)
    args = before | {"y": np.empty_like(after["y"]), "shares": np.empty((*q.shape[:2], q.shape[3], q.shape[3]))}
    reference.attention_forward(**args)
    shares = growth(q.shape[2] + q.shape[3]) * 2 * (1 + _scores(before)) * args["shares"]
    found = {"y": np.einsum("bhcj,bhji->bhci", v, shares).reshape(after["y"].shape)}
    return found if before["shares"] is None else found | {"shares": shares + 1e-37}


def attention_backward(before: Args, after: Args) -> Bounds:
    """Compute the gradients on absolute values, without the two differences."""
    q, k, v = _heads(before)
    dy, shares = np.abs(before["dy"]).reshape(q.shape), before["shares"]
    slopes = np.einsum("bhcj,bhci->bhji", v, dy)
    slopes = shares * (slopes + (shares * slopes).sum(axis=2, keepdims=True)) / math.sqrt(max(q.shape[2], 1))
    parts = (
        np.einsum("bhcj,bhji->bhci", k, slopes),
        np.einsum("bhci,bhji->bhcj", q, slopes),
        np.einsum("bhci,bhji->bhcj", dy, shares),
    )
    return {"dqkv": 2 * growth(q.shape[2] + q.shape[3]) * np.stack(parts, axis=1).reshape(before["qkv"].shape)}


def _sdpa_on_absolute_values(before: Args) -> tuple[Array, Array, Array, Array, Array]:
    """|q|, |k|, |v| by head, the shares, and the size of the scores without cancellation."""
    heads = before["heads"], before["kv_heads"]
    q, k, v = shared_parts(np.abs(before["qkv"]), *heads)
    bias, rest = before["bias"], (before["causal"], before["window"], before["scale"])
    scores = masked_scores(*shared_parts(before["qkv"], *heads)[:2], bias, *rest)
    shares = np.exp(scores - scores.max(axis=2, keepdims=True, initial=-np.inf))
    shares /= shares.sum(axis=2, keepdims=True)
    sizes = masked_scores(q, k, None if bias is None else np.abs(bias), False, 0, before["scale"])
    return q, k, v, shares, 1 + sizes.max(axis=2, keepdims=True, initial=0)


def _sdpa_kept(before: Args, shares: Array) -> Array:
    return shares * kept_factors(shares, before["state"], before["node"], before["threshold"], before["keep_scale"])


def sdpa_forward(before: Args, after: Args) -> Bounds:
    q, _, v, shares, size = _sdpa_on_absolute_values(before)
    shares = _sdpa_kept(before, shares)
    grow = growth(q.shape[2] + q.shape[3])
    found = {"y": np.einsum("bhcj,bhji->bhci", v, 2 * grow * size * shares).reshape(after["y"].shape)}
    return found if before["lse"] is None else found | {"lse": 4 * grow * size[:, :, 0] + np.abs(after["lse"]) * EPS}


def sdpa_backward(before: Args, after: Args) -> Bounds:
    """Compute the gradients on absolute values, without the differences. A dropped share still has a slope."""
    q, k, v, shares, size = _sdpa_on_absolute_values(before)
    kept = _sdpa_kept(before, shares)
    dy = np.abs(before["dy"]).reshape(q.shape)
    slopes = np.einsum("bhcj,bhci->bhji", v, dy)
    slopes = kept * slopes + shares * (kept * slopes).sum(axis=2, keepdims=True)
    grow, scaled = 4 * growth(q.shape[2] + q.shape[3]) * size.max(initial=0), slopes * before["scale"]
    groups = (len(q), before["kv_heads"], before["heads"] // before["kv_heads"], *q.shape[2:])
    dk, dv = (np.einsum("bhci,bhji->bhcj", a, b).reshape(groups).sum(axis=2) for a, b in ((q, scaled), (dy, kept)))
    dqkv = np.concatenate((np.einsum("bhcj,bhji->bhci", k, scaled), dk, dv), axis=1).reshape(before["qkv"].shape)
    found = {"dqkv": grow * dqkv}
    if before["dbias"] is None:
        return found
    masks = before["masks"]
    dbias = slopes.sum(axis=0).reshape(masks, before["heads"] // masks, *slopes.shape[2:]).sum(axis=1)
    return found | {"dbias": grow * math.sqrt(1 + len(q)) * dbias}


def _runs(args: Args, name: str) -> Array:
    """Return the absolute values [B, runs, channels of a run, I] of an array of a normalisation of runs."""
    return np.abs(args[name]).reshape(*args["inv_rms"].shape[:2], len(args["weight"]), args["inv_rms"].shape[2])


def rmsnorm_forward(before: Args, after: Args) -> Bounds:
    grow, gain = growth(len(before["weight"])), np.abs(before["weight"]) + before["offset"]
    y = _runs(before, "x") * after["inv_rms"][:, :, None] * gain[:, None]
    return {"y": 2 * grow * y.reshape(before["x"].shape), "inv_rms": grow * after["inv_rms"]}


def rmsnorm_backward(before: Args, after: Args) -> Bounds:
    dy, inv, rows = _runs(before, "dy"), before["inv_rms"][:, :, None], before["outs"]
    normal = _runs(before, "x") * inv
    sent = dy * (np.abs(before["weight"]) + before["offset"])[:, None]
    width = max(len(before["weight"]), 1)
    dx = 2 * growth(width) * inv * (sent + normal * (sent * normal).sum(axis=2, keepdims=True) / width)
    dweight = 2 * growth(dy.size / width) * (dy * normal).sum(axis=(0, 1, 3))
    return {"dx": dx.reshape(before["x"].shape), "dweight": dweight[slice(None) if rows is None else rows]}


def rotary(before: Args, after: Args) -> Bounds:
    return {"y": 4 * EPS * _rotated_sizes(before)}


def _rotated_sizes(before: Args) -> Array:
    """Return the size of both terms of each result."""
    runs = np.abs(before["x"]).reshape(
        len(before["x"]), before["x"].shape[1] // len(before["cos"]), *before["cos"].shape
    )
    turned, half = runs * np.abs(before["sin"]) if before["back"] else runs, len(before["cos"]) // 2
    turned = np.concatenate((turned[:, :, half:], turned[:, :, :half]), axis=2)
    turned = turned if before["back"] else turned * np.abs(before["sin"])
    return (runs * np.abs(before["cos"]) + turned).reshape(before["x"].shape)


def softmax_xent(before: Args, after: Args) -> Bounds:
    """exp turns an absolute error of the shifted logit into a relative one of the probability."""
    logits = before["logits"]
    if not logits.size:
        return {}
    span = np.abs(logits).max(axis=1, keepdims=True) * 2 + 1
    probability = np.exp(logits - logits.max(axis=1, keepdims=True))
    probability /= probability.sum(axis=1, keepdims=True)
    onehot = np.eye(logits.shape[1])[before["labels"]]
    grow = growth(logits.shape[1])
    found = {"loss": np.array([grow * float((span + math.log(logits.shape[1])).sum())])}
    if before["dlogits"] is not None:
        found["dlogits"] = grow * (probability * span + onehot) / len(logits) + 1e-38
    return found


def cross_entropy(before: Args, after: Args) -> Bounds:
    """Bound as softmax_xent, with what a row asks of each class. Sums over the rows' weights are in float64."""
    logits, labels = before["logits"], before["labels"]
    if not logits.size:
        return {}
    classes, smoothing = logits.shape[1], before["smoothing"]
    weight = np.ones(classes) if before["weight"] is None else before["weight"]
    onehot = np.eye(classes)[labels]
    asked = weight * (smoothing / classes + (1 - smoothing) * onehot)
    span = np.abs(logits).max(axis=1, keepdims=True) * 2 + 1
    probability = np.exp(logits - logits.max(axis=1, keepdims=True))
    probability /= probability.sum(axis=1, keepdims=True)
    grow, every = growth(classes), asked.sum(axis=1, keepdims=True)
    found = {"loss": np.array([grow * float((every * (span + math.log(classes))).sum())])}
    if before["dlogits"] is not None:
        found["dlogits"] = grow * (every * probability * span + asked) / weight[labels].sum() + 1e-38
    return found


def place_cross_entropy(before: Args, after: Args) -> Bounds:
    """Bound as cross_entropy of the places that count."""
    logits = np.moveaxis(before["logits"], 1, 2)
    first = before["first"]
    labels = before["labels"][before["index"][first : first + len(logits)]][:, before["place"] :][:, : logits.shape[1]]
    counts = (labels >= 0) & (labels < logits.shape[2]) & (labels != before["ignored"])
    if not counts.any():
        return {}
    rows = {"logits": logits[counts], "labels": labels[counts], "dlogits": before["dlogits"]}
    found = cross_entropy({**before, **rows}, after)
    if before["dlogits"] is not None:
        whole = np.zeros(logits.shape)
        whole[counts] = found["dlogits"]
        found["dlogits"] = np.moveaxis(whole, 2, 1)
    return found


def binary_cross_entropy(before: Args, after: Args) -> Bounds:
    """The exponential and the logarithm have a few roundings. Only terms of the result's size cancel."""
    x, t = np.abs(before["logits"]), np.abs(before["targets"])
    if not x.size:
        return {}
    weight = (1 if before["pos_weight"] is None else before["pos_weight"]) * t + 1
    found = {"loss": np.array([4 * growth(x.shape[1]) * float((weight * (x + 1)).sum()) / x.shape[1]])}
    if before["dlogits"] is not None:
        found["dlogits"] = 16 * EPS * weight / x.size + 1e-38
    return found


def squared_error(before: Args, after: Args) -> Bounds:
    size = np.abs(before["y"]) + np.abs(before["targets"])
    if not size.size:
        return {}
    found = {"loss": np.array([growth(size.shape[1]) * float(np.square(size).sum()) / size.shape[1]])}
    if before["dy"] is not None:
        found["dy"] = 4 * EPS * 2 * size / size.size
    return found


def absolute_error(before: Args, after: Args) -> Bounds:
    size = np.abs(before["y"]) + np.abs(before["targets"])
    if not size.size:
        return {}
    found = {"loss": np.array([growth(size.shape[1]) * float(size.sum()) / size.shape[1]])}
    if before["dy"] is not None:
        found["dy"] = 4 * EPS * np.ones(size.shape) / size.size
    return found


def huber(before: Args, after: Args) -> Bounds:
    """No slope exceeds delta, and no loss the squared error."""
    return squared_error(before, after)


def adam(before: Args, after: Args) -> Bounds:
    """Moments are sums of absolute values. The error of a step is its mean's, and by the root that of its square."""
    shape = before["mean"].shape
    rows, cols = (
        np.arange(n) if ids is None else ids for n, ids in zip(before["w"].shape, (before["rows"], before["cols"]))
    )
    block = np.ix_(rows, cols)
    w = np.abs(before["w"][block]).reshape(shape)
    mean_share, _, square_share, step, root, eps, decay, kept, pull = before["rates"]
    g = np.abs(before["grad"]).reshape(shape) * (1 if before["scale"] is None else before["scale"]) + decay * w
    g = g + (0 if before["centre"] is None else pull * (w + np.abs(before["centre"]).reshape(shape)))
    g = g + (0 if before["linear"] is None else np.abs(before["linear"]).reshape(shape))
    mean = growth(6) * (np.abs(before["mean"]) + mean_share * (g + np.abs(before["mean"])))
    square = growth(6) * (before["square"] + square_share * g * g)
    size = np.sqrt(after["square"]) / root + eps
    change = step * (mean / size + np.abs(after["mean"]) / size**2 * square / (2 * root * np.sqrt(after["square"])))
    bound = np.zeros(before["w"].shape)
    bound[block] = (change + growth(4) * (kept * w + step * np.abs(after["mean"]) / size)).reshape(bound[block].shape)
    return {"w": bound, "mean": mean, "square": square}


def nesterov(before: Args, after: Args) -> Bounds:
    """The step on absolute values, as of sgd."""
    args = {name: _absolute(value) for name, value in before.items()}
    args["hyper"][0] *= -1
    if args["centre"] is not None:
        args["centre"] *= -1
    reference.nesterov(**args)
    return {name: growth(7) * args[name] for name in ("w", "velocity")}


def begin_adam(before: Args, after: Args) -> Bounds:
    return {"rates": growth(1) * np.abs(after["rates"])}


def linear_update(before: Args, after: Args) -> Bounds:
    """The step on absolute values, with a negative rate so that its difference is a sum."""
    args = {name: _absolute(value) for name, value in before.items()}
    args["hyper"][0] *= -1
    reference.linear_update(**args)
    return {"w": growth(6 + len(before["x"])) * args["w"]}


def sgd(before: Args, after: Args) -> Bounds:
    """The step on absolute values: a negative rate and centre turn its two differences into sums."""
    args = {name: _absolute(value) for name, value in before.items()}
    args["hyper"][0] *= -1
    if args["centre"] is not None:
        args["centre"] *= -1
    reference.sgd(**args)
    return {name: growth(6) * args[name] for name in ("w", "velocity") if args[name] is not None}


def sum_squares(before: Args, after: Args) -> Bounds:
    """Summed in float64: the float64 rounding alone."""
    return {"total": (4 + 2 * math.sqrt(before["x"].size)) * 2.0**-53 * after["total"]}


def sum_squared_changes(before: Args, after: Args) -> Bounds:
    """Two roundings of a term in float64, and those of the sum."""
    return {"total": (6 + 2 * math.sqrt(before["x"].size)) * 2.0**-53 * after["total"]}


def add_scaled(before: Args, after: Args) -> Bounds:
    """One rounding in float64 of each product and one of each sum."""
    given = (before["x"], before.get("second"), before.get("third"), before.get("fourth"))
    products = sum(np.abs(f * x) for f, x in zip(before["factors"], given) if x is not None)
    return {"total": 2.0**-50 * (np.abs(before["total"]) + 2 * products)}


def clip_scale(before: Args, after: Args) -> Bounds:
    return {"scale": growth(1) * after["scale"]}


def evaluate(before: Args, after: Args) -> Bounds:
    """A few roundings of the result and of terms that may cancel each other."""
    terms = sum(np.abs(before[name]) for name in "abcde" if before[name] is not None)
    return {"y": 16 * EPS * (np.abs(after["y"]) + terms)}


def reduce(before: Args, after: Args) -> Bounds:
    if before["kind"]:
        return {}
    return {"y": growth(before["x"].shape[1]) * before["scale"] * np.abs(before["x"]).sum(axis=1)}


OTHERS: dict[str, Callable[[Args, Args], Bounds]] = {
    "pointwise_forward": pointwise_forward,
    "pointwise_grad_input": pointwise_grad_input,
    "evaluate": evaluate,
    "reduce": reduce,
    "batchnorm_forward": batchnorm_forward,
    "batchnorm_eval": batchnorm_eval,
    "batchnorm_backward": batchnorm_backward,
    "groupnorm_forward": groupnorm_forward,
    "groupnorm_backward": groupnorm_backward,
    "batchnorm_relu_forward": batchnorm_relu_forward,
    "batchnorm_relu_eval": batchnorm_relu_eval,
    "batchnorm_relu_backward": batchnorm_relu_backward,
    "groupnorm_relu_forward": groupnorm_relu_forward,
    "groupnorm_relu_backward": groupnorm_relu_backward,
    "layernorm_forward": layernorm_forward,
    "layernorm_backward": layernorm_backward,
    "groupnorm_lanes_forward": groupnorm_lanes_forward,
    "groupnorm_lanes_backward": groupnorm_lanes_backward,
    "activation_forward": activation_forward,
    "activation_backward": activation_backward,
    "prelu_forward": prelu_forward,
    "prelu_backward": prelu_backward,
    "rnn_forward": rnn_forward,
    "rnn_backward": rnn_backward,
    "gru_forward": gru_forward,
    "gru_backward": gru_backward,
    "lstm_forward": lstm_forward,
    "lstm_backward": lstm_backward,
    "attention_forward": attention_forward,
    "attention_backward": attention_backward,
    "sdpa_forward": sdpa_forward,
    "sdpa_backward": sdpa_backward,
    "rmsnorm_forward": rmsnorm_forward,
    "rmsnorm_backward": rmsnorm_backward,
    "rotary": rotary,
    "softmax_xent": softmax_xent,
    "cross_entropy": cross_entropy,
    "place_cross_entropy": place_cross_entropy,
    "absolute_error": absolute_error,
    "binary_cross_entropy": binary_cross_entropy,
    "squared_error": squared_error,
    "huber": huber,
    "adam": adam,
    "nesterov": nesterov,
    "begin_adam": begin_adam,
    "linear_update": linear_update,
    "sgd": sgd,
    "sum_squares": sum_squares,
    "sum_squared_changes": sum_squared_changes,
    "add_scaled": add_scaled,
    "clip_scale": clip_scale,
}
