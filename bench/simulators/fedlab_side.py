"""FedLab's side: `python -m bench.simulators.fedlab_side FILE CLIENTS IMAGES PER_ROUND MODEL ROUNDS SEED`.

It has FedLab's own federated averaging with clients one after another. Batches are slices of one tensor, which is
faster than a DataLoader.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

import torch
from fedlab.contrib.algorithm.basic_client import SGDSerialClientTrainer
from fedlab.contrib.algorithm.basic_server import SyncServerHandler
from fedlab.core.standalone import StandalonePipeline
from torch import Tensor

from bench.simulators.task import BATCH, RATE, Rounds, Shape, asked, drawn, tell
from bench.simulators.torch_side import Batches, accuracy, prepared


class Loaders:
    """The clients' samples in the form that FedLab asks for."""

    def __init__(self, shape: Shape, x: Tensor, y: Tensor, seed: int) -> None:
        self._shape, self._x, self._y, self._generator = shape, x, y, torch.Generator().manual_seed(seed)

    def get_dataloader(self, client: int, batch_size: int) -> Batches:
        own = self._shape.trained(client)
        return Batches(self._x[own], self._y[own], self._generator)


class Handler(SyncServerHandler):
    """FedLab's server, which chooses the clients of the task."""

    def choose(self, clients: Iterable[list[int]]) -> None:
        self._clients = iter(clients)

    def sample_clients(self) -> list[int]:
        return next(self._clients)


class Pipeline(StandalonePipeline):
    """FedLab's loop of rounds. It notes the end of each round in place of an evaluation."""

    def __init__(self, handler: SyncServerHandler, trainer: SGDSerialClientTrainer, watch: Rounds) -> None:
        super().__init__(handler, trainer)
        self._watch = watch

    def evaluate(self) -> None:
        self._watch.ended()


def main(arguments: list[str]) -> None:
    file, shape, name, rounds, seed = asked(arguments)
    own, x, y = prepared(file, name, seed)
    trained, _, _ = prepared(file, name, seed)
    watch = Rounds(shape)
    server = Handler(own, rounds, (shape.per_round + 0.5) / shape.clients)
    server.choose(drawn(file))
    trainer = SGDSerialClientTrainer(trained, shape.clients)
    trainer.setup_dataset(Loaders(shape, x, y, seed))
    trainer.setup_optim(1, BATCH, RATE)
    Pipeline(server, trainer, watch).main()
    tell(watch.result(accuracy(server.model, shape, x, y)))


if __name__ == "__main__":
    main(sys.argv[1:])
