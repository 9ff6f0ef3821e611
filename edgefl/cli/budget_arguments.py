"""The values of --budget NAME=AMOUNT and --target-accuracy SHARE, at which methods are compared."""

from __future__ import annotations

import argparse

from edgefl.cli.size_arguments import size
from edgefl.study.comparison import BUDGETS

HELP = (
    "amount at which the methods are compared: rounds=20, bytes=5MB of payload, seconds=60 of the devices' time, "
    "work=1e12 operations, and with --devices virtual-seconds=3600 or joules=500. Repeat the option to set more. "
    "(default: the smallest amount that a method spends in the whole run)"
)


def budget(text: str) -> tuple[str, float]:
    """Return the name and the amount of a budget, bytes as a number of bytes. Raises ArgumentTypeError for any other
    text.
    """
    name, _, amount = text.partition("=")
    if name not in BUDGETS:
        raise argparse.ArgumentTypeError(f"{text!r}; expected one of {', '.join(BUDGETS)}, as in bytes=5MB")
    if name == "bytes":
        return name, float(size(amount))
    try:
        found = float(amount)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r}; expected {name}= a number above 0")
    return name, found


def share(text: str) -> float:
    """Return an accuracy from 0 to 1. Raises ArgumentTypeError for any other text."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found <= 1:
        raise argparse.ArgumentTypeError(f"{text!r}; expected a share above 0 and up to 1, as .9")
    return found
