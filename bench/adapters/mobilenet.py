"""All of MobileNetV2 at 224 pixels, in batches of 8, within memory limits. The weights are random."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench.adapters.limits import MB, rows
from edgefl.models.graph import model_files

LIMITS = ((0, 0), (250 * MB, 0), (150 * MB, 0), (110 * MB, 0), (0, 2), (50 * MB, 2))


def measured(folder: Path, repeats: int) -> Iterator[dict[str, object]]:
    """Yield a row for each limit."""
    yield from rows("mobilenet", _file(folder), LIMITS, repeats)


def _file(folder: Path) -> Path:
    file = folder / "mobilenet_v2.safetensors"
    if not file.exists():
        import torch
        import torchvision

        from edgefl.torch import from_torch

        torch.manual_seed(0)
        network = torchvision.models.mobilenet_v2(num_classes=10, dropout=0.0)
        model_files.save(file, from_torch(network, torch.zeros(8, 3, 224, 224)))
    return file
