"""Random models for the comparison with torch: graphs, neurons and settings of a fit, all functions of a seed.

fuzz.py has the comparison. There is a family of shapes for each of the ways that kernels go by size: channels around
vectors and panels, maps of one and of many vectors, batches whose channels are walked side by side, many features.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edgefl import rng as streams
from edgefl.errors import GraphError
from edgefl.learning import SGD, Adam, AdamW
from edgefl.learning.fit_options import Delta, FrozenStats, Trainable
from edgefl.learning.losses import MSE, BinaryCrossEntropy, CrossEntropy, Huber, Loss
from edgefl.learning.optimizers import Optimizer
from edgefl.models.graph import INPUT, Graph, Node
from edgefl.models.graph.operations import (
    GELU,
    GRU,
    LSTM,
    OPERATIONS,
    AdaptiveAvgPool2d,
    Add,
    AddParameter,
    AvgPool1d,
    AvgPool2d,
    BatchNorm1d,
    BatchNorm2d,
    Concat,
    Conv1d,
    Conv2d,
    ConvTranspose2d,
    Dropout,
    Dropout1d,
    Dropout2d,
    Embedding,
    Flatten,
    FlattenPlaces,
    GlobalAvgPool,
    GroupNorm,
    LayerNorm,
    Linear,
    MaxPool1d,
    MaxPool2d,
    Mish,
    Mul,
    MulParameter,
    Operation,
    Permute,
    PReLU,
    Rectifier,
    ReLU,
    Reshape,
    SelfAttention,
    Shape,
    SiLU,
    Slice,
    Smooth,
    Softplus,
    Upsample,
    ZeroPad2d,
)
from edgefl.models.neurons.model_spec import ModelSpec, layer_of
from edgefl.models.neurons.neuron_set import NeuronSet

Rng = np.random.Generator
CLASSES = 5
LEAST_OF_A_NORM = 12  # values that a norm takes the variance of: of fewer it is often near 0, where float32 says little
MOST_MACS = 40_000_000  # of a forward pass
MOST_FEATURES = 3000
MOST_CHANNELS = 300  # of results side by side
LARGEST_MAP = 1600  # cells of a plane that is made larger
RECTIFIERS = [kind for kind in OPERATIONS.values() if issubclass(kind, Rectifier)]
OTHERS = [kind for kind in OPERATIONS.values() if issubclass(kind, Smooth | PReLU) and kind is not Mish]  # of old seeds


@dataclass(frozen=True)
class Family:
    """Ranges, both ends included, from which a graph is drawn.

    size   of an input's planes, or of its sequence, or (0, 0) for features
    words  number of ids of the input, or 0 if it is not text
    """

    weight: int
    channels: tuple[int, ...]
    size: tuple[int, int]
    layers: tuple[int, int]
    batch: tuple[int, int]
    first: int = 4  # most channels of the input
    extents: int = 2
    words: int = 0


FAMILIES = {
    "narrow": Family(8, (1, 2, 3, 4, 5, 7, 8, 9), (4, 12), (1, 7), (2, 9)),
    "wide": Family(5, (15, 16, 17, 31, 33, 50, 64, 66, 72), (2, 7), (1, 4), (2, 9), 66),
    "map": Family(4, (3, 6, 8, 12, 20), (20, 37), (1, 3), (2, 5)),
    "crowd": Family(1, (2, 5, 17, 18), (33, 37), (1, 2), (31, 36), 18),
    "flat": Family(4, (5, 16, 33, 63, 64, 65, 130, 200), (0, 0), (0, 3), (3, 70), 300, 0),
    "line": Family(4, (1, 3, 4, 8, 9, 16, 33), (9, 70), (1, 6), (2, 9), 9, 1),
    "text": Family(2, (1, 3, 4, 8, 9, 16, 33), (9, 40), (1, 4), (2, 9), extents=1, words=30),
}


@dataclass(frozen=True)
class Trial:
    """A graph and a fit of it: everything but parameters and data.

    sizes  of the batches, in order
    """

    family: str
    graph: Graph
    sizes: tuple[int, ...]
    optimizer: Optimizer
    loss: Loss
    trainable: Trainable
    delta: Delta
    bn_frozen: FrozenStats
    mu: float | None
    is_linear: bool
    scale: float
    shift: float
    are_bytes: bool

    def __str__(self) -> str:
        ops = [str(node.op) for node in self.graph.nodes]
        return f"{self.family} graph {ops} in batches of {self.sizes}, {self.loss}, {self.optimizer}"


def trial(seed: int) -> Trial:
    """The trial of a seed."""
    draw, later = np.random.default_rng([seed, 0]), np.random.default_rng([seed, 2])
    names = [name for name, family in FAMILIES.items() for _ in range(family.weight)]
    name = names[draw.integers(len(names))]
    graph, batch = random_graph(draw, FAMILIES[name])
    trainable = random_trainable(draw, graph, seed)
    delta: Delta = "cut" if isinstance(trainable, NeuronSet) and draw.random() < 0.25 else "exact"
    return Trial(
        name,
        graph,
        (batch, batch, batch - 1) if batch < 9 else (batch,),
        random_optimizer(random_sgd(draw), later),
        random_loss(later),
        trainable,
        delta,
        "freeze" if draw.random() < 0.3 else "track",
        0.3 if draw.random() < 0.3 else None,
        draw.random() < 0.3,
        *random_scaling(draw, graph),
    )


def random_scaling(draw: Rng, graph: Graph) -> tuple[float, float, bool]:
    """Draw the scaling of the samples, and whether they are bytes. Ids are not scaled."""
    are_bytes = not draw.random() < 0.5
    if graph.vocabulary is not None:
        return (1.0, 0.0, are_bytes)
    return (2 / 255, -1.0, True) if are_bytes else (1.0, -0.5, False)


def random_sgd(draw: Rng) -> SGD:
    return SGD(
        0.02,
        momentum=float(draw.choice([0.0, 0.0, 0.8])),
        weight_decay=float(draw.choice([0.0, 0.1])),
        clip=float(draw.choice([0.3, 1e3])) if draw.random() < 0.3 else None,
    )


def random_optimizer(sgd: SGD, draw: Rng) -> Optimizer:
    """Return SGD in half of the graphs, and Nesterov, Adam or AdamW with SGD's decay and clip in the others.

    eps is large: where a gradient is nothing but rounding, Adam would make whole steps of it.
    """
    kind = draw.integers(8)
    if kind < 4:
        return sgd
    if kind == 4:
        return replace(sgd, momentum=0.8, nesterov=True)
    return (Adam if kind < 7 else AdamW)(0.01, (0.7, 0.9), 0.03, sgd.weight_decay, sgd.clip)


def random_loss(draw: Rng) -> Loss:
    """Plain cross-entropy in half of the graphs."""
    weights = tuple(draw.uniform(0.3, 3, CLASSES).tolist())
    others = (
        CrossEntropy(weight=weights, label_smoothing=0.1), CrossEntropy(label_smoothing=0.2), BinaryCrossEntropy(),
        BinaryCrossEntropy(weights), MSE(), Huber(0.7),
    )  # fmt: skip
    return CrossEntropy() if draw.random() < 0.5 else others[draw.integers(len(others))]


def random_trainable(draw: Rng, graph: Graph, seed: int) -> Trainable:
    """Draw neurons in most graphs, and everything, or some of the layers, in the others."""
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
        sizes = [self._between(family.size) for _ in range(family.extents)]
        least = 1 if sizes else 2
        channels = self._between((least, family.first))
        self._shapes: dict[str, Shape] = {INPUT: tuple(sizes) if family.words else (channels, *sizes)}
        self._nodes: list[Node] = []
        for _ in range(family.words and self._between((1, 2))):
            features, padding = int(self._choose(family.channels)), 3 if self._flag(0.5) else None
            self._append(Embedding(self._between((family.words // 2, family.words)), features, padding), INPUT)
        if len(self._nodes) > 1:
            self._append(Concat(), *(name for name in self._shapes if name != INPUT))

    def graph(self) -> Graph:
        layers = self._between(self._family.layers)
        if self._family.extents:
            for _ in range(layers):
                self._append_block()
                if self._apart.random() < 0.3:
                    self._append_at_positions()
            if self._flag(0.3):
                self._append(GlobalAvgPool())
            self._append(FlattenPlaces() if self._apart.random() < 0.3 else Flatten())
            layers = self._flag(0.4)
        for _ in range(layers):
            self._append_features()
        self._append(Linear(self._features(), CLASSES, bias=self._flag(0.8)))
        return Graph(self._shapes[INPUT], tuple(self._nodes))

    def _append_features(self) -> None:
        """A Linear layer, and what may follow it."""
        self._append(Linear(self._features(), int(self._choose((5, 16, 33, 64, 65))), bias=self._flag(0.7)))
        if self._flag(0.4):
            self._append_norm()
        if self._flag(0.7):
            self._append(self._activation())
        if self._flag(0.2):
            self._append_joint()
        self._append_dropout()

    def _append_block(self) -> None:
        """A convolution, pool, several results put together or a gate, and what may follow it."""
        kinds = [self._append_convolution] * 9 + [self._append_pool] * 2 + [self._append_joint] * 3
        if len(self._shape) == 3:
            kinds += [self._append_moved, self._append_transposed]
        else:
            kinds += [self._append_sequence] * 5
        self._choose([*kinds, self._append_gate])()
        if self._flag(0.5):
            self._append_norm()
        if self._flag(0.6):
            self._append(self._activation())
        if self._flag(0.2) and min(self._shape[1:]) > 1:
            self._append(self._of_sequences(MaxPool2d((2, 2), (2, 2))))
        self._append_dropout()

    def _append_at_positions(self) -> None:
        """Append an operation of sequences or of images with channels last: at each position, or on positions."""
        channels, *positions = self._shape
        pick = self._apart.permutation(7)[0]
        if pick < 2:
            out = self._family.channels[self._apart.integers(len(self._family.channels))]
            self._append(Linear(channels, out, bool(self._apart.random() < 0.7)))
        elif pick == 2 and channels >= LEAST_OF_A_NORM:
            self._append(LayerNorm((channels,)))
        elif pick < 5:
            kind = AddParameter if self._apart.random() < 0.5 else MulParameter
            shapes = [((channels,), False), ((channels, *positions), False), ((*positions, channels), True)]
            shape, is_last = shapes[self._apart.integers(3)]
            self._append(kind(shape, is_last, int(self._apart.integers(2))))
        elif pick == 5:
            self._append_permuted(len(positions) + 1)
        elif len(positions) == 1:
            start = int(self._apart.integers(positions[0]))
            self._append(Slice(start, 1 + int(self._apart.integers(positions[0] - start))))
        else:
            self._append(Reshape((positions[1], positions[0])))

    def _append_permuted(self, extents: int) -> None:
        """Axes in another order where that leaves few channels."""
        axes = tuple(map(int, self._apart.permutation(extents)))
        if self._shape[axes[0]] <= max(*self._family.channels, 12):
            self._append(Permute(axes))

    def _append_convolution(self) -> None:
        self._append(self._of_sequences(self._convolution()))

    def _append_pool(self) -> None:
        self._append(self._of_sequences(self._pool()))

    def _append_sequence(self) -> None:
        """A recurrent layer, or heads of any size."""
        kind, channels, bias = self._choose((GRU, LSTM, SelfAttention)), self._shape[0], self._flag(0.7)
        if kind is not SelfAttention:
            self._append(kind(channels, int(self._choose(self._family.channels)), bias))
            return
        heads = self._between((1, 5)), int(self._choose((1, 2, 3, 4, 8, 17)))
        self._append(SelfAttention(channels, *heads, causal=self._flag(0.5), bias=bias))

    def _append_joint(self) -> None:
        """Append a sum, a product, or results side by side, or an activation where there is nothing to join."""
        kind = self._choose((Add, Mul, Concat, Concat))
        partners = list(self._beside() if kind is Concat else self._partners())
        if not partners:
            self._append(self._activation())
        elif kind is Concat:
            chosen = [self._choose(partners) for _ in range(self._between((1, 2)))]
            inputs = self._shuffled([self._last, *dict.fromkeys(chosen)])
            if sum(self._shapes[name][0] for name in inputs) <= MOST_CHANNELS:
                self._append(Concat(), *inputs)
        else:
            self._append(kind(), *self._shuffled([self._last, self._choose(partners)]))

    def _append_gate(self) -> None:
        """Squeeze and excitation, or without the squeeze."""
        gated, channels = self._last, self._shape[0]
        self._append(GlobalAvgPool())
        for out in (*([max(1, channels // 2)] if self._flag(0.6) else []), channels):
            self._append(self._of_sequences(Conv2d(self._shape[0], out, (1, 1), bias=self._flag(0.7))))
            self._append(self._activation())
        self._append(Mul(), gated, self._last)

    def _append_moved(self) -> None:
        """Append an operation that only moves values, or means of equal windows."""
        _, height, width = self._shape
        if self._flag(0.3):
            self._append(ZeroPad2d(tuple(self._between((0, 2)) for _ in range(4))))
        elif self._flag(0.5) and height * width <= LARGEST_MAP // 4:
            self._append(Upsample(self._pair((1, 2, 2, 3))))
        else:
            is_equal = self._apart.random() < 0.5
            parts = [[n for n in range(1, size + 1) if size % n == 0 or not is_equal] for size in (height, width)]
            self._append(AdaptiveAvgPool2d((int(self._choose(parts[0])), int(self._choose(parts[1])))))

    def _append_transposed(self) -> None:
        channels, out = self._shape[0], int(self._choose(self._family.channels))
        kernel, stride, padding = self._pair((1, 2, 3, 4)), self._pair((1, 2)), self._pair((0, 0, 1))
        more = tuple(self._between((0, step - 1)) for step in stride)
        groups = 2 if channels % 2 == 0 and out % 2 == 0 and self._flag(0.2) else 1
        if math.prod(self._shape[1:]) * math.prod(stride) <= LARGEST_MAP:
            bias, dilation = self._flag(0.7), self._pair((1, 1, 1, 2))
            self._append(ConvTranspose2d(channels, out, kernel, stride, padding, more, groups, bias, dilation))

    def _append_norm(self) -> None:
        channels, pixels = self._shape[0], math.prod(self._shape[1:])
        groups = [g for g in (1, 2, 3, 4) if channels % g == 0 and channels // g * pixels >= LEAST_OF_A_NORM]
        if self._flag(0.6) and (self._batch - 1) * pixels >= LEAST_OF_A_NORM:
            self._append((BatchNorm2d if len(self._shape) == 3 else BatchNorm1d)(channels))
        elif groups and len(self._shape) == 3 and self._flag(0.7):
            self._append(GroupNorm(int(self._choose(groups)), channels))
        elif channels * pixels >= LEAST_OF_A_NORM:
            self._append(LayerNorm(self._shape))

    def _convolution(self) -> Conv2d:
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

    def _pool(self) -> MaxPool2d | AvgPool2d:
        window = self._pair((1, 2, 3)), self._pair((1, 2)), (0, 0)
        if self._flag(0.5):
            window = *window[:2], tuple(self._between((0, k // 2)) for k in window[0])
        ceils = bool(self._apart.random() < 0.3)
        if self._flag(0.5):
            return MaxPool2d(*window, ceils)
        return AvgPool2d(*window, count_include_pad=self._flag(0.5), ceil_mode=ceils)

    def _of_sequences(self, op: Conv2d | MaxPool2d | AvgPool2d) -> Operation:
        """The operation, or where results are lines what it does to the width of a plane."""
        if len(self._shape) == 3:
            return op
        window = op.kernel_size[1], op.stride[1], op.padding[1]
        if isinstance(op, Conv2d):
            return Conv1d(op.in_channels, op.out_channels, *window, op.dilation[1], op.groups, op.bias)
        if isinstance(op, MaxPool2d):
            return MaxPool1d(*window, op.ceil_mode)
        return AvgPool1d(*window, op.count_include_pad, op.ceil_mode)

    def _activation(self) -> Operation:
        """Draw an activation. Half are rectifiers, and half of these are ReLU. A separate stream keeps the shapes."""
        kinds = [*(ReLU for _ in RECTIFIERS), *RECTIFIERS]
        draw = self._apart
        kind = kinds[draw.integers(len(kinds))] if draw.random() < 0.5 else OTHERS[draw.integers(len(OTHERS))]
        if kind is PReLU:
            return PReLU(self._shape[0] if draw.random() < 0.6 else 1)
        if kind is Softplus:  # a threshold that no byte is at
            return Softplus(float(draw.choice([0.5, 1.0, 3.0])), float(draw.choice([1.7, 20.0])))
        if kind is SiLU and draw.random() < 0.5:
            return Mish()
        return GELU("tanh") if kind is GELU and draw.random() < 0.5 else kind()

    def _append_dropout(self) -> None:
        """Append a dropout now and then. It is drawn from a separate stream, as activations are."""
        draw = self._apart
        if draw.random() < 0.15:
            whole = {2: Dropout1d, 3: Dropout2d}.get(len(self._shape), Dropout)
            kind = whole if draw.random() < 0.4 else Dropout
            self._append(kind(float(draw.choice([0.0, 0.1, 0.5]))))

    def _partners(self) -> Iterator[str]:
        """Results that the last one can be added to."""
        return (name for name, shape in self._shapes.items() if shape == self._shape and name != self._last)

    def _beside(self) -> Iterator[str]:
        """Results that the last one can stand beside."""
        return (name for name, shape in self._shapes.items() if shape[1:] == self._shape[1:] and name != self._last)

    def _append(self, op: Operation, *inputs: str) -> None:
        node = Node(f"n{len(self._nodes)}", op, inputs or (self._last,))
        self._shapes[node.name] = node.output(self._shapes)
        self._nodes.append(node)

    def _shuffled(self, names: list[str]) -> list[str]:
        return [names[i] for i in self._draw.permutation(len(names))]

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
