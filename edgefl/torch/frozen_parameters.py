"""Frozen parts of a torch module: parameters without requires_grad, and BatchNorms in evaluation mode.

They are read from a module into a Graph, and set on a module by their names. Nothing is trained here.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from torch import nn

from edgefl.models.graph import Graph
from edgefl.models.graph.operations import BatchNorm
from edgefl.torch.layer_paths import module_path

STATISTICS = ("running_mean", "running_var")


def with_frozen(graph: Graph, module: nn.Module) -> Graph:
    """Return the graph of a module, in which the frozen parts of the module are frozen parameters.

    A parameter is frozen if its requires_grad is False. The running statistics of a BatchNorm are frozen if the
    BatchNorm is in evaluation mode while the module itself is in training mode. A module that is in evaluation mode as
    a whole says nothing about its BatchNorms: their statistics move when the graph is trained. A buffer in a weight's
    place is a constant of the graph.
    """
    parameters, infos = dict(module.named_parameters(remove_duplicate=False)), graph.parameters()
    frozen = {name for name in infos if name in parameters and not parameters[name].requires_grad}
    constants = earlier_constants(module, frozen) | {
        name for name, info in infos.items() if info.kind == "learn" and name not in parameters
    }
    frozen |= constants
    for node in graph.nodes:
        if isinstance(node.op, BatchNorm) and module.training and not module.get_submodule(module_path(node)).training:
            frozen |= {node.full_name(name) for name in STATISTICS if node.full_name(name) in infos}
    return replace(graph, frozen=frozenset(frozen), constants=frozenset(constants))


def earlier_constants(module: nn.Module, frozen: Collection[str]) -> set[str]:
    """Return the frozen parameters that are constants of the graph from which `to_torch` made the module."""
    graph = getattr(module, "edgefl_graph", None)
    return set(graph.constants.intersection(frozen)) if isinstance(graph, Graph) else set()


def freeze(module: nn.Module, frozen: Collection[str]) -> None:
    """Set requires_grad to False for the parameters with these names."""
    for name, parameter in module.named_parameters(remove_duplicate=False):
        if name in frozen:
            parameter.requires_grad_(False)


def keep_statistics(module: nn.Module, frozen: Collection[str]) -> None:
    """Put the BatchNorms whose running statistics have these names into evaluation mode."""
    for name in frozen:
        layer, _, last = name.rpartition(".")
        if last == STATISTICS[0]:
            module.get_submodule(layer).eval()
