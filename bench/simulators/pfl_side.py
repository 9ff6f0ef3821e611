"""pfl-research's side: `python -m bench.simulators.pfl_side FILE CLIENTS IMAGES PER_ROUND MODEL ROUNDS SEED`.

It has pfl-research's own federated averaging, simulated backend and datasets of tensors in memory.
"""

from __future__ import annotations

import sys
from itertools import chain

import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from bench.simulators.task import BATCH, RATE, Rounds, Shape, asked, drawn, tell
from bench.simulators.torch_side import accuracy, prepared


class Network(nn.Module):
    """A network with the two methods that pfl-research asks of a model."""

    def __init__(self, layers: nn.Module) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)

    def loss(self, x: Tensor, y: Tensor, is_eval: bool = False) -> Tensor:
        return cross_entropy(self(x), y)

    def metrics(self, x: Tensor, y: Tensor, is_eval: bool = True) -> dict[str, float]:
        return {}


class EndOfRound(TrainingProcessCallback):
    """A callback that notes the end of each round."""

    def __init__(self, watch: Rounds) -> None:
        self._watch = watch

    def after_central_iteration(self, metrics: Metrics, model: PyTorchModel, *, central_iteration: int):
        self._watch.ended()
        return False, Metrics()


def dataset_of(client: int, shape: Shape, x: Tensor, y: Tensor) -> Dataset:
    own = shape.trained(client)
    return Dataset([x[own], y[own]], user_id=str(client))


def main(arguments: list[str]) -> None:
    file, shape, name, rounds, seed = asked(arguments)
    layers, x, y = prepared(file, name, seed)
    watch, network = Rounds(shape), Network(layers)
    clients = chain.from_iterable(drawn(file))
    users = [dataset_of(client, shape, x, y) for client in range(shape.clients)]
    data = FederatedDataset(lambda user: users[user], lambda: next(clients))
    step = torch.optim.SGD(network.parameters(), lr=1.0)
    model = PyTorchModel(network, torch.optim.SGD, step)
    FederatedAveraging().run(
        NNAlgorithmParams(rounds, 10 * rounds, train_cohort_size=shape.per_round, val_cohort_size=0),
        SimulatedBackend(training_data=data, val_data=data),
        model,
        NNTrainHyperParams(local_num_epochs=1, local_learning_rate=RATE, local_batch_size=BATCH),
        NNEvalHyperParams(local_batch_size=None),
        callbacks=[EndOfRound(watch)],
    )
    tell(watch.result(accuracy(network, shape, x, y)))


if __name__ == "__main__":
    main(sys.argv[1:])
