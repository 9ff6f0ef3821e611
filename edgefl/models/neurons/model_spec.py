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

from edgefl.models.graph import Graph
from edgefl.models.graph.json import dumps
from edgefl.models.graph.operations import Kind, Linear, Shape
from edgefl.models.graph.parameter_sources import parameter_infos
from edgefl.models.graph.planar import planar
from edgefl.models.graph.shared_parameters import parameter_uses
from edgefl.models.neurons.axes import Axis, AxisSpec, JoinedAxis, groups_of, parts_of
from edgefl.models.neurons.group_inference import axes_and_groups, result_axes
from edgefl.models.neurons.parameter_axes import input_axis, parameter_axes

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
    head         parameters of the last Linear layer and of the nodes after it. It is empty if there is no Linear
                 layer, or if an earlier node shares one of these parameters
    inputs       by weight that multiplies all inputs of its layers, the axis along which these inputs lie
    computed     parameters from which each computed parameter of the graph follows
    fingerprint  16 bytes, equal for two graphs if and only if their canonical JSON is equal
    """

    params: Mapping[str, ParamSpec]
    groups: Mapping[str, int]
    fingerprint: bytes
    head: tuple[str, ...] = ()
    inputs: Mapping[str, int] = field(default_factory=dict)
    computed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

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
    uses = parameter_uses(graph.nodes)
    along = {
        full: parameter_axes(planes[use.node.name], use.node, use.part, settled)
        for full, (use, *_) in uses.items()
        if full in infos
    }
    params = {full: ParamSpec(*info, *along.get(full, (None, None))) for full, info in infos.items()}
    axes = {full: {input_axis(planes[use.node.name], use.part) for use in each} for full, each in uses.items()}
    direct = infos.keys() - {root for roots in graph.roots.values() for root in roots}
    axis = {full: found for full, (found, *more) in axes.items() if found is not None and not more and full in direct}
    return ModelSpec(params, groups, _fingerprint(graph, params), _head(graph), axis, graph.roots)


def _head(graph: Graph) -> tuple[str, ...]:
    """Return the parameters of the last Linear layer and of the nodes after it.

    The result is empty if an earlier node shares one of these parameters, because the body has the parameter as well.
    """
    at = max((i for i, node in enumerate(graph.nodes) if isinstance(node.op, Linear)), default=len(graph.nodes))
    body, head = (parameter_infos(nodes, graph.computed) for nodes in (graph.nodes[:at], graph.nodes[at:]))
    return () if body.keys() & head.keys() else tuple(head)


def _fingerprint(graph: Graph, params: Mapping[str, ParamSpec]) -> bytes:
    shapes = json.dumps({name: spec.shape for name, spec in params.items()}, sort_keys=True)
    return hashlib.blake2b(f"{dumps(graph)}\n{shapes}".encode(), digest_size=FINGERPRINT_BYTES).digest()
