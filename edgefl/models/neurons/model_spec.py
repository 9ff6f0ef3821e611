"""ModelSpec: what the two sides of a federation must agree on about a model. Derived from a Graph; holds no values.

It says which neuron group indexes which axis of which parameter, so that a set of active neurons selects blocks of
parameters. The rules (ALGORITHMS 1.1):

* every convolution and Linear owns a group of its output channels or features; a following norm belongs to it;
* shape-preserving operations and pooling pass the group on; Flatten repeats a channel for its height * width features,
  FlattenPlaces all channels at each place; a Linear layer at each place is a convolution of single cells;
* a recurrent layer owns a group of its hidden units, each with all its gates, and attention one of its heads;
* an Embedding owns a group of its features, which lies along axis 1 of its weight; all of its rows are active;
* where a Permute puts other things than channels on axis 0, or a parameter that is added or multiplied has channels on
  its third axis, no group lies along the result, and the one before is free;
* a depthwise convolution has the neurons of its input, each repeated by the channel multiplier;
* results that are summed or multiplied share one group, named after the earliest layer in it;
* results put one after another keep their groups, each along its part of the axis;
* the graph's input, its output (the classes), the input of a grouped convolution that is not depthwise, and whatever is
  summed with an unrestricted result belong to no group: they are always active.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

from edgefl.models.graph import INPUT, Graph, Node
from edgefl.models.graph.json import dumps
from edgefl.models.graph.operations import (
    Add,
    Concat,
    Conv2d,
    ConvTranspose2d,
    Embedding,
    Flatten,
    FlattenPlaces,
    Kind,
    Linear,
    Mul,
    Operation,
    Permute,
    PReLU,
    Recurrent,
    Reshape,
    SelfAttention,
    Shape,
    WithParameter,
)
from edgefl.models.graph.planar import planar

FINGERPRINT_BYTES = 16


class AxisSpec(NamedTuple):
    """Index a of the axis belongs to neuron a // repeat of the group."""

    group: str
    repeat: int = 1


class JoinedAxis(NamedTuple):
    """Parts one after another: of each its neurons (None: none of a group), and how many indices it has."""

    parts: tuple[tuple[AxisSpec | None, int], ...]


Axis = AxisSpec | JoinedAxis


def parts_of(axis: Axis | None, size: int) -> tuple[tuple[AxisSpec | None, int], ...]:
    """The parts of an axis of `size` indices: one, unless it is joined."""
    return axis.parts if isinstance(axis, JoinedAxis) else ((axis, size),)


def groups_of(axis: Axis | None) -> Iterator[str]:
    """The groups along an axis, those of a joined one in order."""
    for part, _ in parts_of(axis, 0):
        if part is not None:
            yield part.group


def layer_of(parameter: str) -> str:
    """The layer that has this parameter."""
    return parameter.rpartition(".")[0]


class ParamSpec(NamedTuple):
    """A parameter's shape and kind, and the groups of its axis 0 (rows) and axis 1 (cols); None is never restricted."""

    shape: Shape
    kind: Kind
    rows: Axis | None = None
    cols: Axis | None = None


@dataclass(frozen=True)
class ModelSpec:
    """Parameters with their axes, groups with their sizes, and a fingerprint of both and of the graph.

    params       by full name, in node order
    groups       neurons per group, in node order
    head         parameters of the last Linear layer and of what follows it; empty where there is no Linear layer
    inputs       of every weight that multiplies all inputs of its layer, the axis along which they lie
    fingerprint  16 bytes; equal for two graphs iff their canonical JSON is equal
    """

    params: Mapping[str, ParamSpec]
    groups: Mapping[str, int]
    fingerprint: bytes
    head: tuple[str, ...] = ()
    inputs: Mapping[str, int] = field(default_factory=dict)

    @property
    def body(self) -> tuple[str, ...]:
        """All parameters but the head's."""
        return tuple(name for name in self.params if name not in self.head)

    def part(self, graph: Graph) -> ModelSpec:
        """That of some of the model's nodes as a graph of their own: with the whole model's groups along their axes."""
        own = _spec(graph)
        return replace(own, params={name: self.params[name] for name in own.params}, groups=self.groups)

    @staticmethod
    def of(graph: Graph) -> ModelSpec:
        """The specification of `graph`; computed once per graph."""
        return _spec(graph)


@lru_cache(maxsize=64)
def _spec(graph: Graph) -> ModelSpec:
    groups = _Groups()
    axes = _follow_axes(planar(graph), groups)
    settled = {name: groups.settled(axis) for name, axis in axes.items()}
    planes = {node.name: node.op for node in planar(graph).nodes}
    params = {
        node.full_name(name): ParamSpec(info.shape, info.kind, *_param_axes(planes[node.name], node, name, settled))
        for node in graph.nodes
        for name, info in node.op.parameters().items()
    }
    axis = {
        node.full_name(name): axis
        for node in graph.nodes
        for name in node.op.parameters()
        if (axis := _input_axis(planes[node.name], name)) is not None
    }
    return ModelSpec(params, groups.sizes(), _fingerprint(graph, params), _head(graph), axis)


def _head(graph: Graph) -> tuple[str, ...]:
    at = max((i for i, node in enumerate(graph.nodes) if isinstance(node.op, Linear)), default=len(graph.nodes))
    return tuple(node.full_name(name) for node in graph.nodes[at:] for name in node.op.parameters())


def result_axes(graph: Graph) -> dict[str, Axis | None]:
    """The group of axis 0 of every result, "input" included; None is always active."""
    groups = _Groups()
    return {name: groups.settled(axis) for name, axis in _follow_axes(planar(graph), groups).items()}


def _follow_axes(graph: Graph, groups: _Groups) -> dict[str, Axis | None]:
    """The group of axis 0 of every result, as known where it is made; `groups` collects what later nodes add."""
    axes: dict[str, Axis | None] = {INPUT: None}
    for node in graph.nodes:
        axes[node.name] = _result_axis(node, axes, graph.shapes, groups)
    groups.free(axes[graph.nodes[-1].name])
    return axes


def _result_axis(
    node: Node, axes: Mapping[str, Axis | None], shapes: Mapping[str, Shape], groups: _Groups
) -> Axis | None:
    op, source = node.op, axes[node.inputs[0]]
    if isinstance(op, Conv2d) and op.is_depthwise:
        return _repeated(source, op.out_channels // op.in_channels)
    if isinstance(op, Conv2d | Linear | ConvTranspose2d):
        return _own_axis(node, source, groups)
    if isinstance(op, Recurrent):
        return groups.add(node.name, op.hidden_size)
    if isinstance(op, SelfAttention):
        return _repeat(groups.add(node.name, op.num_heads), op.head_dim)
    if isinstance(op, Embedding):
        return groups.add(node.name, op.embedding_dim)
    if isinstance(op, Add | Mul):
        return groups.join(source, axes[node.inputs[1]])
    if isinstance(op, Concat):
        return _concatenated([parts_of(axes[name], shapes[name][0]) for name in node.inputs])
    if isinstance(op, Flatten | Reshape):
        return _reshaped(source, shapes[node.inputs[0]][0], shapes[node.name][0], groups)
    if isinstance(op, FlattenPlaces):
        channels = shapes[node.inputs[0]][0]
        return source and _concatenated([parts_of(source, channels)] * (shapes[node.name][0] // channels))
    if (isinstance(op, Permute) and op.axes[0] != 0) or (isinstance(op, WithParameter) and _is_apart(op)):
        groups.free(source)
        return None
    return source


def _own_axis(node: Node, source: Axis | None, groups: _Groups) -> Axis | None:
    """Of a layer that has neurons of its own; those of a grouped transposed convolution lie along no axis."""
    op = node.op
    assert isinstance(op, Conv2d | Linear | ConvTranspose2d)
    if not isinstance(op, Linear) and op.groups > 1:
        groups.free(source)
    if isinstance(op, ConvTranspose2d) and op.groups > 1:
        return None
    return groups.add(node.name, op.out_features if isinstance(op, Linear) else op.out_channels)


def _is_apart(op: WithParameter) -> bool:
    """Whether the parameter has its channels on the third axis, which is no axis of a block."""
    return op.channels_last and len(op.shape) > 2


def _reshaped(source: Axis | None, before: int, after: int, groups: _Groups) -> Axis | None:
    """Values in the same order along an axis of `after` indices instead of `before`."""
    if after % before == 0:
        return _repeated(source, after // before)
    shrunk = source.repeat * after if isinstance(source, AxisSpec) and before % after == 0 else 1
    if isinstance(source, AxisSpec) and shrunk % before == 0:
        return AxisSpec(source.group, shrunk // before)
    groups.free(source)
    return None


def _repeated(axis: Axis | None, times: int) -> Axis | None:
    """The axis with each index repeated."""
    if isinstance(axis, JoinedAxis):
        return JoinedAxis(tuple((_repeat(part, times), size * times) for part, size in axis.parts))
    return _repeat(axis, times)


def _repeat(axis: AxisSpec | None, times: int) -> AxisSpec | None:
    return axis and AxisSpec(axis.group, axis.repeat * times)


def _concatenated(axes: list[tuple[tuple[AxisSpec | None, int], ...]]) -> JoinedAxis:
    return JoinedAxis(tuple(part for parts in axes for part in parts))


def _param_axes(
    op: Operation, node: Node, name: str, axes: Mapping[str, Axis | None]
) -> tuple[Axis | None, Axis | None]:
    """op  the node's operation on planes"""
    own, source = axes[node.name], axes[node.inputs[0]]
    if isinstance(op, ConvTranspose2d) and name == "weight":
        return source, own if op.groups == 1 else None
    if isinstance(op, Embedding):
        return None, own
    if isinstance(op, WithParameter) and op.channels_last and len(op.shape) > 1:
        return None, own
    if isinstance(op, PReLU) and op.num_parameters == 1:
        return None, None
    if isinstance(op, Recurrent | SelfAttention):
        cols = {op.main: source, "weight_hh_l0": own}
        return _below_each_other(op, own), cols.get(name)
    reads_all_inputs = isinstance(op, Linear) or (isinstance(op, Conv2d) and op.groups == 1)
    return own, source if name == "weight" and reads_all_inputs else None


def _input_axis(op: Operation, name: str) -> int | None:
    """Of a parameter of this operation on planes the axis of the inputs that it multiplies; None if it has none, or
    only those of a group of channels.
    """
    if isinstance(op, Recurrent | SelfAttention):
        return 1 if name in (op.main, "weight_hh_l0") else None
    if isinstance(op, ConvTranspose2d | Conv2d) and op.groups > 1:
        return None
    if name != "weight" or not isinstance(op, Linear | Conv2d | ConvTranspose2d):
        return None
    return 0 if isinstance(op, ConvTranspose2d) else 1


def _below_each_other(op: Recurrent | SelfAttention, own: Axis | None) -> Axis | None:
    """The rows of all gates, or of queries, keys and values, each as those of the result."""
    if not isinstance(own, AxisSpec):
        return None
    gates, size = (op.gates, op.hidden_size) if isinstance(op, Recurrent) else (3, op.features)
    return JoinedAxis(((own, size),) * gates)


def _fingerprint(graph: Graph, params: Mapping[str, ParamSpec]) -> bytes:
    shapes = json.dumps({name: spec.shape for name, spec in params.items()}, sort_keys=True)
    return hashlib.blake2b(f"{dumps(graph)}\n{shapes}".encode(), digest_size=FINGERPRINT_BYTES).digest()


def _sizes(axis: JoinedAxis) -> list[int]:
    return [size for _, size in axis.parts]


class _Groups:
    """Groups of neurons being joined (union-find: each layer points towards the earliest layer of its group)."""

    def __init__(self) -> None:
        self._size: dict[str, int] = {}
        self._parent: dict[str, str] = {}
        self._free: set[str] = set()  # roots of groups that turned out to be unrestricted

    def add(self, name: str, size: int) -> AxisSpec:
        self._size[name], self._parent[name] = size, name
        return AxisSpec(name)

    def free(self, axis: Axis | None) -> None:
        """Let the groups of `axis` be always active."""
        self._free.update(map(self._root, groups_of(axis)))

    def join(self, a: Axis | None, b: Axis | None) -> Axis | None:
        """One group for two results that are put together value by value, or for each of their parts; always active if
        one of them is, or if they are divided or repeated otherwise.
        """
        if isinstance(a, JoinedAxis) and isinstance(b, JoinedAxis) and _sizes(a) == _sizes(b):
            joined = zip(a.parts, b.parts, strict=True)
            return JoinedAxis(tuple((self._join(one, other), size) for (one, size), (other, _) in joined))
        if isinstance(a, JoinedAxis) or isinstance(b, JoinedAxis):
            self.free(a)
            self.free(b)
            return None
        return self._join(a, b)

    def _join(self, a: AxisSpec | None, b: AxisSpec | None) -> AxisSpec | None:
        if a is None or b is None or a.repeat != b.repeat:
            self.free(a)
            self.free(b)
            return None
        order = list(self._size)
        first, second = sorted((self._root(a.group), self._root(b.group)), key=order.index)
        self._parent[second] = first
        if second in self._free:
            self._free.add(first)
        return AxisSpec(first, a.repeat)

    def settled(self, axis: Axis | None) -> Axis | None:
        """`axis` with the final names of its groups, or None if all of it is always active."""
        if not isinstance(axis, JoinedAxis):
            return self._settled(axis)
        parts = tuple((self._settled(part), size) for part, size in axis.parts)
        return JoinedAxis(parts) if any(part for part, _ in parts) else None

    def _settled(self, axis: AxisSpec | None) -> AxisSpec | None:
        if axis is None or self._root(axis.group) in self._free:
            return None
        return AxisSpec(self._root(axis.group), axis.repeat)

    def sizes(self) -> dict[str, int]:
        return {name: size for name, size in self._size.items() if self._root(name) == name and name not in self._free}

    def _root(self, name: str) -> str:
        while self._parent[name] != name:
            name = self._parent[name]
        return name
