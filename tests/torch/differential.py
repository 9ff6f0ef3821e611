"""The differential test of training: torch's module.train() beside the graph that from_torch makes of the module.

A module is refused, or a step of the graph is the module's step. Where a module is random in training, the gradients of
many passes have the module's mean and spread. Everything else is a silent loss.
"""

from __future__ import annotations

import copy
import warnings

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from edgefl.errors import EdgeflError
from edgefl.learning import SGD, GraphLearner, Samples
from edgefl.learning.batches import Keyed, Listed
from edgefl.models.graph import Model
from edgefl.torch import from_torch

torch.set_num_threads(1)  # the modules are small

CLASSES = 3
DRAWS = 100  # passes of a random module
CLOSE = 2e-5  # of the largest gradient of a parameter, for modules of few layers in float32
SIGMAS = 6.0  # standard errors within which two means of DRAWS passes agree, for some hundred values that are compared
SPREADS = 1.6  # two standard deviations of DRAWS passes, one over the other
Arrays = dict[str, np.ndarray]


def silent_loss(module: nn.Module, x: Tensor) -> str:
    """Return what from_torch loses of the module's training without a refusal or a warning, or the empty text."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = from_torch(module, x[:2])
        except EdgeflError:
            return ""
    return "" if any(issubclass(each.category, UserWarning) for each in caught) else difference(model, module, x)


def difference(model: Model, module: nn.Module, x: Tensor) -> str:
    """Return how a training step of the graph differs from the module's, or the empty text."""
    y = torch.arange(len(x)) % CLASSES
    samples = Samples(x.to(torch.float32).numpy(), y.to(torch.int32).numpy())
    rows = np.arange(len(x), dtype=np.int32)
    learner = GraphLearner(model)
    theirs, again = (_torch_pass(module, x, y, seed) for seed in (1, 2))
    if any(not np.array_equal(value, again[0].get(name)) for name, value in theirs[0].items()):
        many = [_torch_pass(module, x, y, seed)[0] for seed in range(DRAWS)]
        return _unlike([dict(learner.gradient(samples, rows, key=key)) for key in range(DRAWS)], many)
    learner.fit(samples, Listed([rows], Keyed(1)), SGD(0.0))  # running statistics move, parameters do not
    moved = {name: np.array(value) for name, value in learner.read().items()}
    return _unequal(dict(learner.gradient(samples, rows, key=1)), theirs[0]) or _unequal_buffers(
        moved, theirs[1], module
    )


def _torch_pass(module: nn.Module, x: Tensor, y: Tensor, seed: int) -> tuple[Arrays, Arrays]:
    """Return the gradients of a pass of a copy of the module in its present modes, and its buffers after the pass.

    Each output of a tuple has a loss, and the losses are added.
    """
    own = copy.deepcopy(module)
    torch.manual_seed(seed)
    output = own(x)
    outputs = output if isinstance(output, tuple) else (output,)
    torch.stack([functional.cross_entropy(each, y) for each in outputs]).sum().backward()
    gradients = {name: value.grad.numpy() for name, value in own.named_parameters() if value.grad is not None}
    return gradients, {name: value.numpy() for name, value in own.named_buffers() if value.is_floating_point()}


def _unequal(ours: Arrays, theirs: Arrays) -> str:
    for name in {**ours, **theirs}:
        first, second = ours.get(name, np.zeros(1)), theirs.get(name, np.zeros(1))
        error, largest = np.abs(first.reshape(-1) - second.reshape(-1)).max(), np.abs(second).max()
        if not error <= CLOSE * max(largest, 1e-3):
            return f"the gradient of {name} differs by {error:.2g} from torch's, whose largest is {largest:.2g}"
    return ""


def _unequal_buffers(ours: Arrays, theirs: Arrays, module: nn.Module) -> str:
    before = {name: value.numpy() for name, value in module.named_buffers()}
    for name, value in theirs.items():
        if name not in ours and np.array_equal(value, before[name]):
            continue  # a constant
        if name not in ours or np.abs(ours[name].reshape(-1) - value.reshape(-1)).max() > CLOSE * np.abs(value).max():
            return f"after a step the buffer {name} differs from torch's"
    return ""


def _unlike(ours: list[Arrays], theirs: list[Arrays]) -> str:
    """Compare the gradients of many passes: mean and standard deviation of every parameter's values."""
    for name in theirs[0]:
        if name not in ours[0]:
            return f"{name} has a gradient in torch and is not trained"
        first, second = (np.stack([each[name].reshape(-1) for each in passes]) for passes in (ours, theirs))
        spread = np.sqrt((first.var(0) + second.var(0)) / DRAWS) + 1e-6
        if (np.abs(first.mean(0) - second.mean(0)) > SIGMAS * spread).any():
            return f"the mean gradient of {name} over {DRAWS} passes differs from torch's"
        widths = np.sqrt(first.var(0).mean()) + 1e-9, np.sqrt(second.var(0).mean()) + 1e-9
        if not 1 / SPREADS < widths[0] / widths[1] < SPREADS:
            return f"the gradient of {name} has a spread of {widths[0]:.2g}, and of {widths[1]:.2g} in torch"
    return ""
