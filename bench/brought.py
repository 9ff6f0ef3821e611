"""Models as people bring them: torch modules that from_torch takes, for `python -m bench step`.

They are not built in.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

Stage = tuple[int, int, int, int]  # expansion, channels, blocks, stride of the first block

STAGES: tuple[Stage, ...] = (  # table 2 of "MobileNetV2"
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def mobilenet_v2(classes: int) -> nn.Module:
    """Build MobileNetV2 of width .5 for images of 32x32.

    The stem and the second stage have a stride of 1, as is usual for CIFAR.
    """
    layers, inputs = [*_conv(3, 16, 3)], 16
    for expansion, channels, blocks, stride in STAGES:
        for block in range(blocks):
            first = stride if block == 0 and channels != 24 else 1
            layers.append(_Inverted(inputs, channels // 2, first, expansion))
            inputs = channels // 2
    return nn.Sequential(
        *layers, *_conv(inputs, 1280, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, classes)
    )


def sensor_net(classes: int) -> nn.Module:
    """Build 1-d convolutions over 6 channels of 128 samples."""
    return nn.Sequential(
        *(nn.Conv1d(6, 32, 5, padding=2), nn.BatchNorm1d(32), nn.ReLU(), nn.MaxPool1d(2)),
        *(nn.Conv1d(32, 64, 5, padding=2), nn.BatchNorm1d(64), nn.ReLU(), nn.MaxPool1d(2)),
        *(nn.Conv1d(64, 64, 3, padding=1), nn.ReLU(), nn.MaxPool1d(2)),
        *(nn.Flatten(), nn.Linear(1024, 64), nn.ReLU(), nn.Linear(64, classes)),
    )


def _conv(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(outputs), nn.ReLU6()]


class _Inverted(nn.Module):
    """An inverted residual: it widens, convolves depthwise, and narrows without an activation."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = inputs * expansion
        wider = _conv(inputs, hidden, 1) if expansion > 1 else []
        narrower = [nn.Conv2d(hidden, outputs, 1, bias=False), nn.BatchNorm2d(outputs)]
        self.layers = nn.Sequential(*wider, *_conv(hidden, hidden, 3, stride, hidden), *narrower)
        self.is_residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layers(x)
        return x + y if self.is_residual else y


class VisionTransformer(nn.Module):
    """A small vision transformer: patches of 4x4, and layers that normalise before attention and before their MLP.

    The features of all patches are averaged for the classes. No value is dropped.
    """

    def __init__(self, classes: int, width: int = 128, heads: int = 4, depth: int = 4) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.places = nn.Parameter(torch.zeros(1, 64, width))
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        sequence = self.patches(x).flatten(2).transpose(1, 2) + self.places
        y: Tensor = self.head(self.norm(self.layers(sequence)).mean(1))
        return y


MODULES = {"mobilenet_v2": mobilenet_v2, "sensor_net": sensor_net, "vision_transformer": VisionTransformer}
