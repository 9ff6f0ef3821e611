"""MobileNetV2 of width 1 as a torch module, after Sandler et al. (CVPR 2018): a backbone for transfer learning.

The names of parameters are torchvision's, which is not installed here. `frozen_backbone` trains the classifier alone.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

BLOCKS = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
"""Of each run of blocks: expansion, channels, number of blocks, stride of the first block."""
FEATURES = 1280


def _layer(ins: int, outs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(ins, outs, kernel, stride, (kernel - 1) // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outs), nn.ReLU6(inplace=True))


class InvertedResidual(nn.Module):
    """Expansion, depthwise convolution and linear projection, added to the input where both have one shape."""

    def __init__(self, ins: int, outs: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = ins * expansion
        layers: list[nn.Module] = [] if expansion == 1 else [_layer(ins, hidden, 1)]
        layers += [_layer(hidden, hidden, 3, stride, hidden), nn.Conv2d(hidden, outs, 1, bias=False)]
        self.conv = nn.Sequential(*layers, nn.BatchNorm2d(outs))
        self.is_added = stride == 1 and ins == outs

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x) if self.is_added else self.conv(x)


class MobileNetV2(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        layers, channels = [_layer(3, 32, 3, 2)], 32
        for expansion, outs, count, stride in BLOCKS:
            for at in range(count):
                layers.append(InvertedResidual(channels, outs, stride if at == 0 else 1, expansion))  # type: ignore[arg-type]
                channels = outs
        self.features = nn.Sequential(*layers, _layer(channels, FEATURES, 1))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(FEATURES, classes))

    def forward(self, x: Tensor) -> Tensor:
        x = nn.functional.adaptive_avg_pool2d(self.features(x), (1, 1))
        return self.classifier(torch.flatten(x, 1))  # type: ignore[no-any-return]


def frozen_backbone(classes: int = 10, seed: int = 0) -> MobileNetV2:
    """Return the model in training mode.

    Its features have no gradients, and their BatchNorms are in evaluation mode.
    """
    torch.manual_seed(seed)
    model = MobileNetV2(classes).train()
    model.features.requires_grad_(False)
    model.features.eval()
    return model
