"""Forward and backward passes of a user's own model in several ways: by torch, converted, and with frozen neurons.

The caller measures the time (edgefl/cli/bench.py).
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
    """One way to compute a forward and a backward pass.

    forward, backward  functions to call one after the other for one pass, where `forward` first drops the former
                       gradients
    saved  bytes that the forward pass keeps for the backward pass
    share  share of the multiply-adds of a whole training step that this way needs, or None if it is not known
    """

    name: str
    forward: Callable[[], None]
    backward: Callable[[], None]
    saved: int
    share: float | None


class Ways(NamedTuple):
    """The ways to compute the passes of a model.

    without  reason why no neurons could be frozen, or empty if neurons could be frozen
    threads  number of threads of torch
    """

    ways: tuple[Way, ...]
    without: str
    threads: int


def ways_of(factory: object, name: str, input_shape: Shape, batch: int, keep: float, threads: int | None) -> Ways:
    """Return three ways to compute the module that a factory makes, in training mode, on random inputs.

    batch    number of samples in the batch
    keep     share of the neurons that are trained in the third way
    threads  number of threads of torch, or None for torch's own number
    Raises  GraphError if the factory makes no module, or the module returns no tensor, ValueError for a share out of
            bounds
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
