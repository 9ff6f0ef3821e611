"""RMSNorm in an exported graph: as one operation, or written out as x * rsqrt(mean(x ** 2) + eps) * weight."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import fx

from edgefl.errors import GraphError
from edgefl.models.graph.operations import RMSNorm
from edgefl.torch.aten_lifting import Entry, Lifting
from edgefl.torch.aten_nodes import bare
from edgefl.torch.code_lines import packet
from edgefl.torch.transformer_modules import SequenceRMSNorm


class WrittenNorm(NamedTuple):
    """An RMSNorm that forward writes out.

    source  node whose last axis is normalised
    weight  node of the weight, or None for a weight of ones
    offset  number that forward adds to the weight
    """

    source: fx.Node
    eps: float
    weight: fx.Node | None = None
    offset: float = 0.0


def written_norm(lift: Lifting, node: Any) -> WrittenNorm | None:
    """Return the RMSNorm that a node ends, or None for every other node."""
    node = bare(node)
    if not isinstance(node, fx.Node):
        return None
    if packet(node) == "rms_norm":
        weight, eps = ([*node.args, None, None][at] for at in (2, 3))
        eps = torch.finfo(torch.float32).eps if eps is None else float(eps)  # type: ignore[arg-type]
        return WrittenNorm(bare(node.args[0]), eps, weight if isinstance(weight, fx.Node) else None)
    if packet(node) != "mul":
        return None
    for one, other in (node.args[:2], node.args[1::-1]):
        if lift.is_parameter(one) and (found := _without_weight(bare(other))):
            weight, offset = _weight(lift, one)
            is_last = weight is not None and tuple(weight.meta["val"].shape) == found.source.meta["val"].shape[-1:]
            return found._replace(weight=weight, offset=offset) if is_last else None
    return _without_weight(node)


def _without_weight(node: Any) -> WrittenNorm | None:
    """Return the norm that is x * rsqrt(mean(x ** 2, -1) + eps), or x / sqrt(mean(x ** 2, -1) + eps)."""
    if not isinstance(node, fx.Node) or packet(node) not in ("mul", "div"):
        return None
    for x, factor in (node.args[:2], node.args[1::-1]):
        if isinstance(x, fx.Node) and isinstance(factor, fx.Node):
            eps = _eps(bare(factor), bare(x), packet(node) == "div")
            if eps is not None:
                return WrittenNorm(bare(x), eps)
    return None


def _eps(node: Any, x: Any, divides: bool) -> float | None:
    """Return eps if a node is the inverse root mean square of x, or its root mean square if it `divides`."""
    is_power = packet(node) == "pow" and node.args[1] == (0.5 if divides else -0.5)
    if not (is_power or packet(node) == ("sqrt" if divides else "rsqrt")):
        return None
    total = bare(node.args[0])
    if not isinstance(total, fx.Node) or packet(total) != "add" or isinstance(total.args[1], fx.Node) or total.kwargs:
        return None
    mean, last = bare(total.args[0]), x.meta["val"].dim() - 1
    is_mean = isinstance(mean, fx.Node) and packet(mean) == "mean" and mean.args[1:3] in (([-1], True), ([last], True))
    if not is_mean or not _is_square(bare(mean.args[0]), x):
        return None
    eps: Any = total.args[1]
    return float(eps)


def _is_square(node: Any, x: fx.Node) -> bool:
    if not isinstance(node, fx.Node):
        return False
    if packet(node) == "mul":
        return bare(node.args[0]) is x and bare(node.args[1]) is x
    if packet(node) == "square":
        return bare(node.args[0]) is x
    return packet(node) == "pow" and bare(node.args[0]) is x and bool(node.args[1] == 2)


def _weight(lift: Lifting, node: Any) -> tuple[fx.Node | None, float]:
    """Return the parameter of a weight, and the number that forward adds to it."""
    node = bare(node)
    if packet(node) == "add" and not node.kwargs:
        for one, other in (node.args[:2], node.args[1::-1]):
            if lift.is_parameter(one) and not isinstance(other, fx.Node):
                return bare(one), float(other)
    return node, 0.0


def normed(lift: Lifting, norm: WrittenNorm, value: Any, name: str = "") -> Any:
    """Return the call of the norm on a value [batch, channels, ...], whose channels may lie in several runs."""
    features = norm.source.meta["val"].shape[-1]
    if norm.offset < 0 or not norm.eps > 0:
        raise GraphError(
            f"eps={norm.eps} and {norm.offset} added to the weight; expected eps > 0 and a sum of 0 or more"
        )
    op = RMSNorm(int(features), norm.eps, norm.offset)
    weight: Any = torch.ones(int(features)) if norm.weight is None else norm.weight
    return lift.layer(SequenceRMSNorm(op), {"weight": weight}, value, name=name or "rms_norm")


def rms_norm_of(lift: Lifting, node: fx.Node) -> Any:
    """Return the call for a node that ends an RMSNorm over its last axis, or None for every other node."""
    norm = written_norm(lift, node)
    if norm is None or not lift.is_value(norm.source):
        return None
    rank = norm.source.meta["val"].dim()
    if rank > 3:
        raise GraphError("an RMSNorm of heads that no attention reads; expected [batch, steps, features]")
    value = lift.lifted(norm.source)
    if rank == 2:
        return normed(lift, norm, value)
    return lift.call(torch.transpose, normed(lift, norm, lift.call(torch.transpose, value, 1, 2)), 1, 2)


def _rms_norm(lift: Lifting, input: fx.Node, shape: Any, weight: Any = None, eps: Any = None) -> Any:
    if len(shape) != 1:
        raise GraphError(f"normalized_shape={tuple(shape)} of an RMSNorm; expected one extent, the features")
    return rms_norm_of(lift, lift.node)


ATEN_NORMS: dict[str, Entry] = {"rms_norm": _rms_norm}
"""The entry for RMSNorm, by the name of the ATen operation."""
