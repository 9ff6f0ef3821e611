"""Small forms of the networks that people train, written as torch users write them: torch.nn alone, forwards of their
own, a ReLU that several places share. Inputs are [batch, 3, 16, 16].
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgefl.models.graph import Model
from edgefl.models.graph.architectures import build
from edgefl.rng import NEURONS, stream
from edgefl.torch import to_torch

CLASSES = 5


def built_in(name: str) -> nn.Module:
    """Build one of edgefl's own CNNs as a torch module."""
    graph = build(name, (3, 16, 16), CLASSES)
    return to_torch(Model(graph, graph.init(stream(1, NEURONS))))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 256, 16), nn.ReLU(), nn.Linear(16, CLASSES))


def lenet() -> nn.Module:
    """Build a network without norms, with ReLU and pools, one of which overlaps."""
    return nn.Sequential(
        nn.Conv2d(3, 6, 5), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, ceil_mode=True),
        nn.Conv2d(6, 8, 3, padding=1, padding_mode="reflect"), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(8 * 9, CLASSES),
    )  # fmt: skip


def vgg11() -> nn.Module:
    """Build a network with batch norms."""
    layers: list[nn.Module] = []
    before = 3
    for channels in (4, "pool", 6, "pool", 8, 8, "pool", 8, 8):
        if channels == "pool":
            layers.append(nn.MaxPool2d(2, 2))
        else:
            layers += [nn.Conv2d(before, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(inplace=True)]
            before = channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, CLASSES))


class Block(nn.Module):
    """A residual block, whose ReLU is called twice."""

    def __init__(self, before: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.shortcut = nn.Sequential()
        if stride > 1 or before != channels:
            self.shortcut = nn.Sequential(nn.Conv2d(before, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + self.shortcut(x))


def resnet18() -> nn.Module:
    stem = [nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.GroupNorm(2, 4), nn.ReLU()]
    widths = [(4, 4, 1), (4, 4, 1), (4, 8, 2), (8, 8, 1)]
    blocks = [Block(*each) for each in widths]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, CLASSES))


class Inverted(nn.Module):
    """MobileNetV2's block: wide in the middle, depthwise, ReLU6."""

    def __init__(self, before: int, channels: int, stride: int, times: int) -> None:
        super().__init__()
        wide = before * times
        self.conv = nn.Sequential(
            nn.Conv2d(before, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6(inplace=True),
            nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False), nn.BatchNorm2d(wide), nn.ReLU6(inplace=True),
            nn.Conv2d(wide, channels, 1, bias=False), nn.BatchNorm2d(channels),
        )  # fmt: skip
        self.is_residual = stride == 1 and before == channels

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x) if self.is_residual else self.conv(x)


def mobilenet() -> nn.Module:
    stem = [nn.Conv2d(3, 6, 3, 2, 1, bias=False), nn.BatchNorm2d(6), nn.ReLU6()]
    blocks = [Inverted(6, 6, 1, 3), Inverted(6, 8, 2, 3)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.0), nn.Linear(8, CLASSES))


class Branching(nn.Module):
    """A module that torch.fx cannot trace, because forward depends on values."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2))
        self.classes = nn.Linear(4 * 49, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        y = self.features(x)
        return self.classes(y.flatten(1) if y.sum() > -1 else y.flatten(1) * 2)


NETWORKS = {
    "emnist": lambda: built_in("fedspu_emnist"),
    "cifar": lambda: built_in("fedspu_cifar"),
    "speech": lambda: built_in("fedspu_speech"),
    "mlp": mlp,
    "lenet": lenet,
    "vgg11": vgg11,
    "resnet18": resnet18,
    "mobilenet": mobilenet,
    "branching": Branching,
}


def made(name: str, seed: int = 1) -> nn.Module:
    """A network of that name with weights of that seed, and norms that are not at their start."""
    torch.manual_seed(seed)
    module = NETWORKS[name]()
    for parameter in module.parameters():
        if parameter.dim() == 1:
            parameter.data += 0.3 * torch.randn_like(parameter)
    return module


def batch(count: int = 4, seed: int = 2, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Images and classes."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 3, 16, 16, generator=generator)
    return x.to(dtype), torch.randint(0, CLASSES, (count,), generator=generator)
