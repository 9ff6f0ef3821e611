"""Small models, data and clients for the tests of the methods: a plain, a residual and a depthwise net."""

from __future__ import annotations

import numpy as np

from edgefl import rng
from edgefl.learning import GraphLearner, Samples
from edgefl.methods.client_state import ClientState
from edgefl.models.graph import Graph, Model, Node
from edgefl.models.graph.operations import Add, BatchNorm2d, Conv2d, Flatten, Linear, MaxPool2d, ReLU
from edgefl.models.neurons.model_spec import ModelSpec

CLASSES = 3


def plain() -> Graph:
    """conv(2 -> 4) - BN - ReLU - pool - conv(4 -> 6) - BN - ReLU - fc(24 -> 3)."""
    return Graph(
        (2, 4, 4),
        (
            Node("conv1", Conv2d(2, 4, (3, 3), padding=(1, 1)), ("input",)),
            Node("bn1", BatchNorm2d(4), ("conv1",)),
            Node("relu1", ReLU(), ("bn1",)),
            Node("pool", MaxPool2d((2, 2), (2, 2)), ("relu1",)),
            Node("conv2", Conv2d(4, 6, (3, 3), padding=(1, 1)), ("pool",)),
            Node("bn2", BatchNorm2d(6), ("conv2",)),
            Node("relu2", ReLU(), ("bn2",)),
            Node("flat", Flatten(), ("relu2",)),
            Node("fc", Linear(24, CLASSES), ("flat",)),
        ),
    )


def residual() -> Graph:
    """conv1(2 -> 4) is added to conv3(conv2(.)): conv1 and conv3 share one group of neurons."""
    return Graph(
        (2, 4, 4),
        (
            Node("conv1", Conv2d(2, 4, (3, 3), padding=(1, 1)), ("input",)),
            Node("relu1", ReLU(), ("conv1",)),
            Node("conv2", Conv2d(4, 5, (3, 3), padding=(1, 1)), ("relu1",)),
            Node("bn2", BatchNorm2d(5), ("conv2",)),
            Node("relu2", ReLU(), ("bn2",)),
            Node("conv3", Conv2d(5, 4, (3, 3), padding=(1, 1)), ("relu2",)),
            Node("sum", Add(), ("relu1", "conv3")),
            Node("flat", Flatten(), ("sum",)),
            Node("fc", Linear(64, CLASSES), ("flat",)),
        ),
    )


def depthwise() -> Graph:
    """conv1(2 -> 4) - depthwise 3x3 - BN - pointwise (4 -> 6) - fc: the depthwise layer has the neurons of conv1."""
    return Graph(
        (2, 4, 4),
        (
            Node("conv1", Conv2d(2, 4, (1, 1)), ("input",)),
            Node("relu1", ReLU(), ("conv1",)),
            Node("dw", Conv2d(4, 4, (3, 3), padding=(1, 1), groups=4), ("relu1",)),
            Node("bn", BatchNorm2d(4), ("dw",)),
            Node("relu2", ReLU(), ("bn",)),
            Node("pw", Conv2d(4, 6, (1, 1), bias=False), ("relu2",)),
            Node("relu3", ReLU(), ("pw",)),
            Node("flat", Flatten(), ("relu3",)),
            Node("fc", Linear(96, CLASSES), ("flat",)),
        ),
    )


GRAPHS = {"plain": plain, "residual": residual, "depthwise": depthwise}


def samples(count: int, seed: int = 1) -> Samples:
    """Random images whose label can be learnt: its class shifts one channel."""
    stream = rng.stream(seed, rng.DATA)
    y = stream.below(np.full(count, CLASSES)).astype(np.int32)
    x = stream.uniform(count * 32).astype(np.float32).reshape(count, 2, 4, 4)
    x[:, 0] += y[:, None, None] * np.float32(0.5)
    return Samples(np.ascontiguousarray(x), y)


def device(graph: Graph, client: int = 0, count: int = 20, seed: int = 1) -> ClientState:
    """A client with `count` samples, 60 % training, 20 % validation, 20 % test, and freshly initialised parameters."""
    order = np.arange(count, dtype=np.int32)
    learner = GraphLearner(Model(graph, graph.init(rng.stream(seed, rng.INIT))))
    train, validation, test = np.split(order, [count * 6 // 10, count * 8 // 10])
    return ClientState(client, seed, ModelSpec.of(graph), learner, samples(count, client + 10), train, validation, test)


def copied(params: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Parameters that share no memory with the learner's."""
    return {name: value.copy() for name, value in params.items()}


def same_bits(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> bool:
    """Equal names and equal bytes."""
    return a.keys() == b.keys() and all(a[name].tobytes() == b[name].tobytes() for name in a)
