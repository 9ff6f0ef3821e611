"""BlazeFL's side: `python -m bench.simulators.blazefl_side FILE CLIENTS IMAGES PER_ROUND MODEL ROUNDS SEED`.

It has BlazeFL's own federated averaging with clients one after another. Batches are slices of one tensor, which is
faster than a DataLoader.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import torch
from blazefl.contrib.fedavg import FedAvgBaseClientTrainer, FedAvgBaseServerHandler
from torch import Tensor, nn

from bench.simulators.task import BATCH, RATE, Rounds, Shape, asked, drawn, tell
from bench.simulators.torch_side import Batches, accuracy, prepared


@dataclass
class Parts:
    """The clients' samples in the form that BlazeFL asks for."""

    shape: Shape
    x: Tensor
    y: Tensor

    def get_dataloader(self, type_: str, cid: int, batch_size: int, generator: torch.Generator) -> Batches:
        own = self.shape.trained(cid)
        return Batches(self.x[own], self.y[own], generator)


class Selector:
    """A selector that has one model."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model

    def select_model(self, model_name: str) -> nn.Module:
        return self._model


def main(arguments: list[str]) -> None:
    file, shape, name, rounds, seed = asked(arguments)
    own, x, y = prepared(file, name, seed)
    trained, _, _ = prepared(file, name, seed)
    watch, data = Rounds(shape), Parts(shape, x, y)
    share = (shape.per_round + 0.5) / shape.clients
    server = FedAvgBaseServerHandler(Selector(own), name, data, rounds, shape.clients, share, "cpu", BATCH, seed)
    trainer = FedAvgBaseClientTrainer(Selector(trained), name, data, "cpu", shape.clients, 1, BATCH, RATE, seed)
    for clients in drawn(file):
        trainer.local_process(server.downlink_package(), clients)
        for package in trainer.uplink_package():
            server.load(package)
        watch.ended()
    tell(watch.result(accuracy(server.model, shape, x, y)))


if __name__ == "__main__":
    main(sys.argv[1:])
