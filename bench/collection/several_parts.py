"""Recommenders, autoencoders, and models of several inputs, outputs or uses of a layer, written after their papers.

Sources  He et al. 2017 (NCF), Koren et al. 2009 (matrix factorisation), Naumov et al. 2019 (DLRM), Bromley et al. 1993
         (siamese networks), Teerapittayanon et al. 2016 (exits), Ulyanov et al. 2016 (instance norm), Caruana 1997
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from bench.collection.entry import Entry, Input, image, values

USERS, ITEMS = 30, 40


class Factorisation(nn.Module):
    """Matrix factorisation: the product of the vectors of a user and an item, and their biases, in one input of ids."""

    def __init__(self) -> None:
        super().__init__()
        self.user, self.item = nn.Embedding(USERS, 8), nn.Embedding(ITEMS, 8)
        self.user_bias, self.item_bias = nn.Embedding(USERS, 1), nn.Embedding(ITEMS, 1)

    def forward(self, x: Tensor) -> Tensor:
        user, item = x[:, 0], x[:, 1]
        product = (self.user(user) * self.item(item)).sum(dim=1, keepdim=True)
        result: Tensor = product + self.user_bias(user) + self.item_bias(item)
        return result


class NeuralFiltering(nn.Module):
    """NeuMF: a product of vectors and an MLP of other vectors. A user and an item are two inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.user, self.item = nn.Embedding(USERS, 8), nn.Embedding(ITEMS, 8)
        self.user_deep, self.item_deep = nn.Embedding(USERS, 16), nn.Embedding(ITEMS, 16)
        self.mlp = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU())
        self.out = nn.Linear(16, 1)

    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        product = self.user(user) * self.item(item)
        deep = self.mlp(torch.cat([self.user_deep(user), self.item_deep(item)], dim=-1))
        result: Tensor = self.out(torch.cat([product, deep], dim=-1))
        return result


class Interactions(nn.Module):
    """DLRM: numbers and ids become vectors, and the products of all pairs of vectors enter the top MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.bottom = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU())
        self.tables = nn.ModuleList(nn.EmbeddingBag(20, 8, mode="sum") for _ in range(3))
        self.top = nn.Sequential(nn.Linear(8 + 6, 16), nn.ReLU(), nn.Linear(16, 2))

    def forward(self, numbers: Tensor, ids: Tensor) -> Tensor:
        dense = self.bottom(numbers)
        rows = [table(ids[:, column : column + 1]) for column, table in enumerate(self.tables)]
        vectors = torch.stack([dense, *rows], dim=1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        first, second = torch.tril_indices(4, 4, offset=-1)
        result: Tensor = self.top(torch.cat([dense, products[:, first, second]], dim=1))
        return result


def tower() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, 16)),
    )


class Siamese(nn.Module):
    """One tower for two images, and a head over the distance of their features."""

    def __init__(self) -> None:
        super().__init__()
        self.tower, self.fc = tower(), nn.Linear(16, 2)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        result: Tensor = self.fc(torch.abs(self.tower(first) - self.tower(second)))
        return result


class EarlyExit(nn.Module):
    """A CNN with a classifier after its first block, and one at its end."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.exit = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))
        self.second = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
        self.fc = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.first(x)
        return self.exit(x), self.fc(self.second(x).flatten(1))


class TwoTasks(nn.Module):
    """One body with a head for each of two tasks."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.activity, self.person = nn.Linear(32, 6), nn.Linear(32, 9)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.body(x)
        return self.activity(x), self.person(x)


class Metric(nn.Module):
    """Cosine classifier: normalised features times normalised weights, scaled."""

    def __init__(self) -> None:
        super().__init__()
        self.tower, self.weight = tower(), nn.Parameter(torch.randn(10, 16))

    def forward(self, x: Tensor) -> Tensor:
        features = functional.normalize(self.tower(x), dim=1)
        return 16.0 * functional.linear(features, functional.normalize(self.weight, dim=1))


def image_autoencoder() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU()),
        *(nn.ConvTranspose2d(16, 8, 3, 2, 1, output_padding=1), nn.ReLU()),
        *(nn.ConvTranspose2d(8, 1, 3, 2, 1, output_padding=1), nn.Sigmoid()),
    )


class Vae(nn.Module):
    """A variational autoencoder of features, with noise in training alone."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.mean, self.log_variance = nn.Linear(24, 16), nn.Linear(16, 4), nn.Linear(16, 4)
        self.decoder = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 24))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        hidden = torch.relu(self.hidden(x))
        mean, log_variance = self.mean(hidden), self.log_variance(hidden)
        drawn = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance) if self.training else mean
        return self.decoder(drawn), mean, log_variance


def instance_normed() -> nn.Module:
    return nn.Sequential(
        *(nn.ReflectionPad2d(1), nn.Conv2d(3, 8, 3), nn.InstanceNorm2d(8, affine=True), nn.ReLU()),
        *(nn.Conv2d(8, 16, 3, 2, 1), nn.InstanceNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        nn.Linear(16, 5),
    )


def softmax_mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(24, 32), nn.Tanh(), nn.Linear(32, 5), nn.Softmax(dim=1))


ENTRIES = (
    Entry("own/matrix_factorisation", Factorisation, (Input((2,), USERS),), "values"),
    Entry("own/ncf", NeuralFiltering, (Input((), USERS), Input((), ITEMS)), "values"),
    Entry("own/dlrm", Interactions, (Input((4,)), Input((3,), 20))),
    Entry("own/siamese", Siamese, (*image(16, 1), *image(16, 1))),
    Entry("own/early_exit", EarlyExit, image(16, 1)),
    Entry("own/two_tasks", TwoTasks, values(24)),
    Entry("own/metric", Metric, image(16, 1)),
    Entry("own/image_autoencoder", image_autoencoder, image(16, 1), "values"),
    Entry("own/vae", Vae, values(24), "values"),
    Entry("own/instance_norm", instance_normed, image(16)),
    Entry("own/softmax_mlp", softmax_mlp, values(24), "probabilities"),
)
