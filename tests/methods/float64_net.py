"""A net of three Linear layers: as a Graph, and in numpy's float64 by the equations of backpropagation.

The oracles of methods train the second from the first's values. They share with edgefl the random streams alone: the
clients of a round, the order of samples, and what a method draws. `Run` of test_frozen.py plays the same rounds through
the messages of the protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from edgefl.methods.client_state import minibatches
from edgefl.models.graph import Graph, Node
from edgefl.models.graph.operations import Flatten, Linear, ReLU
from tests.methods.small_models import CLASSES, device

RATE = 0.1
LAYERS = ("one", "two", "fc")
Net = dict[str, np.ndarray]  # float64 parameters by name
Batch = tuple[np.ndarray, np.ndarray]  # inputs [B, 32] and labels


def three_layers() -> Graph:
    """32 inputs - 8 neurons - ReLU - 6 neurons - ReLU - 3 classes."""
    return Graph(
        (2, 4, 4),
        (
            Node("flat", Flatten(), ("input",)),
            Node("one", Linear(32, 8), ("flat",)),
            Node("relu1", ReLU(), ("one",)),
            Node("two", Linear(8, 6), ("relu1",)),
            Node("relu2", ReLU(), ("two",)),
            Node("fc", Linear(6, CLASSES), ("relu2",)),
        ),
    )


def doubled(params: Mapping[str, np.ndarray]) -> Net:
    """Return a float64 copy."""
    return {name: value.astype(np.float64) for name, value in params.items()}


def outputs(net: Net, x: np.ndarray) -> list[np.ndarray]:
    """Return the inputs of the three layers, and the logits."""
    found = [x]
    for layer in LAYERS:
        result = found[-1] @ net[f"{layer}.weight"].T + net[f"{layer}.bias"]
        found.append(result if layer == LAYERS[-1] else np.maximum(result, 0))
    return found


def gradient(net: Net, batch: Batch) -> Net:
    """Return the gradient of the mean cross-entropy."""
    x, y = batch
    found, below = {}, outputs(net, x)
    logits = below.pop()
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    signal = shares / shares.sum(axis=1, keepdims=True)
    signal[np.arange(len(y)), y] -= 1
    signal /= len(y)
    for layer in reversed(LAYERS):
        inputs = below.pop()
        found[f"{layer}.weight"], found[f"{layer}.bias"] = signal.T @ inputs, signal.sum(axis=0)
        signal = (signal @ net[f"{layer}.weight"]) * (inputs > 0)
    return found


def trained(
    net: Net,
    batches: Sequence[Batch],
    changed: Callable[[str, np.ndarray], np.ndarray] = lambda name, slope: slope,
    rate: float = RATE,
) -> Net:
    """Return the net after a step of SGD for each batch, along what `changed` makes of each parameter's gradient."""
    net = {name: value.copy() for name, value in net.items()}
    for batch in batches:
        slopes = gradient(net, batch)
        for name, slope in slopes.items():
            net[name] -= rate * changed(name, slope)
    return net


def batches_of(graph: Graph, client: int, round: int, epochs: int, batch: int, first: int = 0) -> list[Batch]:
    """Return inputs and labels of a client's batches in a round, from the pass number `first` on."""
    client_state = device(graph, client)
    client_state.seed = 1
    rows = minibatches(client_state, round, epochs, batch, first)
    return [(client_state.data.x[r].reshape(len(r), -1).astype(np.float64), client_state.data.y[r]) for r in rows]


def difference(found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> float:
    """Return the largest absolute difference of two sets of parameters with equal names."""
    assert found.keys() == expected.keys()
    return max(float(np.abs(found[name] - expected[name]).max()) for name in expected)


def mean(nets: Sequence[Net], weights: Sequence[float] | None = None) -> Net:
    """Return the weighted mean of nets."""
    return {name: np.average([net[name] for net in nets], axis=0, weights=weights) for name in nets[0]}


def rounds_of(run: object, count: int) -> Iterator[tuple[int, list[int]]]:
    """Play rounds of a `Run` and yield after each its number and the clients that took part."""
    for round in range(1, count + 1):
        yield round, [plan.client for plan, _ in run.play(round)]  # type: ignore[attr-defined]
