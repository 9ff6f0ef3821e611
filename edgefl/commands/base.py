"""What cli.py knows of a sub-command: how it is described, which options it takes, and what runs it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple


class Command(NamedTuple):
    """One sub-command.

    run  the options by name -> the exit code. Raises RequestError for a wrong request (exit code 2), EdgeflError or
         OSError if the work failed (1).
    """

    help: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[dict[str, Any]], int]


class RequestError(Exception):
    """What was asked for cannot be done as asked."""
