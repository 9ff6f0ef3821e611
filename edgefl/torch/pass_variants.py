"""Forward and backward passes of a user's own model in several ways: torch's, converted, and with frozen neurons. The
clock is the caller's (edgefl/cli/bench.py).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from edgefl.errors import GraphError
from edgefl.learning.lowering.mac_counts import step_macs
from edgefl.models.graph import Graph
from edgefl.models.graph.operations import Shape
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.torch.conversion import convert, plain
from edgefl.torch.model_factory import examples, module_by
from edgefl.torch.neuron_selection import GRAPH, select
from edgefl.torch.saved_tensors import saved_by


class Way(NamedTuple):
    """forward, backward  one after the other a pass, gradients being set anew
    saved  bytes that the forward pass keeps for the backward pass
    share  of the multiply-adds of a whole step, those that this one cannot do without; None: not known
    """

    name: str
    forward: Callable[[], None]
    backward: Callable[[], None]
    saved: int
    share: float | None


class Ways(NamedTuple):
    """without: why no neurons could be frozen; empty where they were."""

    ways: tuple[Way, ...]
    without: str
    threads: int


def ways_of(factory: object, name: str, input_shape: Shape, batch: int, keep: float, threads: int | None) -> Ways:
    """Three ways of the module that a factory makes, in training mode, on random inputs.

    Raises  GraphError if it makes none, or its result is no tensor; ValueError for a share out of bounds
    """
    torch.set_num_threads(threads or torch.get_num_threads())
    module = plain(module_by(factory, name)).train()
    x = examples(module, input_shape, batch)
    found = module(x)
    if not isinstance(found, Tensor):
        raise GraphError(f"{name} returns {type(found).__name__}; expected a tensor")
    output_grad = torch.randn_like(found)
    converted = convert(module)
    ways = [_way("torch, eager", module, x, output_grad, 1.0), _way("converted", converted, x, output_grad, 1.0)]
    frozen = copy.deepcopy(converted)
    try:
        chosen = select(frozen, keep, example_input=x[:2])
        share = _share(frozen.__dict__[GRAPH], chosen)
        ways.append(_way(f"converted, keep {keep:g}", frozen, x, output_grad, share))
        without = ""
    except GraphError as error:
        without = str(error)
    return Ways(tuple(ways), without, torch.get_num_threads())


def _share(graph: Graph, chosen: NeuronSet | None) -> float | None:
    whole = step_macs(graph)
    return step_macs(graph, chosen) / whole if whole else None


def _way(name: str, module: nn.Module, x: Tensor, output_grad: Tensor, share: float | None) -> Way:
    result: list[Tensor] = []

    def forward() -> None:
        module.zero_grad(set_to_none=True)
        result[:] = [module(x)]

    def backward() -> None:
        result.pop().backward(output_grad)

    return Way(name, forward, backward, saved_by(module, lambda: module(x)), share)
