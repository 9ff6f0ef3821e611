"""The models and batch sizes of `python -m bench cuda` and `cuda-kernels`, and options that name them."""

from __future__ import annotations

import argparse

from bench.step import BROUGHT, PAPER, TRANSFORMER, Case

BATCHES = (16, 128)
CASES = (
    *PAPER,
    Case("vgg11", (3, 32, 32), 10, BATCHES),
    Case("resnet18", (3, 32, 32), 10, BATCHES),
    BROUGHT[0],
    TRANSFORMER,
)


def models(text: str) -> list[Case]:
    """Return the cases of these names. Raises ArgumentTypeError for a name that no case has."""
    known = {case.model: case for case in CASES}
    unknown = [name for name in text.split(",") if name not in known]
    if unknown:
        raise argparse.ArgumentTypeError(f"model {unknown[0]!r}; expected some of {', '.join(known)}")
    return [known[name] for name in text.split(",")]


def sizes(text: str) -> tuple[int, ...]:
    """Return batch sizes. Raises ArgumentTypeError for anything but numbers above 0."""
    if not all(size.isdecimal() and int(size) for size in text.split(",")):
        raise argparse.ArgumentTypeError(f"batches {text!r}; expected numbers above 0")
    return tuple(map(int, text.split(",")))


def part(text: str) -> tuple[int, int]:
    """Return I and N of a part I/N. Raises ArgumentTypeError for anything else."""
    first, _, last = text.partition("/")
    if not (first.isdecimal() and last.isdecimal() and 1 <= int(first) <= int(last)):
        raise argparse.ArgumentTypeError(f"part {text!r}; expected I/N, I from 1 to N")
    return int(first), int(last)
