"""ModelSpec: what the two sides of a federation must agree on about a model. Derived from a Graph; holds no values.

It says which neuron group indexes which axis of which parameter, so that a set of active neurons selects blocks of
parameters. The rules (ALGORITHMS 1.1):

* every convolution and Linear owns a group of its output channels or features; a following norm belongs to it;
* shape-preserving operations and pooling pass the group on; Flatten repeats a channel for its height * width features;
* a depthwise convolution has the neurons of its input, each repeated by the channel multiplier;
* results that are summed share one group, named after the earliest layer in it;
* the graph's input, its output (the classes), the input of a grouped convolution that is not depthwise, and whatever is
  summed with an unrestricted result belong to no group: they are always active.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from edgefl.graph import INPUT, Graph, Node
from edgefl.graph.json import dumps
from edgefl.graph.operations import Add, Conv2d, Flatten, Kind, Linear, Shape

FINGERPRINT_BYTES = 16


class AxisSpec(NamedTuple):
    """Index a of the axis belongs to neuron a // repeat of the group."""

    group: str
    repeat: int = 1


class ParamSpec(NamedTuple):
    """A parameter's shape and kind, and the groups of its axis 0 (rows) and axis 1 (cols); None is never restricted."""

    shape: Shape
    kind: Kind
    rows: AxisSpec | None = None
    cols: AxisSpec | None = None


@dataclass(frozen=True)
class ModelSpec:
    """Parameters with their axes, groups with their sizes, and a fingerprint of both and of the graph.

    params       by full name, in node order
    groups       neurons per group, in node order
    head         parameters of the last Linear layer and of what follows it; empty where there is no Linear layer
    fingerprint  16 bytes; equal for two graphs iff their canonical JSON is equal
    """

    params: Mapping[str, ParamSpec]
    groups: Mapping[str, int]
    fingerprint: bytes
    head: tuple[str, ...] = ()

    @property
    def body(self) -> tuple[str, ...]:
        """All parameters but the head's."""
        return tuple(name for name in self.params if name not in self.head)

    @staticmethod
    def of(graph: Graph) -> ModelSpec:
        """The specification of `graph`; computed once per graph."""
        return _spec(graph)


@lru_cache(maxsize=64)
def _spec(graph: Graph) -> ModelSpec:
    groups = _Groups()
    axes = _follow_axes(graph, groups)
    params = {
        f"{node.name}.{name}": ParamSpec(info.shape, info.kind, *_param_axes(node, name, axes, groups))
        for node in graph.nodes
        for name, info in node.op.parameters().items()
    }
    return ModelSpec(params, groups.sizes(), _fingerprint(graph, params), _head(graph))


def _head(graph: Graph) -> tuple[str, ...]:
    at = max((i for i, node in enumerate(graph.nodes) if isinstance(node.op, Linear)), default=len(graph.nodes))
    return tuple(f"{node.name}.{name}" for node in graph.nodes[at:] for name in node.op.parameters())


def result_axes(graph: Graph) -> dict[str, AxisSpec | None]:
    """The group of axis 0 of every result, "input" included; None is always active."""
    groups = _Groups()
    return {name: groups.settled(axis) for name, axis in _follow_axes(graph, groups).items()}


def _follow_axes(graph: Graph, groups: _Groups) -> dict[str, AxisSpec | None]:
    """The group of axis 0 of every result, as known where it is made; `groups` collects what later nodes add."""
    axes: dict[str, AxisSpec | None] = {INPUT: None}
    for node in graph.nodes:
        axes[node.name] = _result_axis(node, axes, graph.shapes, groups)
    groups.free(axes[graph.nodes[-1].name])
    return axes


def _result_axis(
    node: Node, axes: Mapping[str, AxisSpec | None], shapes: Mapping[str, Shape], groups: _Groups
) -> AxisSpec | None:
    op, source = node.op, axes[node.inputs[0]]
    if isinstance(op, Conv2d) and op.is_depthwise:
        return source and AxisSpec(source.group, source.repeat * (op.out_channels // op.in_channels))
    if isinstance(op, Conv2d | Linear):
        if isinstance(op, Conv2d) and op.groups > 1:
            groups.free(source)
        return groups.add(node.name, shapes[node.name][0])
    if isinstance(op, Add):
        return groups.join(source, axes[node.inputs[1]])
    if isinstance(op, Flatten):
        shape = shapes[node.inputs[0]]
        return source and AxisSpec(source.group, source.repeat * (shapes[node.name][0] // shape[0]))
    return source


def _param_axes(
    node: Node, name: str, axes: Mapping[str, AxisSpec | None], groups: _Groups
) -> tuple[AxisSpec | None, AxisSpec | None]:
    rows = groups.settled(axes[node.name])
    reads_all_inputs = isinstance(node.op, Linear) or (isinstance(node.op, Conv2d) and node.op.groups == 1)
    cols = groups.settled(axes[node.inputs[0]]) if name == "weight" and reads_all_inputs else None
    return rows, cols


def _fingerprint(graph: Graph, params: Mapping[str, ParamSpec]) -> bytes:
    shapes = json.dumps({name: spec.shape for name, spec in params.items()}, sort_keys=True)
    return hashlib.blake2b(f"{dumps(graph)}\n{shapes}".encode(), digest_size=FINGERPRINT_BYTES).digest()


class _Groups:
    """Groups of neurons being joined (union-find: each layer points towards the earliest layer of its group)."""

    def __init__(self) -> None:
        self._size: dict[str, int] = {}
        self._parent: dict[str, str] = {}
        self._free: set[str] = set()  # roots of groups that turned out to be unrestricted

    def add(self, name: str, size: int) -> AxisSpec:
        self._size[name], self._parent[name] = size, name
        return AxisSpec(name)

    def free(self, axis: AxisSpec | None) -> None:
        """Let the group of `axis` be always active."""
        if axis is not None:
            self._free.add(self._root(axis.group))

    def join(self, a: AxisSpec | None, b: AxisSpec | None) -> AxisSpec | None:
        """One group for two summed results; always active if one of them is, or if their repeats differ."""
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

    def settled(self, axis: AxisSpec | None) -> AxisSpec | None:
        """`axis` with the final name of its group, or None if that group is always active."""
        if axis is None or self._root(axis.group) in self._free:
            return None
        return AxisSpec(self._root(axis.group), axis.repeat)

    def sizes(self) -> dict[str, int]:
        return {name: size for name, size in self._size.items() if self._root(name) == name and name not in self._free}

    def _root(self, name: str) -> str:
        while self._parent[name] != name:
            name = self._parent[name]
        return name
