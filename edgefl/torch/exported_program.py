"""The export of a user's torch module by torch.export: its ATen graph for batches of any size.

This file says what a failure of the export means. aten_lifting.py reads the graph.
"""

from __future__ import annotations

import io
import logging
import re
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from contextvars import ContextVar
from types import FrameType, TracebackType
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from torch.export import ExportedProgram

from edgefl.errors import GraphError
from edgefl.torch.code_lines import is_of_user, shown_line

INNER = "module"  # the attribute of the wrapper that holds the user's module
PREFIX = f"{INNER}."
REMEDIES: tuple[tuple[str, str], ...] = (
    (
        r"pack_padded_sequence|tuple of ints,but got FakeTensor",
        "the lengths of sequences are data: give sequences of one length, without pack_padded_sequence",
    ),
    (
        r"[Dd]ata-dependent|GuardOnDataDependent",
        "forward branches on values of the input: give forward one way for all inputs, as by torch.where",
    ),
    (
        r"specialized it to be a constant|Constraints violated",
        "forward ties itself to one batch size: take the batch size from x.size(0), and do not branch on it",
    ),
    (
        r"is not a known type|unsupported type|not registered|pytree",
        "its output is not a tensor: return a tensor, as by use_cache=False and by returning `.logits`",
    ),
    (r"last_hidden_state|has no attribute 'logits'", "the model returns tuples: set config.return_dict=True"),
)
"""Patterns of the sentences with which an export fails, and the remedies."""

LOGGERS = ("torch", "torch.fx.experimental.symbolic_shapes", "torch._export", "torch.export")


_SPENT: ContextVar[list[float] | None] = ContextVar("seconds of each export", default=None)


@contextmanager
def export_times() -> Iterator[list[float]]:
    """Yield the list of the seconds that each export of the context takes."""
    spent: list[float] = []
    token = _SPENT.set(spent)
    try:
        yield spent
    finally:
        _SPENT.reset(token)


class NotExportedError(GraphError):
    """A module whose forward torch.export cannot export."""


class _OneInput(nn.Module):
    """A module of one input, which leaves all other arguments of the user's forward at their defaults."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.add_module(INNER, module)
        self.training = module.training

    def forward(self, x: Tensor) -> object:
        return self.get_submodule(INNER)(x)


def exported(module: nn.Module, example: Tensor) -> ExportedProgram:
    """Return the ATen graph of a module in its present mode, in which the batch size is free.

    example  batch of inputs. A batch of one example is repeated, because torch.export would fix the batch size 1
    Raises   GraphError that names the line of forward at which the export fails, and what to write instead
    """
    batch = example.detach().cpu()
    batch = torch.cat([batch, batch]) if len(batch) == 1 else batch
    began = time.perf_counter()
    try:
        with _quiet():
            from torch.export import Dim, export  # takes half a second that a module for torch.fx does not need

            return export(_OneInput(module), (batch,), strict=False, dynamic_shapes=({0: Dim("batch", min=2)},))
    except Exception as error:  # forward is foreign code, and raises anything under torch.export
        raise NotExportedError(_failure(module, error)) from None
    finally:
        if (spent := _SPENT.get()) is not None:
            spent.append(time.perf_counter() - began)


def _failure(module: nn.Module, error: Exception) -> str:
    """Return the sentence for an export that failed."""
    text = f"{type(error).__name__}: {error}"
    line = _line_of(error.__traceback__) or _line_in(str(error))
    where = f"{line}: " if line else ""
    for pattern, remedy in REMEDIES:
        if re.search(pattern, text):
            return f"{where}{type(module).__name__} cannot be exported by torch.export: {remedy}"
    said = " ".join(str(error).split())[:200]
    return f"{where}{type(module).__name__} cannot be exported by torch.export: {type(error).__name__}: {said}"


def _line_of(trace: TracebackType | None) -> str:
    """Return the innermost line of the user's code in a traceback, in words."""
    frames: list[tuple[FrameType, int]] = list(traceback.walk_tb(trace))
    for frame, number in reversed(frames):
        if is_of_user(frame.f_code.co_filename):
            return shown_line(frame.f_code.co_filename, number)
    return ""


def _line_in(text: str) -> str:
    """Return the last line of the user's code that a message of torch quotes, in words."""
    found = [(file, number) for file, number in re.findall(r'File "([^"]+)", line (\d+)', text) if is_of_user(file)]
    return shown_line(found[-1][0], int(found[-1][1])) if found else ""


@contextmanager
def _quiet() -> Iterator[None]:
    """Drop the warnings, log lines and listings of torch.export, which speak of torch's own state."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
