"""Low-rank adapters after Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models" (ICLR 2022).

A layer with the frozen weight W gets a second way from its input x to its result: W x + (alpha / r) B A x. A has r
outputs, and B has as many outputs as W. A and B are trained, and everything else of the model is frozen.

    NAME           the frozen layer, whose node and parameters stay as they are
    NAME.lora_A    Linear to r features, Conv of W's window to r channels, or Embedding with rows of r values
    NAME.lora_B    Linear to W's outputs, or Conv of 1 x 1
    NAME.lora      the sum of both ways, with the factor alpha / r, which later nodes read in place of NAME's result

B starts at zeros, so the model first computes what it did. A starts as torch starts a layer. In an Embedding, A starts
at zeros and B is normally distributed, as in the package peft.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import numpy as np

from edgefl import rng
from edgefl.errors import GraphError, nearest
from edgefl.models.graph.computed_parameters import TransposedMatrix
from edgefl.models.graph.graph import Graph, Model, Params
from edgefl.models.graph.initial_values import initial
from edgefl.models.graph.node import Node
from edgefl.models.graph.operations import AdapterSum, Conv1d, Conv2d, Embedding, Linear, Operation
from edgefl.models.neurons.trained_part import chosen_parts

DOWN, UP, SUM = ".lora_A", ".lora_B", ".lora"
MOST_RANK = 4096
SHOWN = 5  # names in an error message


@dataclass(frozen=True)
class LowRankAdapter:
    """The adapter of one layer.

    module   name of the layer: the full name of its weight without the last part
    node     name of the frozen node in the graph
    rank     number r of outputs of A
    scale    alpha / r
    """

    module: str
    node: str
    rank: int
    scale: float

    @property
    def down(self) -> str:
        """The full name of the trained weight A."""
        return f"{self.module}{DOWN}.weight"

    @property
    def up(self) -> str:
        """The full name of the trained weight B."""
        return f"{self.module}{UP}.weight"


def add_adapters(
    model: Model,
    *,
    rank: int = 8,
    alpha: float | None = None,
    targets: str | Sequence[str] = "*",
    train: str = "",
    seed: int = 0,
) -> Model:
    """Return the model with an adapter for each layer that `targets` names. Only the adapters are trained.

    model    model without adapters. It is not changed, and the new model has its arrays
    rank     number of values between A and B, from 1 to 4,096, and at most the inputs and outputs of each layer
    alpha    the product B A counts alpha / rank times. None: alpha is twice the rank
    targets  names of layers, as a sequence or separated by commas. A name is a whole name such as "h.0.attn.c_attn",
             its last parts such as "c_attn", or a pattern of one of them with * and ?. Linear layers, convolutions of
             one group and embeddings can have adapters
    train    patterns of further parameters that are trained (neurons/trained_part.py), such as "head"
    seed     seed of the initial values
    Raises   GraphError that names the value that does not fit, or a target that is no layer
    """
    names = [name.strip() for name in (targets.split(",") if isinstance(targets, str) else targets)]
    factor = _scale(rank, alpha)
    if found := adapters_of(model.graph):
        raise GraphError(f"the model has an adapter of {found[0].module} already; expected a model without adapters")
    chosen = _chosen(model.graph, names)
    adapters = {node.name: LowRankAdapter(_module(model.graph, node), node.name, rank, factor) for node in chosen}
    graph = _with_nodes(model.graph, adapters)
    also = chosen_parts(model.graph, train).keys() if train else frozenset()
    trained = {name for each in adapters.values() for name in (each.down, each.up)} | set(also)
    graph = replace(graph, frozen=frozenset(graph.parameters()) - trained)
    return model._replace(graph=graph, params={**_initial(graph, adapters.values(), seed), **model.params})


def adapters_of(graph: Graph) -> tuple[LowRankAdapter, ...]:
    """Return the adapters of a graph that `add_adapters` has made, in the order of its nodes."""
    shapes, found = graph.parameters(), []
    for node in graph.nodes:
        if isinstance(node.op, AdapterSum):
            adapter = LowRankAdapter(node.name.removesuffix(SUM), node.inputs[0], 1, node.op.scale)
            found.append(replace(adapter, rank=shapes[adapter.up].shape[1]))
    return tuple(found)


def _scale(rank: int, alpha: float | None) -> float:
    if not isinstance(rank, int) or not 1 <= rank <= MOST_RANK:
        raise GraphError(f"rank={rank!r}; expected an integer from 1 to {MOST_RANK}")
    alpha = 2.0 * rank if alpha is None else alpha
    if not 0 < alpha < float("inf"):
        raise GraphError(f"alpha={alpha!r}; expected a number above 0")
    return alpha / rank


def _chosen(graph: Graph, targets: Sequence[str]) -> list[Node]:
    """Return the nodes that the targets name, in the order of the graph. Raises GraphError for a target without any."""
    able = {_module(graph, node): node for node in graph.nodes if _is_able(graph, node)}
    chosen: dict[str, Node] = {}
    for target in targets:
        found = {module: node for module, node in able.items() if _names(target, module)}
        if not found:
            close = nearest(target, able) if target else []
            listed = ", ".join(close or list(able)[:SHOWN]) or "none in this model"
            raise GraphError(
                f"targets={target!r} names no layer that can have an adapter; expected Linear layers, convolutions of "
                f"one group or embeddings: {listed}"
            )
        chosen |= found
    order = {node.name: number for number, node in enumerate(graph.nodes)}
    return sorted(chosen.values(), key=lambda node: order[node.name])


def _names(target: str, module: str) -> bool:
    parts = module.split(".")
    return any(fnmatchcase(".".join(parts[start:]), target) for start in range(len(parts)))


def _is_able(graph: Graph, node: Node) -> bool:
    """Return whether a node can have an adapter: one use of a weight that the product B A can be added to."""
    if not isinstance(node.op, Linear | Embedding | Conv1d | Conv2d):
        return False
    groups = node.op.groups if isinstance(node.op, Conv1d | Conv2d) else 1
    root = root_of(graph, node)
    return groups == 1 and root is not None and root not in graph.shared


def root_of(graph: Graph, node: Node) -> str | None:
    """Return the parameter that is a node's weight or its transpose, or None if the weight is computed otherwise."""
    name = node.full_name("weight")
    computed = {each.name: each for each in graph.computed}
    if name not in computed:
        return name
    return computed[name].sources[0] if isinstance(computed[name].op, TransposedMatrix) else None


def _module(graph: Graph, node: Node) -> str:
    return (root_of(graph, node) or node.full_name("weight")).removesuffix(".weight")


def _with_nodes(graph: Graph, adapters: dict[str, LowRankAdapter]) -> Graph:
    """Return the graph with the nodes of adapters, which are by node."""
    nodes: list[Node] = []
    results: dict[str, str] = {}  # name of a layer's node -> name of the sum that stands for its result
    for node in graph.nodes:
        node = replace(node, inputs=tuple(results.get(name, name) for name in node.inputs))
        nodes.append(node)
        if (adapter := adapters.get(node.name)) is None:
            continue
        down, up = _operations(node.op, adapter.rank)
        module, total = adapter.module, AdapterSum.of(adapter.scale)
        nodes.append(Node(f"{module}{DOWN}", down, node.inputs))
        nodes.append(Node(f"{module}{UP}", up, (f"{module}{DOWN}",)))
        nodes.append(Node(f"{module}{SUM}", total, (node.name, f"{module}{UP}")))
        results[node.name] = f"{module}{SUM}"
    auxiliary = tuple(replace(each, result=results.get(each.result, each.result)) for each in graph.auxiliary)
    return replace(graph, nodes=tuple(nodes), auxiliary=auxiliary)


def _operations(op: Operation, rank: int) -> tuple[Operation, Operation]:
    """Return the operations A and B of an adapter of rank r."""
    if isinstance(op, Linear):
        inner, outer, most = op.in_features, op.out_features, min(op.in_features, op.out_features)
        found: tuple[Operation, Operation] = Linear(inner, rank, bias=False), Linear(rank, outer, bias=False)
    elif isinstance(op, Embedding):
        most = min(op.num_embeddings, op.embedding_dim)
        found = Embedding(op.num_embeddings, rank, op.padding_idx), Linear(rank, op.embedding_dim, bias=False)
    else:
        assert isinstance(op, Conv1d | Conv2d)
        most = min(math.prod(op.parameters()["weight"].shape[1:]), op.out_channels)
        point = Conv1d(rank, op.out_channels, 1, bias=False)
        wide = point if isinstance(op, Conv1d) else Conv2d(rank, op.out_channels, (1, 1), bias=False)
        found = replace(op, out_channels=rank, bias=False), wide
    if rank > most:
        raise GraphError(f"rank={rank} of an adapter of {op}; expected at most {most}, its inputs or outputs")
    return found


def _initial(graph: Graph, adapters: Iterable[LowRankAdapter], seed: int) -> Params:
    """Return the first values of the adapters' parameters. An adapter that is added has no effect yet."""
    nodes, shapes = {node.name: node for node in graph.nodes}, graph.parameters()
    stream, params = rng.stream(seed, rng.INIT), {}
    for each in adapters:
        down = nodes[f"{each.module}{DOWN}"].op
        params[each.up] = np.zeros(shapes[each.up].shape, np.float32)
        params[each.down] = initial(down, "weight", shapes[each.down].shape, stream)
        if isinstance(down, Embedding):
            params[each.up] = np.ascontiguousarray(
                initial(Embedding(*shapes[each.up].shape), "weight", shapes[each.up].shape, stream)
            )
            params[each.down] = np.zeros(shapes[each.down].shape, np.float32)
    return params
