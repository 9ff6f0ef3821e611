"""Rounds of a method with masks, played through the messages of the protocol, and masks and updates as whole arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgefl import rng
from edgefl.methods import mask_store
from edgefl.methods.accumulator import Accumulator
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.plan import Plan, Reply, refuse
from edgefl.methods.rounds.exchange import plan_of, read_answer, train_message, trained_message
from edgefl.methods.task import MODEL, Task
from edgefl.models.graph import Graph, Params
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.update import Update
from tests.methods.small_models import device

ROUNDS, CLIENTS = 5, 4


class Run:
    """Rounds of a method with its clients, through the messages of the protocol."""

    def __init__(self, method: Algorithm, graph: Graph, rounds: int = ROUNDS) -> None:
        self.method, self.task = method, Task(ModelSpec.of(graph), CLIENTS, seed=1, rounds=rounds)
        self.state = method.start(self.task, graph.init(rng.stream(1, rng.INIT)))
        self.clients = [device(graph, client) for client in range(CLIENTS)]
        self.graph = graph
        self.spec, self.round = self.task.spec, 0

    @property
    def model(self) -> Params:
        return self.state.arrays[MODEL]

    def mask(self, client: int) -> Mask:
        """Return the mask that the server knows: the last one that was aggregated, or the one with which a client
        begins.
        """
        return mask_store.known(self.state, self.spec, client) or self.method.held(device(self.graph, client))[0]

    def plans(self) -> list[Plan]:
        self.round += 1
        return self.method.plan(self.task, self.state, self.round)

    def answer(self, plan: Plan) -> Reply:
        client_state = self.clients[plan.client]
        received = plan_of(
            train_message(plan, self.spec, "float32"), plan.client, self.spec, self.method.held(client_state)
        )
        message = trained_message(self.method.train(client_state, received), received, self.spec, "float32", 1.0)
        found = read_answer(message, plan, self.spec)
        assert found.reply is not None, found.refusal
        return found.reply

    def close(self, plans: Sequence[Plan], replies: Sequence[Reply]) -> None:
        accumulator = Accumulator(self.spec)
        for plan, reply in zip(plans, replies, strict=True):
            assert refuse(plan, reply) is None
            self.method.aggregate(accumulator, plan, reply)
        self.state = self.method.finish(self.task, self.state, accumulator, self.round)

    def play(self) -> list[tuple[Plan, Reply]]:
        plans = self.plans()
        replies = [self.answer(plan) for plan in plans]
        self.close(plans, replies)
        return list(zip(plans, replies, strict=True))


def inside(mask: Mask, spec: ModelSpec) -> dict[str, np.ndarray]:
    """A boolean array per parameter: True where the coordinate exists."""
    return {name: mask.bits.get(name, np.ones(param.shape, np.bool_)) for name, param in spec.params.items()}


def dense(update: Update) -> Params:
    """Return the values of an update, with 0 where it has no value."""
    found = {}
    for name, block in update.blocks.items():
        found[name] = np.zeros(block.shape, block.values.dtype)
        found[name].reshape(-1)[slice(None) if block.index is None else block.index.ids] = block.values.reshape(-1)
    return found
