"""Random masks of an exported graph: one Bernoulli number for each example, by which a result is multiplied.

Such a product is stochastic depth: examples are 0 with probability 1 - keep, and are divided by keep otherwise. Normal
numbers by randn_like are GaussianNoise. Every other use of random numbers is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, fx

from edgefl.errors import GraphError

NOT_RANDOM = "random values; expected a Dropout, or a product with one Bernoulli number for each example"


class RandomMask(NamedTuple):
    """One number for each example: `scale` with probability `keep`, and 0 otherwise."""

    keep: float
    scale: float = 1.0


class DrawingGraph(Protocol):
    """The lifting of an exported graph that draws random masks."""

    node: fx.Node

    def draw(self, mask: RandomMask) -> fx.Node:
        """Keep what is known of a random mask, and return the call that refuses every use but a StochasticDepth."""

    def lifted(self, arguments: Any) -> Any:
        """Return arguments with calls in place of the exported graph's nodes."""

    def call(self, function: Callable[..., Any], *args: Any, **settings: Any) -> fx.Node:
        """Append the call of a function with lifted arguments."""


def stochastic_depth(input: Tensor, p: float) -> Tensor:
    """Stand in a graph for a dropout of whole examples (function_table.py)."""
    raise GraphError(f"stochastic_depth with p={p} has no value; expected a graph that is converted")


def gaussian_noise(input: Tensor, in_evaluation: bool) -> Tensor:
    """Stand in a graph for standard normal numbers in the shape of a result (function_table.py)."""
    raise GraphError("gaussian_noise has no value; expected a graph that is converted")


def _normal(lift: DrawingGraph, input: fx.Node, **settings: Any) -> Any:
    """Return the call of noise. training_difference.py finds out whether evaluation draws it, too."""
    if settings.get("dtype", input.meta["val"].dtype) not in (None, input.meta["val"].dtype):
        raise GraphError(f"randn_like of dtype={settings['dtype']}; expected the type of its input")
    return lift.call(gaussian_noise, lift.lifted(input), True)


def _bernoulli(lift: DrawingGraph, input: fx.Node, p: Any = None, **settings: Any) -> Any:
    sizes = lift.node.meta["val"].shape
    if not isinstance(p, float) or not 0 < p < 1 or not _is_of_examples(sizes):
        raise GraphError(NOT_RANDOM)
    return lift.draw(RandomMask(p))


def _is_of_examples(sizes: Any) -> bool:
    return len(sizes) > 0 and isinstance(sizes[0], torch.SymInt) and math.prod(map(int, sizes[1:])) == 1


def divided(lift: DrawingGraph, mask: RandomMask, divisor: float) -> Any:
    """Return the call for a mask that forward divides by a number."""
    return lift.draw(RandomMask(mask.keep, mask.scale / divisor))


def masked(lift: DrawingGraph, input: fx.Node, mask: RandomMask) -> Any:
    """Return the call for a result that is multiplied by a mask."""
    if not math.isclose(mask.scale * mask.keep, 1, rel_tol=1e-6):
        raise GraphError(
            f"stochastic depth that keeps examples with probability {mask.keep:g} and multiplies them by "
            f"{mask.scale:g}; expected {1 / mask.keep:g}, so that the mean stays"
        )
    if input.meta["val"].dim() != lift.node.meta["val"].dim():
        raise GraphError(NOT_RANDOM)
    return lift.call(stochastic_depth, lift.lifted(input), round(1 - mask.keep, 12))


RANDOM: dict[str, Callable[..., Any]] = {"bernoulli": _bernoulli, "randn_like": _normal}
"""The calls for operations that draw random numbers, by the name of the operation without its overload."""
