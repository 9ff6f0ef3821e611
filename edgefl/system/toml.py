"""TOML text as plain values, on every Python that edgefl runs on. What the values mean is for whoever asks."""

from __future__ import annotations

import sys
from typing import Any


def parse(text: str) -> dict[str, Any]:
    """The tables of a text. Raises ValueError for one that is no TOML, or where Python 3.10 lacks the package tomli."""
    if sys.version_info >= (3, 11):
        import tomllib as toml
    else:
        try:
            import tomli as toml
        except ModuleNotFoundError:
            raise ValueError("Python 3.10 reads TOML by a package; expected: pip install tomli") from None
    try:
        return dict(toml.loads(text))
    except RecursionError:
        raise ValueError("nested too deeply") from None
