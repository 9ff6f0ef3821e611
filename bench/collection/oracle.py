"""torch as the oracle of one training step: gradients of a module in float64 or float32, and the steps that follow.

Only torch and numpy compute here. edgefl is not imported.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bench.collection.entry import Entry, Output

Array = NDArray[np.floating]
Arrays = dict[str, Array]
RATES = (
    "dropout", "drop_rate", "drop_prob", "attention_dropout", "activation_dropout", "hidden_dropout", "dropout_p",
    "layerdrop",
)  # fmt: skip


class Pass(NamedTuple):
    """One pass of a module in training mode.

    gradients   gradient of the mean loss by the name of every trained parameter. Shared parameters have every name
    statistics  the buffers after the pass, by name
    """

    gradients: Arrays
    statistics: Arrays


def without_dropout(module: nn.Module) -> nn.Module:
    """Set the rates of all kinds of dropout in a module to 0, and return the module."""
    for part in module.modules():
        kind = type(part).__name__
        names = (*RATES, "p") if "Drop" in kind or "Depth" in kind else RATES
        for name in names:
            if isinstance(getattr(part, name, None), float):
                setattr(part, name, 0.0)
    return module


def trained_pass(
    module: nn.Module, entry: Entry, example: tuple[Tensor, ...], target: Output, dtype: torch.dtype
) -> Pass:
    """Run the loss of a batch forward and backward in this type, on a copy of the module, whose modes are kept."""
    own = copy.deepcopy(module).to(dtype)
    inputs = tuple(each.to(dtype) if each.is_floating_point() else each for each in example)
    with double_default(dtype):
        entry.loss(outputs_of(own(*inputs)), target).backward()
    found = own.named_parameters(remove_duplicate=False)
    gradients = {name: _array(value.grad) for name, value in found if value.grad is not None}
    return Pass(gradients, {name: _array(value) for name, value in own.named_buffers() if value.is_floating_point()})


def evaluated(module: nn.Module, example: tuple[Tensor, ...], dtype: torch.dtype) -> tuple[Array, ...]:
    """Return the outputs of a copy of the module in evaluation mode and in this type."""
    own = copy.deepcopy(module).to(dtype).eval()
    inputs = tuple(each.to(dtype) if each.is_floating_point() else each for each in example)
    with torch.no_grad(), double_default(dtype):
        output = outputs_of(own(*inputs))
    return tuple(_array(each) for each in (output if isinstance(output, tuple) else (output,)))


def is_random(module: nn.Module, example: tuple[Tensor, ...]) -> bool:
    """Return whether two runs of the module in its present mode differ."""
    own = copy.deepcopy(module)
    with torch.no_grad():
        runs = [outputs_of(own(*example)) for _ in range(2)]
    pairs = zip(*(run if isinstance(run, tuple) else (run,) for run in runs), strict=True)
    return not all(torch.equal(*pair) for pair in pairs)


def outputs_of(output: object) -> Output:
    """Return the outputs of a module as one tensor or as a plain tuple without None."""
    if isinstance(output, Tensor):
        return output
    assert isinstance(output, tuple)
    return tuple(each for each in output if each is not None)


def sgd(gradient: Array, rate: float) -> Array:
    """Return the first step of SGD without momentum."""
    return -gradient.dtype.type(rate) * gradient


def adam(gradient: Array, rate: float, eps: float) -> Array:
    """Return the first step of Adam: its corrected moments are the gradient and its square."""
    kind = gradient.dtype.type
    return -kind(rate) * gradient / (np.abs(gradient) + kind(eps))


def scale_of(gradients: Mapping[str, Array]) -> float:
    """Return the power of two nearest to the largest gradient, and 1 if all gradients are 0."""
    largest = max((float(np.abs(each).max(initial=0)) for each in gradients.values()), default=0.0)
    return float(2.0 ** round(np.log2(largest))) if largest else 1.0


class double_default:  # noqa: N801  (a context like torch.no_grad)
    """A context in which new tensors have this floating type, as `torch.zeros` in a forward needs it."""

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype, self._before = dtype, torch.get_default_dtype()

    def __enter__(self) -> None:
        torch.set_default_dtype(self._dtype)

    def __exit__(self, *_: object) -> None:
        torch.set_default_dtype(self._before)


def _array(value: Tensor | None) -> Array:
    assert value is not None
    return value.detach().cpu().numpy().copy()
