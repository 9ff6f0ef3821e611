"""Queries, keys and values [batch, heads, steps, features] of an exported graph, read back to what makes them.

A graph has no axis of heads: the channels of a head lie side by side. Between a layer and an attention, forward moves
values, multiplies by a constant, norms each head, rotates by rotary positions, and repeats heads of keys and values.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx

from edgefl.errors import GraphError
from edgefl.models.graph.operations import Rotary
from edgefl.torch.aten_lifting import Lifting
from edgefl.torch.aten_nodes import bare
from edgefl.torch.aten_norms import normed, written_norm
from edgefl.torch.code_lines import packet
from edgefl.torch.moved_values import MOVING, moved, numbered
from edgefl.torch.transformer_modules import SequenceRotary

LAYOUT = "expected (batch, heads, steps, features), split from the features of a Linear layer"


class Heads(NamedTuple):
    """Heads of queries, of keys or of values.

    heads     number of heads that attention reads
    own       number of different heads, each of which is repeated heads / own times
    source    node of [batch, steps, features] that has them, or None where `value` has them
    start     first feature of the heads in the source
    factor    constant by which forward multiplies them
    value     call for the heads as [batch, features, steps]
    """

    heads: int
    own: int
    source: fx.Node | None = None
    start: int = 0
    factor: float = 1.0
    value: Any = None


def heads_of(lift: Lifting, node: fx.Node) -> Heads:
    """Return the heads that a node [batch, heads, steps, features] has."""
    node = bare(node)
    if (found := _rotated(lift, node) or _normed(lift, node) or _scaled(lift, node)) is not None:
        return found
    start = _start(lift, node)
    if start is node:
        raise GraphError(f"queries, keys or values of another form; {LAYOUT}")
    sizes = lift.extents(start)
    places = moved(lift, node, start, numbered(sizes))
    if len(sizes) == 4:
        own = heads_of(lift, start)
        times = places.shape[1] // sizes[1]
        if places.shape[1] % sizes[1] or not torch.equal(places, numbered(sizes).repeat_interleave(times, 1)):
            raise GraphError("heads in another order; expected each head of keys and values repeated for its queries")
        return own._replace(heads=places.shape[1])
    if len(sizes) != 3:
        raise GraphError(f"queries, keys or values of another form; {LAYOUT}")
    return _split(lift, start, sizes, places)


def heads_by_features(lift: Lifting, node: fx.Node) -> tuple[fx.Node, int]:
    """Return the node [batch, steps, features] whose features are heads [batch, heads, features, steps], and the first.

    Raises  GraphError for other values
    """
    start = _start(lift, node)
    sizes = lift.extents(start)
    if len(sizes) != 3 or start in lift.moves.windows:
        raise GraphError(f"queries, keys or values of another form; {LAYOUT}")
    found = _split(lift, start, sizes, moved(lift, node, start, numbered(sizes)).transpose(2, 3))
    if found.source is not start or found.factor != 1:
        raise GraphError("attention between channels after a product with a number; expected no product")
    return start, found.start


def _start(lift: Lifting, node: fx.Node) -> fx.Node:
    """Return the node whose values a node moves or repeats."""
    while packet(node) in (*MOVING, "expand") and isinstance(node.args[0], fx.Node):
        if node.args[0] in lift.moves.flat or not lift.is_value(node.args[0]):
            break
        node = node.args[0]
    return node


def _split(lift: Lifting, start: fx.Node, sizes: tuple[int, ...], places: Tensor) -> Heads:
    """Return the heads that are a range of the features of [batch, steps, features] or [steps, batch, features]."""
    batch, count, steps, size = places.shape
    times = int((places[0, :, 0, 0] == places[0, 0, 0, 0]).sum())
    own, is_batch_first = places[:, ::times], is_first(start)
    heads = own.shape[1]
    expected = (batch, steps) if is_batch_first else (steps, batch)
    at, width = int(places[0, 0, 0, 0]), heads * size
    if sizes[:2] == expected and at + width <= sizes[2]:
        part = numbered(sizes)[..., at : at + width].unflatten(2, (heads, size))
        wanted = part.permute(0, 2, 1, 3) if is_batch_first else part.permute(1, 2, 0, 3)
        if torch.equal(places, wanted.repeat_interleave(times, 1)):
            factor = 1.0
            if at == 0 and width == sizes[2] and (scaled := scalar_product(lift, start)) is not None:
                start, factor = scaled
            return Heads(count, heads, start, at, factor)
    raise GraphError(f"heads in another order; {LAYOUT}")


def is_first(node: fx.Node) -> bool:
    """Return whether a node is [batch, steps, features], and not [steps, batch, features]."""
    return isinstance(node.meta["val"].shape[0], torch.SymInt)


def scalar_product(lift: Lifting, node: fx.Node) -> tuple[fx.Node, float] | None:
    """Return the value and the number that a node multiplies or divides, or None for every other node."""
    if packet(node) not in ("mul", "div"):
        return None
    pairs = (node.args[:2], node.args[1::-1]) if packet(node) == "mul" else (node.args[:2],)
    for value, other in pairs:
        if not lift.is_value(value) or lift.is_value(other) or lift.is_parameter(other):
            continue
        number = torch.as_tensor(lift.known(other))
        if number.numel() == 1:
            assert isinstance(value, fx.Node)
            return bare(value), float(number) if packet(node) == "mul" else 1 / float(number)
    return None


def _scaled(lift: Lifting, node: fx.Node) -> Heads | None:
    if (found := scalar_product(lift, node)) is None:
        return None
    heads = heads_of(lift, found[0])
    return heads._replace(factor=heads.factor * found[1])


def _normed(lift: Lifting, node: fx.Node) -> Heads | None:
    norm = written_norm(lift, node)
    if norm is None or norm.source.meta["val"].dim() != 4:
        return None
    heads = heads_of(lift, norm.source)
    if heads.factor != 1:
        raise GraphError("an RMSNorm of heads after a product with a number; expected the norm first")
    return heads._replace(source=None, value=normed(lift, norm, channels(lift, heads, norm.source)))


def _rotated(lift: Lifting, node: fx.Node) -> Heads | None:
    """Return x * cos + cat(-second half of x, first half of x) * sin as rotary positions of the heads x."""
    if packet(node) != "add" or node.kwargs:
        return None
    for one, other in (node.args[:2], node.args[1::-1]):
        straight, turned = _times_table(lift, one), _times_table(lift, other)
        if straight is None or turned is None or not _is_turned(turned[0], straight[0]):
            continue
        source = straight[0]
        heads, size, steps = heads_of(lift, source), *reversed(lift.extents(source)[2:])
        tables = {name: _table(found[1], steps, size) for name, found in (("cos", straight), ("sin", turned))}
        value = channels(lift, heads, source)
        value = lift.layer(SequenceRotary(Rotary(size, steps)), tables, value, name="rotary")
        return heads._replace(source=None, value=value)
    return None


def _times_table(lift: Lifting, node: Any) -> tuple[fx.Node, Tensor] | None:
    node = bare(node)
    if not isinstance(node, fx.Node) or packet(node) != "mul":
        return None
    for value, other in (node.args[:2], node.args[1::-1]):
        if lift.is_value(value) and not lift.is_value(other) and not lift.is_parameter(other):
            table = lift.known(other)
            return (bare(value), table) if isinstance(table, Tensor) and table.dim() > 1 else None
    return None


def _is_turned(node: Any, x: fx.Node) -> bool:
    """Return whether a node is the second half of x's last axis, negated, before the first half."""
    if not isinstance(node, fx.Node) or packet(node) not in ("cat", "concat"):
        return False
    size, parts = int(x.meta["val"].shape[-1]), node.args[0]
    dim = node.args[1] if len(node.args) > 1 else 0
    if dim not in (-1, x.meta["val"].dim() - 1) or not isinstance(parts, list | tuple) or len(parts) != 2:
        return False
    negated, first = bare(parts[0]), bare(parts[1])
    if packet(negated) != "neg":
        return False
    return _range(bare(negated.args[0]), x) == (size // 2, size) and _range(first, x) == (0, size // 2)


def _range(node: Any, x: fx.Node) -> tuple[int, int] | None:
    """Return the range of x's last axis that a node takes."""
    last, size = x.meta["val"].dim() - 1, int(x.meta["val"].shape[-1])
    if not isinstance(node, fx.Node):
        return None
    if packet(node) == "slice" and bare(node.args[0]) is x and node.args[1] in (-1, last) and len(node.args) < 5:
        start, end, _ = slice(*node.args[2:4]).indices(size) if len(node.args) > 3 else (0, 0, 0)
        return start, end
    parts: Any = node.args[0]
    if packet(node) == "getitem" and packet(parts) == "chunk":
        at: Any = node.args[1]
        is_half = bare(parts.args[0]) is x and parts.args[1:] in ((2, -1), (2, last))
        return (at * (size // 2), (at + 1) * (size // 2)) if is_half else None
    return None


def _table(table: Tensor, steps: int, size: int) -> Tensor:
    """Return cos or sin as [features, steps]."""
    if table.numel() % (steps * size):
        raise GraphError(f"rotary positions of shape {tuple(table.shape)}; expected {steps} steps and {size} features")
    rows = table.reshape(-1, steps, size)
    if tuple(table.shape[-2:]) != (steps, size) or not torch.equal(rows, rows[:1].expand_as(rows)):
        raise GraphError("rotary positions that differ from head to head; expected the same for all heads")
    return rows[0].t().contiguous().float()


def channels(lift: Lifting, heads: Heads, node: fx.Node | None = None) -> Any:
    """Return the call for heads as [batch, features, steps]."""
    if heads.source is None:
        return heads.value
    value, size = lift.lifted(heads.source), lift.extents(heads.source)
    found = (
        lift.call(torch.transpose, value, 1, 2) if is_first(heads.source) else lift.call(torch.permute, value, 1, 2, 0)
    )
    if node is None:
        return found
    width = heads.own * lift.extents(node)[3]
    if width == size[2]:
        return found
    return lift.call(torch.narrow, found, 1, heads.start, width)


def joined(lift: Lifting, parts: tuple[Heads, Heads, Heads], size: int) -> Any:
    """Return the call for queries, keys and values as [batch, features, steps], one below the other."""
    source, starts = parts[0].source, [0]
    for part in parts:
        starts.append(starts[-1] + part.own * size)
    if source in lift.moves.windows:
        return lift.call(torch.cat, [_by_window(lift, part, size) for part in parts], 1)
    is_one = source is not None and all(part.source is source for part in parts)
    if is_one and [part.start for part in parts] == starts[:3] and lift.extents(source)[2] == starts[3]:  # type: ignore[arg-type]
        return channels(lift, parts[0])
    found = []
    for part in parts:
        whole = channels(lift, part)
        is_whole = part.source is None or lift.extents(part.source)[2] == part.own * size
        found.append(whole if is_whole else lift.call(torch.narrow, whole, 1, part.start, part.own * size))
    return lift.call(torch.cat, found, 1)


def _by_window(lift: Lifting, part: Heads, size: int) -> Any:
    """Return the call for heads of all windows as [batch, windows * features, steps]."""
    if part.source not in lift.moves.windows:
        raise GraphError("norms or rotary positions of heads in windows; expected heads of a Linear layer")
    value, width = lift.lifted(part.source), part.own * size
    if width != lift.extents(part.source)[2]:
        value = lift.call(torch.narrow, value, 3, part.start, width)
    return lift.call(torch.flatten, lift.call(torch.transpose, value, 2, 3), 1, 2)


def scale_of(parts: tuple[Heads, Heads, Heads], scale: float | None, size: int) -> float:
    """Return the factor of the products of queries and keys."""
    if parts[2].factor != 1:
        raise GraphError(f"values times {parts[2].factor} before their attention; expected the product after it")
    return parts[0].factor * parts[1].factor * (1 / math.sqrt(size) if scale is None else float(scale))
