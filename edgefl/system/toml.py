"""TOML text as plain values, on every Python that edgefl runs on. The caller knows what the values mean."""

from __future__ import annotations

import re
import sys
from typing import Any

MOST_DOTS = 256  # dots in a key, because the time of a parser grows with the square of their number
QUOTED = re.compile(r'"[^"]*"|\'[^\']*\'')


def parse(text: str) -> dict[str, Any]:
    """Return the tables of a TOML text.

    Raises  ValueError if the text is not TOML, or if Python 3.10 lacks the package tomli.
    """
    if sys.version_info >= (3, 11):
        import tomllib as toml
    else:
        try:
            import tomli as toml
        except ModuleNotFoundError:
            raise ValueError("Python 3.10 needs a package to read TOML; expected: pip install tomli") from None
    _check_keys(text)
    try:
        return dict(toml.loads(text))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _check_keys(text: str) -> None:
    """Raise ValueError for a dotted key with so many parts that a parser would take long."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.count(".") > MOST_DOTS:
            for part in QUOTED.sub("", line).split("="):
                if (dots := part.count(".")) > MOST_DOTS and "," not in part:  # a part with commas is a list of numbers
                    raise ValueError(f"line {number} has {dots} dots in a key; expected at most {MOST_DOTS}")
