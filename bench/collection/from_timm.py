"""Models of timm, by its create_model with ten classes and no pretrained weights."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from torch import nn

from bench.collection import from_torchvision
from bench.collection.entry import Entry, image

SIDES = {
    "resnet18": 64, "resnet50_gn": 64, "efficientnet_b0": 64, "efficientnet_lite0": 64, "mobilenetv3_small_100": 64,
    "mobilenetv4_conv_small": 64, "ghostnet_100": 64, "tinynet_e": 64, "lcnet_050": 64, "repvgg_a0": 64,
    "mobileone_s0": 64, "regnety_002": 64, "convnextv2_atto": 64, "edgenext_xx_small": 64,
}  # fmt: skip
SIZED = {"mixer_s32_224": 64, "vit_tiny_patch16_224": 64, "deit_tiny_patch16_224": 64, "levit_128s": 64}


def _named(name: str, **options: object) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        from_torchvision.models()  # timm imports torchvision
        return importlib.import_module("timm").create_model(name, pretrained=False, num_classes=10, **options)

    return make


ENTRIES = (
    *(Entry(f"timm/{name}", _named(name), image(side)) for name, side in SIDES.items()),
    *(Entry(f"timm/{name}", _named(name, img_size=side), image(side)) for name, side in SIZED.items()),
)
