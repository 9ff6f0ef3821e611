"""A user's program over edgefl's public names. Type checkers read it strictly, and test_front_door.py runs it."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch

import edgefl
from edgefl import kernels
from edgefl.learning import SGD, FitOptions, GraphLearner, Samples
from edgefl.methods import (
    MODEL,
    Accumulator,
    ClientState,
    FedSPU,
    LocalTraining,
    Plan,
    Reply,
    State,
    Task,
    sample_clients,
    take,
    values,
)
from edgefl.models import Mask, Model, ModelSpec, NeuronSet, Params, add_adapters, quantize_frozen
from edgefl.torch import convert, from_torch, keep_frozen, plain, select, to_torch


@dataclass(frozen=True)
class MyProx(LocalTraining):
    keeps_model: ClassVar[bool] = False
    keeps_state: ClassVar[bool] = False
    mu: float = 0.1

    def start(self, task: Task, initial: Params) -> State:
        return State({MODEL: initial})

    def plan(self, task: Task, state: State, round: int) -> list[Plan]:
        payload = {MODEL: take(state.arrays[MODEL], task.spec, None)}
        chosen = sample_clients(task, range(task.clients), self.per_round, round)
        return [Plan("train", round, client, payload=payload) for client in chosen]

    def train(self, client_state: ClientState, plan: Plan) -> Reply:
        received = plan.payload[MODEL]
        client_state.learner.write(received)
        options = FitOptions(pull=(self.mu, values(received)))
        batches, optimizer = self.batches(client_state, plan.round), self.local_optimizer(plan.round)
        fit = client_state.learner.fit(client_state.data, batches, optimizer, options)
        sent = {MODEL: client_state.learner.take()}
        return Reply(plan.round, plan.client, sent, examples=fit.examples, steps=fit.steps)

    def aggregate(self, accumulator: Accumulator, plan: Plan, reply: Reply) -> None:
        accumulator.mean.add(reply.client, reply.payload[MODEL], reply.examples)

    def finish(self, task: Task, state: State, accumulator: Accumulator, round: int) -> State:
        return State({MODEL: accumulator.mean.over(state.arrays[MODEL])})


def told(record: edgefl.RoundRecord) -> None:
    print(record["method"], record["round"], record.get("accuracy"))


def federate(directory: Path, x: torch.Tensor, y: torch.Tensor) -> edgefl.Run:
    module = torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.ReLU(), torch.nn.Linear(6, 2))
    run = edgefl.simulate(
        [FedSPU(keep=(0.5,)), "fedavg", MyProx], model=module, data=(x, y), directory=directory, clients=3,
        per_round=2, rounds=2, keep=1.0, partition="iid", batch=4, lr=0.1, momentum=0.9, workers=1, on_round=told,
        progress=False,
    )  # fmt: skip
    best: edgefl.Method = max(edgefl.open_run(directory).methods.values(), key=lambda each: each.accuracy or 0.0)
    best.model.save(directory / "best.safetensors")
    print(run.table(), edgefl.load(directory / "best.safetensors").labels(x.numpy()).mean())
    return run


def train_by_hand(x: torch.Tensor, y: torch.Tensor) -> Model:
    module = convert(torch.nn.Sequential(torch.nn.Linear(8, 160), torch.nn.ReLU(), torch.nn.Linear(160, 2)))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    chosen: NeuronSet | None = select(module, 0.5, example_input=x)
    release = keep_frozen(optimizer, module)
    torch.nn.functional.cross_entropy(module(x), y).backward()  # type: ignore[no-untyped-call, unused-ignore]
    optimizer.step()  # pyright: ignore[reportUnknownMemberType]  # torch's own type
    release()
    model = quantize_frozen(add_adapters(from_torch(plain(module), x), rank=2, train="2.*"), "bfloat16")
    mask = Mask.of(ModelSpec.of(model.graph), {"0.weight": np.eye(160, 8, dtype=bool)})
    learner = GraphLearner(model, backend=kernels.name_of(kernels.backend()))
    samples = Samples(x.numpy(), y.numpy().astype(np.int32))
    fit = learner.fit(samples, [np.arange(len(y), dtype=np.int32)], SGD(0.1))
    print(chosen, mask.hash, fit.loss_sum / fit.examples, to_torch(model))
    return model
