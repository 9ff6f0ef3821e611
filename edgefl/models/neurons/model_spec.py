"""The class ModelSpec: what the two sides of a federation must agree on about a model.

It follows from a Graph and has no values. It says which neuron group indexes which axis of which parameter, so that a
set of active neurons selects blocks of parameters. group_inference.py states the rules and finds the groups of a
graph's results. This file derives the axes of parameters from them. The types of axes are defined in axes.py and can be
imported from here as well.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

from edgefl.models.graph import Graph, Node
from edgefl.models.graph.json import dumps
from edgefl.models.graph.operations import (
    Conv2d,
    ConvTranspose2d,
    Embedding,
    Kind,
    Linear,
    Operation,
    PReLU,
    Recurrent,
    SelfAttention,
    Shape,
    WithParameter,
)
from edgefl.models.graph.planar import planar
from edgefl.models.neurons.axes import Axis, AxisSpec, JoinedAxis, groups_of, parts_of
from edgefl.models.neurons.group_inference import axes_and_groups, result_axes

__all__ = [
    "Axis",
    "AxisSpec",
    "JoinedAxis",
    "ModelSpec",
    "ParamSpec",
    "groups_of",
    "layer_of",
    "parts_of",
    "result_axes",
]

FINGERPRINT_BYTES = 16


def layer_of(parameter: str) -> str:
    """Return the name of the layer that has this parameter."""
    return parameter.rpartition(".")[0]


class ParamSpec(NamedTuple):
    """A parameter's shape, its kind ("learn", "stat" or "frozen"), and the groups of its axes 0 (rows) and 1 (cols).

    An axis without a group (None) is never restricted.
    """

    shape: Shape
    kind: Kind
    rows: Axis | None = None
    cols: Axis | None = None


@dataclass(frozen=True)
class ModelSpec:
    """Parameters with their axes, groups with their sizes, and a fingerprint of the graph and the parameters' shapes.

    params       specifications of the parameters by full name, in node order
    groups       number of neurons of each group, in node order
    head         parameters of the last Linear layer and of the nodes after it, or empty if there is no Linear layer
    inputs       by weight that multiplies all inputs of its layer, the axis along which these inputs lie
    fingerprint  16 bytes, equal for two graphs if and only if their canonical JSON is equal
    """

    params: Mapping[str, ParamSpec]
    groups: Mapping[str, int]
    fingerprint: bytes
    head: tuple[str, ...] = ()
    inputs: Mapping[str, int] = field(default_factory=dict)

    @property
    def body(self) -> tuple[str, ...]:
        """Return the names of all parameters that do not belong to the head."""
        return tuple(name for name in self.params if name not in self.head)

    @property
    def learned(self) -> tuple[str, ...]:
        """Return the names of the parameters that training moves by gradient."""
        return tuple(name for name, param in self.params.items() if param.kind == "learn")

    @property
    def frozen(self) -> tuple[str, ...]:
        """Return the names of the parameters that keep their bits. A device gets them once, with the initial model."""
        return tuple(name for name, param in self.params.items() if param.kind == "frozen")

    @property
    def exchanged(self) -> tuple[str, ...]:
        """Return the names of the parameters that messages of a round may carry: all but the frozen ones."""
        return tuple(name for name, param in self.params.items() if param.kind != "frozen")

    def part(self, graph: Graph) -> ModelSpec:
        """Return the specification of some of the model's nodes, which form a graph of their own.

        The axes of its parameters have the groups of the whole model.
        """
        own = _spec(graph)
        return replace(own, params={name: self.params[name] for name in own.params}, groups=self.groups)

    @staticmethod
    def of(graph: Graph) -> ModelSpec:
        """Return the specification of `graph`, which is computed once for each graph."""
        return _spec(graph)


@lru_cache(maxsize=64)
def _spec(graph: Graph) -> ModelSpec:
    settled, groups = axes_and_groups(graph)
    planes, infos = {node.name: node.op for node in planar(graph).nodes}, graph.parameters()
    params = {
        full: ParamSpec(*infos[full], *_param_axes(planes[node.name], node, name, settled))
        for node in graph.nodes
        for name in node.op.parameters()
        for full in (node.full_name(name),)
    }
    axis = {
        node.full_name(name): axis
        for node in graph.nodes
        for name in node.op.parameters()
        if (axis := _input_axis(planes[node.name], name)) is not None
    }
    return ModelSpec(params, groups, _fingerprint(graph, params), _head(graph), axis)


def _head(graph: Graph) -> tuple[str, ...]:
    at = max((i for i, node in enumerate(graph.nodes) if isinstance(node.op, Linear)), default=len(graph.nodes))
    return tuple(node.full_name(name) for node in graph.nodes[at:] for name in node.op.parameters())


def _param_axes(
    op: Operation, node: Node, name: str, axes: Mapping[str, Axis | None]
) -> tuple[Axis | None, Axis | None]:
    """Return the axes (rows, cols) of a parameter. op is the node's operation on planes."""
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
    """Return the axis of a parameter whose indices are the inputs that it multiplies. op is on planes.

    It is None if the parameter multiplies no inputs, or only the inputs of a group of channels.
    """
    if isinstance(op, Recurrent | SelfAttention):
        return 1 if name in (op.main, "weight_hh_l0") else None
    if isinstance(op, ConvTranspose2d | Conv2d) and op.groups > 1:
        return None
    if name != "weight" or not isinstance(op, Linear | Conv2d | ConvTranspose2d):
        return None
    return 0 if isinstance(op, ConvTranspose2d) else 1


def _below_each_other(op: Recurrent | SelfAttention, own: Axis | None) -> Axis | None:
    """Return the axis of rows of all gates, or of queries, keys and values. Each part has the axis of the result."""
    if not isinstance(own, AxisSpec):
        return None
    gates, size = (op.gates, op.hidden_size) if isinstance(op, Recurrent) else (3, op.features)
    return JoinedAxis(((own, size),) * gates)


def _fingerprint(graph: Graph, params: Mapping[str, ParamSpec]) -> bytes:
    shapes = json.dumps({name: spec.shape for name, spec in params.items()}, sort_keys=True)
    return hashlib.blake2b(f"{dumps(graph)}\n{shapes}".encode(), digest_size=FINGERPRINT_BYTES).digest()
