"""The kinds of models in Flower's baselines and examples, written here after their published architectures.

Sources  Li et al. 2021 (MOON), Caldas et al. 2018 (LEAF), Diao et al. 2021 (HeteroFL), Horvath et al. 2021 (FjORD),
         Kim et al. 2023 (DepthFL), Hyeon-Woo et al. 2022 (FedPara), Li et al. 2021 (FedBN), Kingma and Welling 2014
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from bench.collection.entry import Entry, ids, image, values
from bench.collection.kinds_of_pfllib import Functional, Residual, resnet


class Projected(nn.Module):
    """The encoder of MOON, its projection head, and a classifier: three outputs."""

    def __init__(self, encoder: nn.Module, features: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.l1, self.l2, self.l3 = nn.Linear(features, features), nn.Linear(features, 32), nn.Linear(32, 10)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        h = torch.flatten(self.encoder(x), 1)
        z = self.l2(functional.relu(self.l1(h)))
        return h, z, self.l3(z)


def small_encoder() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU()),
    )


def residual_encoder() -> nn.Module:
    found = resnet((1, 1), (8, 16))
    assert isinstance(found, nn.Sequential)
    return found[:-1]


class CharacterLstm(nn.Module):
    """LEAF's model of Shakespeare: characters, two LSTM layers of 256 units (here 32), the next character."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.lstm = nn.Embedding(80, 8), nn.LSTM(8, 32, num_layers=2, batch_first=True)
        self.fc = nn.Linear(32, 80)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.lstm(self.embedding(x))
        result: Tensor = self.fc(states[:, -1, :])
        return result


class ImageVae(nn.Module):
    """A convolutional variational autoencoder. Its noise is drawn in training and in evaluation."""

    def __init__(self, latent: int = 8) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            *(nn.Conv2d(3, 6, 4, 2), nn.ReLU(), nn.Conv2d(6, 16, 5, 2), nn.ReLU(), nn.Flatten())
        )
        self.mean, self.log_variance, self.up = nn.Linear(576, latent), nn.Linear(576, latent), nn.Linear(latent, 576)
        self.decoder = nn.Sequential(
            *(nn.Unflatten(1, (16, 6, 6)), nn.ConvTranspose2d(16, 6, 5, 2), nn.ReLU()),
            *(nn.ConvTranspose2d(6, 3, 4, 2), nn.Tanh()),
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        hidden = self.encoder(x)
        mean, log_variance = self.mean(hidden), self.log_variance(hidden)
        drawn = mean + torch.randn_like(mean) * torch.exp(log_variance / 2)
        return self.decoder(self.up(drawn)), mean, log_variance


class Ordered(nn.Module):
    """A CNN of FjORD: a Linear layer whose first columns alone are used, by a width that forward takes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.fc = nn.Conv2d(1, 16, 3, padding=1), nn.Linear(16, 10)

    def forward(self, x: Tensor, width: float = 1.0) -> Tensor:
        kept = int(16 * width)
        x = functional.relu(functional.conv2d(x, self.conv.weight[:kept], self.conv.bias[:kept], padding=1))
        return functional.linear(x.mean((2, 3)), self.fc.weight[:, :kept], self.fc.bias)


class Scaler(nn.Module):
    """HeteroFL's scaler: in training it divides by the share of the width."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        return x / self.rate if self.training else x


def scaled_net() -> nn.Module:
    """A CNN of HeteroFL at half of its width."""
    return nn.Sequential(
        *(nn.Conv2d(1, 8, 3, 1, 1), Scaler(0.5), nn.BatchNorm2d(8, track_running_stats=False), nn.ReLU()),
        *(nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10)),
    )


class Exits(nn.Module):
    """DepthFL's ResNet with a classifier behind every stage. The exits' maps are enlarged to the first one's size."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU())
        self.stages = nn.ModuleList([Residual(8, 8, 1), Residual(8, 16, 2), Residual(16, 32, 2)])
        self.exits = nn.ModuleList([nn.Linear(width, 10) for width in (8, 16, 32)])

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        found, x = [], self.stem(x)
        for stage, head in zip(self.stages, self.exits, strict=True):
            x = stage(x)
            large = functional.interpolate(x, size=(32, 32), mode="bilinear", align_corners=False)
            found.append(head(large.mean((2, 3))))
        return tuple(found)


class LowRankConvolution(nn.Module):
    """FedPara's convolution: its weight is the product, value by value, of two products of factors."""

    def __init__(self, inputs: int, outputs: int, rank: int) -> None:
        super().__init__()
        self.t1, self.t2 = (nn.Parameter(0.3 * torch.randn(rank, rank, 3, 3)) for _ in range(2))
        self.o1, self.o2 = (nn.Parameter(0.3 * torch.randn(rank, outputs)) for _ in range(2))
        self.i1, self.i2 = (nn.Parameter(0.3 * torch.randn(rank, inputs)) for _ in range(2))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        first = torch.einsum("ijkl,ir,js->rskl", self.t1, self.o1, self.i1)
        second = torch.einsum("ijkl,ir,js->rskl", self.t2, self.o2, self.i2)
        return functional.conv2d(x, first * second, self.bias, padding=1)


def fedpara() -> nn.Module:
    return nn.Sequential(
        *(LowRankConvolution(3, 16, 4), nn.GroupNorm(4, 16), nn.ReLU(), nn.MaxPool2d(2)),
        *(LowRankConvolution(16, 16, 4), nn.GroupNorm(4, 16), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(1024, 10)),
    )


def leaf_cnn() -> nn.Module:
    """LEAF's CNN of FEMNIST, with fewer hidden units."""
    return nn.Sequential(
        *(nn.Conv2d(1, 32, 5, padding="same"), nn.ReLU(), nn.MaxPool2d(2, 2)),
        *(nn.Conv2d(32, 64, 5, padding="same"), nn.ReLU(), nn.MaxPool2d(2, 2)),
        *(nn.Flatten(), nn.Linear(3136, 128), nn.ReLU(), nn.Linear(128, 62)),
    )


def digits_net() -> nn.Module:
    """FedBN's CNN of digits: batch norms in images and in features."""
    layers: list[nn.Module] = []
    for inputs, outputs in ((3, 32), (32, 32), (32, 64)):
        layers += [nn.Conv2d(inputs, outputs, 5, padding=2), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Flatten(), nn.Linear(576, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 10)]
    return nn.Sequential(*layers)


def tabular_net() -> nn.Module:
    """StatAvg's classifier of network traffic."""
    return nn.Sequential(
        *(nn.BatchNorm1d(43), nn.Linear(43, 64), nn.ReLU(), nn.Dropout(0.3)),
        *(nn.BatchNorm1d(64), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)),
    )


def tree_net() -> nn.Module:
    """The 1-d CNN over the outputs of trees, with one output for regression."""
    return nn.Sequential(nn.Conv1d(1, 16, 4, 4), nn.ReLU(), nn.Flatten(), nn.Linear(160, 1))


def vgg() -> nn.Module:
    """VGG11 of an eighth of the width for images of 32 pixels, without norms."""
    layers: list[nn.Module] = []
    inputs = 3
    for outputs in (8, 0, 16, 0, 32, 32, 0, 64, 64, 0, 64, 64, 0):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU()] if outputs else [nn.MaxPool2d(2, 2)]
        inputs = outputs or inputs
    return nn.Sequential(*layers, nn.Flatten(), nn.Dropout(), nn.Linear(64, 10))


class HeadOfSpeech(nn.Module):
    """The classifier over Whisper's frozen states: they are flattened, and two layers follow."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(640, 64), nn.ReLU(), nn.Linear(64, 12))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layers(x.reshape(x.size(0), -1))
        return result


def group_norm(channels: int) -> nn.Module:
    return nn.GroupNorm(2, channels)


ENTRIES = (
    Entry("flower/quickstart", lambda: Functional(3, 32, (6, 16, 120, 84)), image(32)),
    Entry("flower/fedprox_logistic", lambda: nn.Sequential(nn.Flatten(), nn.Linear(784, 10)), image(28, 1)),
    Entry("flower/fednova_vgg", vgg, image(32)),
    Entry("flower/leaf_cnn", leaf_cnn, image(28, 1)),
    Entry("flower/leaf_shakespeare", CharacterLstm, ids(20, 80)),
    Entry("flower/moon_cnn", lambda: Projected(small_encoder(), 84), image(32)),
    Entry("flower/moon_resnet", lambda: Projected(residual_encoder(), 16), image(32)),
    Entry("flower/fedbn_digits", digits_net, image(28)),
    Entry("flower/fedper_resnet", lambda: resnet((2, 2, 2), (8, 16, 32)), image(32)),
    Entry("flower/resnet_gn", lambda: resnet((1, 1), (8, 16), group_norm), image(32)),  # type: ignore[arg-type]
    Entry("flower/heterofl", scaled_net, image(28, 1)),
    Entry("flower/fjord", Ordered, image(28, 1)),
    Entry("flower/depthfl_exits", Exits, image(32)),
    Entry("flower/fedpara", fedpara, image(32)),
    Entry("flower/vae", ImageVae, image(32), "values"),
    Entry("flower/statavg_mlp", tabular_net, values(43)),
    Entry("flower/xgboost_cnn", tree_net, values(1, 40), "values"),
    Entry("flower/whisper_head", HeadOfSpeech, values(20, 32)),
)
