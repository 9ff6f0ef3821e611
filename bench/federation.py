"""A simulated round of FedSPU's EMNIST CNN, whole, against the same round in eager PyTorch, on one thread.

Ours is edgefl.study.simulation: draws, payloads through the codec both ways, a file per client's own model, training,
the mean, and an evaluation on one example per client. PyTorch's is the least that a script does: one dense module in
memory that takes each client's state, the same batches, and the mean of the states. Masks would cost more, and are left
out.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from bench import machine
from bench.figures import Figure
from bench.processes import ROOT
from edgefl.experiment.data.catalog import load
from edgefl.experiment.data.locate import roots
from edgefl.experiment.data.split import Split
from edgefl.experiment.federation import Federation
from edgefl.experiment.settings import Settings
from edgefl.learning import GraphLearner, Samples
from edgefl.methods import FedSPU, FedSPUCached
from edgefl.methods.client_state import ClientState, minibatches
from edgefl.methods.task import MODEL
from edgefl.models.graph import Model, Params, architectures
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.rng import INIT, stream
from edgefl.study.simulation.journal import Journal
from edgefl.study.simulation.round_loop import simulate
from edgefl.torch import to_torch

NAME, FILE = "fedspu_emnist", "emnist_byclass_official_test.npz"
EXAMPLES = 160  # training examples of a client. A client of the paper has some five thousand
SEED = 1


@dataclass(frozen=True)
class Effort:
    clients: int
    epochs: int


FULL = Effort(clients=100, epochs=5)
QUICK = Effort(clients=10, epochs=1)


def measure(effort: Effort) -> Iterator[Figure]:
    """Yield the seconds of a round: ours at the paper's five shares, ours dense, and PyTorch's, with their ratios."""
    machine.use_threads(1)
    clients, source = federation(effort.clients)
    how = {"per_round": effort.clients, "epochs": effort.epochs}
    tiers, dense, cached = FedSPU(**how), FedSPU(keep=(1.0,), **how), FedSPUCached(**how)
    what = f"{effort.clients} clients x {effort.epochs} epochs x {EXAMPLES} examples, B = {tiers.batch}; {source}"
    for work in (own_round, peer_round):  # warm
        work(tiers, replace(clients, clients=clients.clients[:1]))
    peer = _Timed(lambda: peer_round(dense, clients))
    for name, algorithm in (("p = .2 to 1", tiers), ("the same, weak clients behind a cut", cached), ("p = 1", dense)):
        own = _Timed(lambda chosen=algorithm: own_round(chosen, clients))  # type: ignore[misc]
        yield Figure(f"edgefl's round, {name}", own.cpu_s, "s CPU", note=f"{own.wall_s:.1f} s of wall time; {what}")
        yield Figure(f"PyTorch's over edgefl's, {name}", peer.cpu_s / own.cpu_s, "times")
    yield Figure("PyTorch's round, eager and dense", peer.cpu_s, "s CPU", note=f"{peer.wall_s:.1f} s of wall time")


def federation(clients: int) -> tuple[Federation, str]:
    """Return clients with EXAMPLES training examples and one to test on, and words that say what the examples are."""
    samples, source = _samples(clients * (EXAMPLES + 1))
    parts = np.arange(len(samples), dtype=np.int32).reshape(clients, EXAMPLES + 1)
    splits = tuple(Split(part[:-1], part[:0], part[-1:]) for part in parts)
    return Federation(architectures.build(NAME, *architectures.EXAMPLES[NAME]), samples, splits, SEED), source


def own_round(algorithm: FedSPU, federation: Federation) -> Params:
    """Return the server's model after one round of edgefl.study.simulation."""
    with tempfile.TemporaryDirectory() as path:
        journal = Journal(Path(path) / algorithm.name)
        state = simulate(algorithm, federation, Settings(rounds=1), journal)
        journal.close()
    return state.arrays[MODEL]


def peer_round(
    algorithm: FedSPU, federation: Federation, dtype: torch.dtype = torch.float32
) -> dict[str, torch.Tensor]:
    """Return the mean of the clients' states, weighted by examples.

    Training is in float32, or in float64 to see what float32 loses.
    """
    model = Model(federation.graph, federation.graph.init(stream(SEED, INIT)))
    module, data = to_torch(model).to(dtype), federation.data
    x = torch.from_numpy(data.x).to(dtype) * data.scale + data.shift
    y = torch.from_numpy(data.y).long()
    common = {name: value.clone() for name, value in module.state_dict().items()}
    total = {name: torch.zeros_like(value, dtype=torch.float64) for name, value in common.items()}
    spec, learner = ModelSpec.of(model.graph), GraphLearner(model)
    for client, split in enumerate(federation.clients):
        module.load_state_dict(common)
        optimiser = torch.optim.SGD(module.parameters(), lr=algorithm.lr)
        client_state = ClientState(client, SEED, spec, learner, data, split.train, split.validation, split.test)
        for batch in minibatches(client_state, 1, algorithm.epochs, algorithm.batch):
            rows = torch.from_numpy(batch).long()
            optimiser.zero_grad(set_to_none=True)
            functional.cross_entropy(module(x[rows]), y[rows]).backward()
            optimiser.step()
        for name, value in module.state_dict().items():
            total[name] += value * len(split.train)
    return {name: value / sum(len(split.train) for split in federation.clients) for name, value in total.items()}


class _Timed:
    """The processor time and wall time of some work, which is done once."""

    def __init__(self, work: Callable[[], object]) -> None:
        cpu_s, wall_s = time.process_time(), time.perf_counter()
        work()
        self.cpu_s, self.wall_s = time.process_time() - cpu_s, time.perf_counter() - wall_s


def _samples(count: int) -> tuple[Samples, str]:
    """Return training examples of EMNIST where its file is found, else noise of the same shape, and words that say
    which.
    """
    for location in (ROOT.parent / "shared" / "data", *roots(None)):
        if (location / FILE).is_file():
            data = load(str(location / FILE))
            return Samples(data.x[:count], data.y[:count], data.scale, data.shift), "EMNIST, a part of byclass"
    values, (shape, classes) = np.random.RandomState(SEED), architectures.EXAMPLES[NAME]
    images = values.randint(0, 256, (count, *shape), np.uint8)
    return Samples(images, values.randint(0, classes, count, np.int32), 1 / 255), f"noise for want of {FILE}"
