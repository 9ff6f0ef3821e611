"""Contexts that set a module's mode for a conversion, and that put back what forward or a tracer writes into it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


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
