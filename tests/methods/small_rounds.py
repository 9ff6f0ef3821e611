"""Rounds of methods with smaller models on the small plain net: played through the protocol's messages, and again in
torch's float64 on arrays cut by hand, which is what they are compared with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from edgefl import rng
from edgefl.methods.accumulator import Accumulator
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.client_state import minibatches
from edgefl.methods.early_stopping import train
from edgefl.methods.plan import Plan, Reply, refuse
from edgefl.methods.rounds.exchange import plan_of, read_answer, train_message, trained_message
from edgefl.methods.task import MODEL, State, Task
from edgefl.models.graph import Graph, Params
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from tests.methods.small_models import device, plain

OPTIONS: dict[str, Any] = {"per_round": 3, "epochs": 2, "batch": 5, "lr": 0.1}
RATE, CLIENTS = 0.1, 3


class Rounds:
    """Rounds of a method whose clients are made anew each time, with as many samples as `counts` has for them."""

    def __init__(self, method: Algorithm, graph: Graph | None = None, counts: Sequence[int] = (20, 20, 20)) -> None:
        self.method, self.graph, self.counts = method, graph or plain(), counts
        self.task = Task(ModelSpec.of(self.graph), len(counts), seed=1, examples=sum(counts))
        self.spec = self.task.spec
        self.state: State = method.start(self.task, self.graph.init(rng.stream(1, rng.INIT)))

    def plans(self, round: int) -> list[Plan]:
        return self.method.plan(self.task, self.state, round)

    def answer(self, plan: Plan, seed: int = 1) -> Reply:
        """Return the reply of a client that holds a model of its own, as `seed` says."""
        client_state = device(self.graph, plan.client, self.counts[plan.client], seed)
        client_state.seed = 1
        held = self.method.held(client_state)
        received = plan_of(train_message(plan, self.spec, "float32"), plan.client, self.spec, held)
        assert received.selection == plan.selection
        message = trained_message(train(self.method, client_state, received), received, self.spec, "float32", 1.0)
        found = read_answer(message, plan, self.spec)
        assert found.reply is not None, found.refusal
        return found.reply

    def close(self, plans: Sequence[Plan], replies: Sequence[Reply]) -> State:
        accumulator = Accumulator(self.spec, old=self.state.arrays)
        for plan, reply in zip(plans, replies, strict=True):
            assert refuse(plan, reply) is None
            self.method.aggregate(accumulator, plan, reply)
        self.state = self.method.finish(self.task, self.state, accumulator, plans[0].round)
        return self.state

    def play(self, round: int, seed: int = 1) -> State:
        plans = self.plans(round)
        return self.close(plans, [self.answer(plan, seed) for plan in plans])


def inside(spec: ModelSpec, neurons: NeuronSet) -> dict[str, np.ndarray]:
    """Return by hand, for the plain net, True where a coordinate belongs to these neurons."""
    one, two = (np.isin(np.arange(size), neurons.active[name]) for name, size in (("conv1", 4), ("conv2", 6)))
    marks = {name: np.ones(param.shape, np.bool_) for name, param in spec.params.items()}
    marks["conv2.weight"] &= one[None, :, None, None]
    marks["fc.weight"] &= np.repeat(two, 4)[None, :]
    for layer, kept in (("1", one), ("2", two)):
        for name in (f"conv{layer}.weight", f"conv{layer}.bias", *(n for n in marks if n.startswith(f"bn{layer}"))):
            marks[name] &= kept.reshape(-1, *[1] * (marks[name].ndim - 1))
    return marks


def cut_out(params: Params, marks: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
    """The marked values, as arrays of the smaller net."""
    found = {}
    for name, value in params.items():
        kept = marks[name]
        axes = [kept.any(axis=tuple(i for i in range(kept.ndim) if i != axis)) for axis in range(kept.ndim)]
        found[name] = torch.tensor(value[np.ix_(*axes)].astype(np.float64))
    return found


def logits(net: Mapping[str, torch.Tensor], x: torch.Tensor, training: bool) -> torch.Tensor:
    """Return the outputs of the plain net by torch's functions. In training its running statistics follow."""
    found = x
    for layer in "12":
        found = torch.nn.functional.conv2d(found, net[f"conv{layer}.weight"], net[f"conv{layer}.bias"], padding=1)
        stats, scale = (net[f"bn{layer}.running_mean"], net[f"bn{layer}.running_var"]), net[f"bn{layer}.weight"]
        found = torch.nn.functional.batch_norm(found, *stats, scale, net[f"bn{layer}.bias"], training)
        found = torch.relu(found)
        found = torch.nn.functional.max_pool2d(found, 2) if layer == "1" else found
    return found.flatten(1) @ net["fc.weight"].T + net["fc.bias"]


def step(net: dict[str, torch.Tensor], x: np.ndarray, y: np.ndarray) -> None:
    """A step of SGD."""
    learned = [value.requires_grad_() for name, value in net.items() if "running" not in name]
    out = logits(net, torch.tensor(x.astype(np.float64)), True)
    torch.nn.functional.cross_entropy(out, torch.tensor(y.astype(np.int64))).backward()
    with torch.no_grad():
        for value in learned:
            value -= RATE * value.grad
            value.grad = None
    for value in learned:
        value.requires_grad_(False)


def batches_of(client: int, count: int, round: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Inputs and labels of a client's batches in a round."""
    client_state = device(plain(), client, count)
    found = minibatches(client_state, round, OPTIONS["epochs"], OPTIONS["batch"])
    return [(client_state.data.x[rows], client_state.data.y[rows]) for rows in found]


def averaged(
    old: Params, trained: Sequence[tuple[float, Mapping[str, np.ndarray], Mapping[str, torch.Tensor]]]
) -> Params:
    """Return for every coordinate the weighted mean over the clients that have it, or the old value without such a
    client.

    A client is given as its weight, where its values are, and the values of its smaller net.
    """
    found = {}
    for name, value in old.items():
        total, weight = np.zeros(value.shape), np.zeros(value.shape)
        for samples, marks, net in trained:
            total[marks[name]] += samples * net[name].numpy().ravel()
            weight[marks[name]] += samples
        found[name] = np.where(weight > 0, total / np.maximum(weight, 1), value)
    return found


def model(state: State) -> Params:
    return state.arrays[MODEL]
