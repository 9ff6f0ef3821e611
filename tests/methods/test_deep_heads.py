"""Heads of several layers and losses without labels, against torch's float64, and the heads that are refused
(ALGORITHMS 6, 7.8, 7.9 and 7.11)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from edgefl import rng
from edgefl.learning import GraphLearner, Samples
from edgefl.learning.losses import Loss
from edgefl.methods import PFLEGO, FedBABU, FedPer, FedRecon, FedRep
from edgefl.methods.accumulator import Accumulator
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.client_state import ClientState, minibatches
from edgefl.methods.own_head import OwnHead
from edgefl.methods.personal_head import HEAD
from edgefl.methods.task import BODY, MODEL, State, Task
from edgefl.models.graph import Graph, Model, Node
from edgefl.models.graph.operations import Add, BatchNorm2d, Conv2d, Dropout, Flatten, Linear, ReLU
from edgefl.models.neurons.model_spec import ModelSpec
from tests.methods.float64_net import LAYERS, RATE, batches_of, difference, doubled, mean, three_layers, trained
from tests.methods.small_models import same_bits
from tests.methods.test_frozen import Run
from tests.smooth import one_torch_thread  # noqa: F401

Net = dict[str, torch.Tensor]
SIZES, CLASSES, OUTPUTS = (7, 12, 9), ([0, 2], [0, 1, 2], [1]), 3  # of three clients: training samples, and classes
TOTAL = sum(SIZES)
RATES: dict[str, Any] = {"beta": 0.2, "rho": 0.1, "tau": 4, "chunk": 5, "per_round": 2}
STEPS: dict[str, Any] = {"epochs": 2, "batch": 4, "lr": 0.1, "per_round": 2}
LOSS: dict[str, Callable[..., torch.Tensor]] = {
    "mse": functional.mse_loss,
    "bce": functional.binary_cross_entropy_with_logits,
    "cross-entropy": functional.cross_entropy,
}


def federation(loss: str) -> list[ClientState]:
    """Return clients with random inputs and targets. Two samples of each are its test."""
    graph, made = three_layers(), []
    for k, size in enumerate(SIZES):
        stream, n = rng.stream(8, rng.DATA, client=k), size + 2
        x = stream.uniform(n * 32).reshape(n, 2, 4, 4).astype(np.float32)
        y: Any = np.resize(CLASSES[k], n).astype(np.int32)
        if loss != "cross-entropy":
            y = stream.uniform(n * OUTPUTS).reshape(n, OUTPUTS).astype(np.float32)
        learner = GraphLearner(Model(graph, graph.init(rng.stream(1, rng.INIT))), "native")
        order = np.arange(n, dtype=np.int32)
        data = Samples(x, y, loss=Loss.parse(loss))
        made.append(ClientState(k, 1, ModelSpec.of(graph), learner, data, order[:-2], order[:0], order[-2:]))
    return made


def task(loss: str, graph: Graph | None = None) -> Task:
    graph = graph or three_layers()
    return Task(ModelSpec.of(graph), 3, 1, examples=TOTAL, loss=Loss.parse(loss), outputs=OUTPUTS, graph=graph)


def play(method: OwnHead, about: Task, client_states: Sequence[ClientState], state: State, round: int) -> list[int]:
    """Play a round, which changes `state`, and return the clients that took part."""
    accumulator, plans = Accumulator(about.spec), method.plan(about, state, round)
    for plan in plans:
        method.aggregate(accumulator, plan, method.train(client_states[plan.client], plan))
    state.arrays = method.finish(about, state, accumulator, round).arrays
    return [plan.client for plan in plans]


@pytest.mark.parametrize("method", [PFLEGO(**RATES, head_layers=2), FedRecon(**{**RATES, "rho": 0.5}, head_layers=2)])
@pytest.mark.parametrize("loss", ["cross-entropy", "mse"])
def test_a_newcomer_takes_the_steps_of_a_deep_head(method: PFLEGO | FedRecon, loss: str) -> None:
    """It has no plan that names the cut. Its whole passes end where steps on the features of the cut end."""
    about, body = task(loss), arrays_of_a_body(method)
    by_features = method.personal(federation(loss)[1], body)
    by_features.head_steps(method.tau, method.optimizer_at(method.beta), 5, method.cut(about)["cut"])
    with method.newcomer(federation(loss)[1], {BODY: body}) as mine:
        for name, value in by_features.learner.read().items():
            np.testing.assert_allclose(mine.learner.read()[name], value, rtol=0, atol=1e-6)
            assert name not in body or same_bits({name: mine.learner.read()[name]}, {name: body[name]})
    assert method.has_newcomers


def arrays_of_a_body(method: OwnHead) -> dict[str, Any]:
    """Return a body with other values than those that clients begin with."""
    graph = three_layers()
    names, values = method.body_names(ModelSpec.of(graph)), graph.init(rng.stream(2, rng.INIT))
    return {name: values[name] for name in names}


# The methods in torch's float64.


class Twin:
    """A client in float64: its samples, its head, and gradients of the mean loss."""

    def __init__(self, client_state: ClientState, loss: str) -> None:
        self.state, self.loss = client_state, loss
        self.x = torch.tensor(client_state.data.x, dtype=torch.float64).flatten(1)
        y = np.asarray(client_state.data.y)
        rows = np.searchsorted(CLASSES[client_state.client], y) if loss == "cross-entropy" else y
        self.y = torch.tensor(rows, dtype=torch.int64 if loss == "cross-entropy" else torch.float64)
        self.outputs = len(CLASSES[client_state.client]) if loss == "cross-entropy" else OUTPUTS
        self.head: Net = {}

    def draw(self, layers: int) -> None:
        """Draw a head as a new Linear layer for each layer: uniform in +- 1 / sqrt(inputs)."""
        shapes = {"one": (8, 32), "two": (6, 8), "fc": (self.outputs, 6)}
        stream = rng.stream(1, rng.HEAD, self.state.client, 0)
        for layer in LAYERS[-layers:]:
            for part, shape in (("weight", shapes[layer]), ("bias", shapes[layer][:1])):
                values = 2 * stream.uniform(int(np.prod(shape))).reshape(shape) - 1
                self.head[f"{layer}.{part}"] = torch.tensor(values / np.sqrt(shapes[layer][1]))

    def gradient(self, net: Net, rows: np.ndarray) -> Net:
        at, h = {name: value.clone().requires_grad_() for name, value in net.items()}, self.x[rows]
        for layer in LAYERS:
            h = h @ at[f"{layer}.weight"].T + at[f"{layer}.bias"]
            h = h if layer == LAYERS[-1] else h.relu()
        found = torch.autograd.grad(LOSS[self.loss](h, self.y[rows]), list(at.values()))
        return dict(zip(at, found, strict=True))

    def stepped(self, body: Net, batches: Sequence[np.ndarray], rate: float, moved: Sequence[str]) -> Net:
        """Return the body after steps of these parameters, of which those of the head are kept."""
        net = {**body, **self.head}
        for rows in batches:
            slopes = self.gradient(net, rows)
            net = {name: value - rate * slopes[name] if name in moved else value for name, value in net.items()}
        self.head = {name: net[name] for name in self.head}
        return {name: net[name] for name in body}

    def batches(self, round: int, count: int, first: int = 0) -> list[np.ndarray]:
        return list(minibatches(self.state, round, count, 4, first))


def pflego(twins: Sequence[Twin], body: Net, round: int) -> Net:
    """Eq. 4 and 5: one gradient of all, after tau - 1 steps of each head."""
    after, scale = dict(body), 3 / len(twins)
    for twin in twins:
        rows = twin.state.train
        twin.stepped(body, [rows] * 3, 0.2, list(twin.head))
        slopes, share = twin.gradient({**body, **twin.head}, rows), len(rows) / TOTAL
        twin.head = {name: value - 0.1 * scale * share * slopes[name] for name, value in twin.head.items()}
        after = {name: value - 0.1 * scale * share * slopes[name] for name, value in after.items()}
    return after


def fedrecon(twins: Sequence[Twin], body: Net, round: int) -> Net:
    after, total = dict(body), sum(len(twin.state.train) for twin in twins)
    for twin in twins:
        rows = twin.state.train
        twin.stepped(body, [rows] * 4, 0.2, list(twin.head))
        slopes = twin.gradient({**body, **twin.head}, rows)
        after = {name: value - 0.1 * len(rows) / total * slopes[name] for name, value in after.items()}
    return after


def fedper(twins: Sequence[Twin], body: Net, round: int) -> Net:
    everything = [f"{layer}.{part}" for layer in LAYERS for part in ("weight", "bias")]
    return averaged(twins, [twin.stepped(body, twin.batches(round, 2), 0.1, everything) for twin in twins])


def fedrep(twins: Sequence[Twin], body: Net, round: int) -> Net:
    bodies = []
    for twin in twins:
        twin.stepped(body, twin.batches(round, 3), 0.1, list(twin.head))
        bodies.append(twin.stepped(body, twin.batches(round, 2, 3), 0.1, list(body)))
    return averaged(twins, bodies)


def averaged(twins: Sequence[Twin], bodies: Sequence[Net]) -> Net:
    total = sum(len(twin.state.train) for twin in twins)
    shares = [len(twin.state.train) / total for twin in twins]
    return {name: sum(s * each[name] for s, each in zip(shares, bodies, strict=True)) for name in bodies[0]}  # type: ignore[misc]


METHODS: Mapping[str, tuple[OwnHead, Callable[[Sequence[Twin], Net, int], Net]]] = {
    "pflego": (PFLEGO(**RATES), pflego),
    "fedrecon": (FedRecon(**RATES, server="sgd"), fedrecon),
    "fedper": (FedPer(**STEPS), fedper),
    "fedrep": (FedRep(**STEPS, head_epochs=3), fedrep),
}


@pytest.mark.parametrize(("loss", "layers"), [("mse", 1), ("bce", 2), ("cross-entropy", 2)])
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.usefixtures("one_torch_thread")
def test_three_rounds_are_those_of_torch_in_float64(name: str, loss: str, layers: int) -> None:
    method, oracle = METHODS[name]
    method = replace(method, head_layers=layers)
    about, client_states = task(loss), federation(loss)
    twins = [Twin(client_state, loss) for client_state in client_states]
    state = method.start(about, three_layers().init(rng.stream(1, rng.INIT)))
    assert list(state.arrays[BODY]) == [f"{layer}.{part}" for layer in LAYERS[:-layers] for part in ("weight", "bias")]
    body = {name: torch.tensor(value, dtype=torch.float64) for name, value in state.arrays[BODY].items()}
    for round in range(1, 4):
        chosen = [twins[client] for client in play(method, about, client_states, state, round)]
        for twin in chosen:
            twin.head or twin.draw(layers)
        body = oracle(chosen, body, round)
        off = [np.abs(state.arrays[BODY][name] - value.numpy()).max() for name, value in body.items()]
        for twin in chosen:
            kept = twin.state.arrays[HEAD]
            assert kept.keys() == twin.head.keys()
            off += [np.abs(kept[name] - value.numpy()).max() for name, value in twin.head.items()]
        assert max(off) < 1e-6
    found = method.evaluate(client_states[0], state.arrays[BODY])
    assert (found.examples, found.decisions) == (2, {"mse": 0, "bce": OUTPUTS, "cross-entropy": 1}[loss])


def test_fedbabu_keeps_a_deep_head_of_the_first_model() -> None:
    """Numpy's float64 trains the first of three layers alone. No message has the two others."""
    run = Run(FedBABU(per_round=2, epochs=2, batch=5, lr=RATE, head_layers=2), three_layers())
    w, shared = doubled(run.initial), {"one.weight", "one.bias"}
    for round in range(1, 4):
        models = []
        for plan, reply in run.play(round):
            assert plan.payload[MODEL].blocks.keys() == reply.payload[MODEL].blocks.keys() == shared
            batches = batches_of(three_layers(), plan.client, round, 2, 5)
            models.append(trained(w, batches, lambda name, slope: slope * (name in shared)))
        w = mean(models)
        assert difference(run.state.arrays[MODEL], w) < 1e-6
    kept = {name: value for name, value in run.state.arrays[MODEL].items() if name not in shared}
    assert same_bits(kept, {name: run.initial[name] for name in kept}) and len(kept) == 4


# What a head is, and what it cannot be.


def wide() -> Graph:
    """conv - norm - ReLU - conv2 - dropout - fc1 - fc."""
    nodes = [
        Node("conv", Conv2d(1, 2, (3, 3), padding=(1, 1)), ("input",)),
        Node("norm", BatchNorm2d(2), ("conv",)),
        Node("relu", ReLU(), ("norm",)),
        Node("conv2", Conv2d(2, 2, (3, 3), padding=(1, 1)), ("relu",)),
        Node("sum", Add(), ("conv2", "norm")),
        Node("flat", Flatten(), ("sum",)),
        Node("drop", Dropout(0.5), ("flat",)),
        Node("fc1", Linear(32, 4), ("drop",)),
        Node("drop2", Dropout(0.5), ("fc1",)),
        Node("fc", Linear(4, 3), ("drop2",)),
    ]
    return Graph((1, 4, 4), tuple(nodes))


@pytest.mark.parametrize(
    ("layers", "body"),
    [
        (1, "conv norm conv2 fc1"),
        (2, "conv norm conv2"),
        (3, "conv norm"),  # a norm belongs to what comes before it
    ],
)
def test_a_head_is_counted_in_layers_with_a_weight(layers: int, body: str) -> None:
    found = FedPer(head_layers=layers).body_names(ModelSpec.of(wide()))
    assert list(dict.fromkeys(name.rpartition(".")[0] for name in found)) == body.split()


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (FedBABU(head_layers=4), r"head_layers=4; expected at most 3"),
        (
            FedPer(head_layers=4),
            r"head_layers=4; expected at most 3, as the model has 4 layers with a weight and a body",
        ),
        (PFLEGO(head_layers=2), r"head_layers=2 has the dropout layer drop2 in the head; expected a head without drop"),
        (PFLEGO(head_layers=3), r"head_layers=3: cut after 'relu', after which 'norm' is read as well; expected"),
    ],
)
def test_heads_that_cannot_be_are_refused_before_round_1(method: Algorithm, message: str) -> None:
    graph = wide()
    if isinstance(method, PFLEGO):
        graph = replace(graph, frozen=frozenset({"norm.running_mean", "norm.running_var"}))
    with pytest.raises(ValueError, match=message):
        method.start(task("cross-entropy", graph), graph.init(rng.stream(1, rng.INIT)))


def test_settings_of_a_head_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match=r"head_layers=0; expected head_layers >= 1"):
        FedPer(head_layers=0)
    with pytest.raises(ValueError, match=r"head_init=uniform; expected torch with head_layers=2"):
        PFLEGO(head_layers=2, head_init="uniform")
