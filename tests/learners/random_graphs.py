"""Random models for the comparison with torch: graphs, neurons and settings of a fit, all functions of a seed.

No comparison here (fuzz.py). There is a family of shapes for each of the ways that kernels go by size: channels around
words and panels, maps of one and of many words, batches whose channels are walked side by side, many features.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgefl import rng as streams
from edgefl.errors import GraphError
from edgefl.graph import INPUT, Graph, Node
from edgefl.graph.operations import (
    OPERATIONS,
    Add,
    AvgPool2d,
    BatchNorm2d,
    Conv2d,
    Flatten,
    GlobalAvgPool,
    GroupNorm,
    Linear,
    MaxPool2d,
    Operation,
    Rectifier,
    ReLU,
    Shape,
)
from edgefl.learners import SGD
from edgefl.learners.base import Delta, FrozenStats, Trainable
from edgefl.learners.lowering.active import layer_of
from edgefl.neurons.selection import NeuronSet
from edgefl.neurons.spec import ModelSpec

Rng = np.random.Generator
CLASSES = 5
LEAST_OF_A_NORM = 12  # values that a norm takes the variance of: of fewer it is often near 0, where float32 says little
MOST_MACS = 40_000_000  # of a forward pass
MOST_FEATURES = 3000
RECTIFIERS = [kind for kind in OPERATIONS.values() if issubclass(kind, Rectifier)]


@dataclass(frozen=True)
class Family:
    """Ranges, both ends included, of what a graph is drawn from."""

    weight: int
    channels: tuple[int, ...]
    size: tuple[int, int]
    layers: tuple[int, int]
    batch: tuple[int, int]
    first: int = 4  # most channels of the input


FAMILIES = {
    "narrow": Family(8, (1, 2, 3, 4, 5, 7, 8, 9), (4, 12), (1, 7), (2, 9)),
    "wide": Family(5, (15, 16, 17, 31, 33, 50, 64, 66, 72), (2, 7), (1, 4), (2, 9), 66),
    "map": Family(4, (3, 6, 8, 12, 20), (20, 37), (1, 3), (2, 5)),
    "crowd": Family(1, (2, 5, 17, 18), (33, 37), (1, 2), (31, 36), 18),
    "flat": Family(4, (5, 16, 33, 63, 64, 65, 130, 200), (0, 0), (0, 3), (3, 70), 300),
}


@dataclass(frozen=True)
class Trial:
    """A graph and a fit of it: everything but parameters and data.

    sizes  of the batches, in order
    """

    family: str
    graph: Graph
    sizes: tuple[int, ...]
    sgd: SGD
    trainable: Trainable
    delta: Delta
    bn_frozen: FrozenStats
    mu: float | None
    is_linear: bool
    scale: float
    shift: float
    are_bytes: bool

    def __str__(self) -> str:
        return f"{self.family} graph {[str(node.op) for node in self.graph.nodes]} in batches of {self.sizes}"


def trial(seed: int) -> Trial:
    """The trial of a seed."""
    draw = np.random.default_rng([seed, 0])
    names = [name for name, family in FAMILIES.items() for _ in range(family.weight)]
    name = names[draw.integers(len(names))]
    graph, batch = random_graph(draw, FAMILIES[name])
    trainable = random_trainable(draw, graph, seed)
    delta: Delta = "cut" if isinstance(trainable, NeuronSet) and draw.random() < 0.25 else "exact"
    return Trial(
        name,
        graph,
        (batch, batch, batch - 1) if batch < 9 else (batch,),
        random_sgd(draw),
        trainable,
        delta,
        "freeze" if draw.random() < 0.3 else "track",
        0.3 if draw.random() < 0.3 else None,
        draw.random() < 0.3,
        *((1.0, -0.5, False) if draw.random() < 0.5 else (2 / 255, -1.0, True)),
    )


def random_sgd(draw: Rng) -> SGD:
    return SGD(
        0.02,
        momentum=float(draw.choice([0.0, 0.0, 0.8])),
        weight_decay=float(draw.choice([0.0, 0.1])),
        clip=float(draw.choice([0.3, 1e3])) if draw.random() < 0.3 else None,
    )


def random_trainable(draw: Rng, graph: Graph, seed: int) -> Trainable:
    """Neurons in most graphs; everything, or some of the layers, in the others."""
    spec = ModelSpec.of(graph)
    kind = draw.integers(10)
    if kind < 6:
        return NeuronSet.draw(spec, float(draw.choice([0.25, 0.5, 0.8])), streams.stream(seed, streams.NEURONS))
    if kind < 8:
        return None
    layers = sorted({layer_of(name) for name in spec.params})
    return frozenset(layer for layer in layers if draw.random() < 0.6) or frozenset(layers[-1:])


def random_graph(draw: Rng, family: Family) -> tuple[Graph, int]:
    """A graph of the family, and a batch that keeps it within MOST_MACS."""
    for _ in range(100):
        batch = int(draw.integers(family.batch[0], family.batch[1] + 1))
        try:
            graph = _Builder(draw, family, batch).graph()
        except GraphError:
            continue
        if batch * sum(node.op.macs(graph.shapes[node.name]) for node in graph.nodes) <= MOST_MACS:
            return graph, batch
    raise ValueError(f"no graph within {MOST_MACS} multiplications in 100 draws from {family}")


class _Builder:
    """A graph that grows node by node."""

    def __init__(self, draw: Rng, family: Family, batch: int) -> None:
        self._draw, self._family, self._batch = draw, family, batch
        self._apart = draw.spawn(1)[0]
        sizes = [self._between(family.size) for _ in range(2)] if family.size[1] else []
        least = 1 if sizes else 2
        self._shapes: dict[str, Shape] = {INPUT: (self._between((least, family.first)), *sizes)}
        self._nodes: list[Node] = []

    def graph(self) -> Graph:
        layers = self._between(self._family.layers)
        if len(self._shape) == 3:
            for _ in range(layers):
                self._append_block()
            if self._flag(0.3):
                self._append(GlobalAvgPool())
            self._append(Flatten())
            layers = self._flag(0.4)
        for _ in range(layers):
            self._append(Linear(self._features(), int(self._choose((5, 16, 33, 64, 65))), bias=self._flag(0.7)))
            if self._flag(0.6):
                self._append(self._rectifier())
        self._append(Linear(self._features(), CLASSES, bias=self._flag(0.8)))
        return Graph(self._shapes[INPUT], tuple(self._nodes))

    def _append_block(self) -> None:
        """A convolution, pool or sum, and what may follow it."""
        self._append(self._choose([self._convolution, self._convolution, self._convolution, self._pool, self._sum])())
        if self._flag(0.5):
            self._append_norm()
        if self._flag(0.5):
            self._append(self._rectifier())
        if self._flag(0.2) and min(self._shape[1:]) > 1:
            self._append(MaxPool2d((2, 2), (2, 2)))

    def _append_norm(self) -> None:
        channels, pixels = self._shape[0], math.prod(self._shape[1:])
        groups = [g for g in (1, 2, 3, 4) if channels % g == 0 and channels // g * pixels >= LEAST_OF_A_NORM]
        if self._flag(0.6) and (self._batch - 1) * pixels >= LEAST_OF_A_NORM:
            self._append(BatchNorm2d(channels))
        elif groups:
            self._append(GroupNorm(int(self._choose(groups)), channels))

    def _convolution(self) -> Operation:
        channels, out = self._shape[0], int(self._choose(self._family.channels))
        choices = ((1, 2, 3, 3, 5), (1, 1, 1, 2, 3), (0, 1, 1, 2), (1, 1, 1, 2))
        kernel, stride, padding, dilation = map(self._pair, choices)
        if self._flag(0.4):  # what most layers are
            kernel, stride, padding, dilation = (3, 3), (1, 1), (1, 1), (1, 1)
        groups = 1
        if channels > 1 and self._flag(0.2):
            groups, out = channels, channels * self._between((1, 2))
        elif channels % 2 == 0 and out % 2 == 0 and self._flag(0.1):
            groups = 2
        return Conv2d(channels, out, kernel, stride, padding, dilation, groups, bias=self._flag(0.7))

    def _pool(self) -> Operation:
        window = self._pair((1, 2, 3)), self._pair((1, 2)), (0, 0)
        if self._flag(0.5):
            window = *window[:2], tuple(self._between((0, k // 2)) for k in window[0])
        return MaxPool2d(*window) if self._flag(0.5) else AvgPool2d(*window, count_include_pad=self._flag(0.5))

    def _sum(self) -> Operation:
        return Add() if any(self._partners()) else self._rectifier()

    def _rectifier(self) -> Operation:
        """Mostly ReLU; drawn apart, so that another kind changes nothing else of a seed's graph."""
        kinds = [*(ReLU for _ in RECTIFIERS), *RECTIFIERS]
        return kinds[self._apart.integers(len(kinds))]()

    def _partners(self) -> Iterator[str]:
        """Results that the last one can be added to."""
        return (name for name, shape in self._shapes.items() if shape == self._shape and name != self._last)

    def _append(self, op: Operation) -> None:
        inputs = (self._last, self._choose(list(self._partners()))) if isinstance(op, Add) else (self._last,)
        node = Node(f"n{len(self._nodes)}", op, inputs)
        self._shapes[node.name] = node.output(self._shapes)
        self._nodes.append(node)

    @property
    def _last(self) -> str:
        return self._nodes[-1].name if self._nodes else INPUT

    @property
    def _shape(self) -> Shape:
        return self._shapes[self._last]

    def _features(self) -> int:
        if self._shape[0] > MOST_FEATURES:
            raise GraphError(f"{self._shape[0]} features; expected at most {MOST_FEATURES}")
        return self._shape[0]

    def _between(self, ends: tuple[int, int]) -> int:
        return int(self._draw.integers(ends[0], ends[1] + 1))

    def _pair(self, values: tuple[int, ...]) -> tuple[int, int]:
        return int(self._choose(values)), int(self._choose(values))

    def _choose(self, values: Sequence[Any]) -> Any:
        return values[self._draw.integers(len(values))]

    def _flag(self, probability: float) -> bool:
        return bool(self._draw.random() < probability)
