"""Contexts of a conversion: the module's mode, what forward or a tracer writes into it, and its random numbers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn

from edgefl.errors import GraphError


@contextmanager
def unchanged(module: nn.Module) -> Iterator[None]:
    """Restore the attributes of every submodule after the context.

    torch.fx leaves constants in them, and a forward may write its results there.
    """
    before = [(part, dict(vars(part))) for part in module.modules()]
    try:
        yield
    finally:
        for part, attributes in before:
            vars(part).clear()
            vars(part).update(attributes)


@contextmanager
def in_mode(module: nn.Module, training: bool) -> Iterator[None]:
    """Set training or evaluation mode for the context, and then restore the mode of every submodule.

    In training mode a submodule stays in evaluation mode if its owner has put only this submodule into it.
    """
    modes = {part: part.training for part in module.modules()}
    if not (training and module.training):
        module.train(training)
    try:
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode


@contextmanager
def without_random_numbers() -> Iterator[None]:
    """Raise GraphError if the context draws random numbers, and restore the generators.

    A tracer would take a branch that a random number decides once, for all batches.
    """
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()
    try:
        yield
        drawn = [
            not torch.equal(torch.get_rng_state(), before[0]),
            random.getstate() != before[1],
            any(np.any(one != other) for one, other in zip(np.random.get_state(), before[2], strict=True)),
        ]
        if any(drawn):
            source = ("torch", "random", "numpy.random")[drawn.index(True)]
            raise GraphError(
                f"forward draws numbers from {source}, and a graph goes one way for all batches; expected a Dropout, "
                "or a forward without random numbers"
            )
    finally:
        torch.set_rng_state(before[0])
        random.setstate(before[1])
        np.random.set_state(before[2])
