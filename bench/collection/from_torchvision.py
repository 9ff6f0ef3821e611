"""Models of torchvision, with its own constructors and ten classes. Their weights are random.

torchvision may be built for another torch than the installed one. Its operators are then missing, and are declared
here without a body: only detection models call them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from bench.collection.entry import Entry, image

MISSING = {  # operators whose shapes torchvision registers on import
    "nms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}
_DECLARED: list[torch.library.Library] = []  # an operator lives as long as its library


def models() -> Any:
    """Return torchvision.models. Raises ModuleNotFoundError without torchvision."""
    try:
        return importlib.import_module("torchvision.models")
    except RuntimeError:
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name, signature in MISSING.items():
            library.define(name + signature)
        _DECLARED.append(library)
        return importlib.import_module("torchvision.models")


class OneOutput(nn.Module):
    """A segmentation model whose dictionary of outputs has one entry."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.model(x)["out"]
        return result


def _named(name: str, **options: object) -> Callable[[], nn.Module]:
    return lambda: getattr(models(), name)(weights=None, num_classes=10, **options)


def _small_vit() -> nn.Module:
    """A vision transformer of two layers, as torchvision builds ViT-B."""
    return models().VisionTransformer(32, 8, 2, 4, 64, 128, num_classes=10)


def _lraspp() -> nn.Module:
    parts = {"weights": None, "weights_backbone": None, "num_classes": 5}
    return OneOutput(models().segmentation.lraspp_mobilenet_v3_large(**parts))


SIDES = {  # pixels, the fewest that leave the last maps of more than one pixel
    "alexnet": 64, "resnet18": 64, "resnet50": 64, "resnext50_32x4d": 64, "squeezenet1_1": 64, "mobilenet_v2": 64,
    "mobilenet_v3_small": 64, "mobilenet_v3_large": 64, "mnasnet0_5": 64, "efficientnet_b0": 64,
    "efficientnet_v2_s": 64, "shufflenet_v2_x0_5": 64, "regnet_y_400mf": 64, "densenet121": 64, "convnext_tiny": 64,
    "swin_t": 64,
}  # fmt: skip

ENTRIES = (
    *(Entry(f"torchvision/{name}", _named(name), image(side)) for name, side in SIDES.items()),
    Entry("torchvision/googlenet", _named("googlenet", aux_logits=False, init_weights=False), image(64)),
    Entry("torchvision/inception_v3", _named("inception_v3", aux_logits=False, init_weights=False), image(96)),
    Entry("torchvision/googlenet_aux", _named("googlenet", init_weights=False), image(64)),
    Entry("torchvision/vit", _small_vit, image(32)),
    Entry("torchvision/lraspp", _lraspp, image(64)),
)
