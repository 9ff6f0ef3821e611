"""The text of a settings file, of a size that a person writes. Not what the settings mean (who asks knows)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

MOST_BYTES = 1 << 20  # of a settings file; a large one of a person has some kB


def read_settings_text(file: Path) -> str:
    """The text of a file. Raises OSError; ValueError for more than MOST_BYTES, and for what is no UTF-8."""
    return read_bounded(file, MOST_BYTES).decode("utf-8")


def read_bounded(file: Path, most: int) -> bytes:
    """The bytes of a file. Raises OSError; ValueError if there are more than `most`, of which no more are read."""
    with open(file, "rb") as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise ValueError(f"more than {most} bytes; expected at most {most}")
    return content


def json_table(text: str) -> dict[str, Any]:
    """An object of JSON. Raises ValueError for a text that is none."""
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError(f"{type(found).__name__} as JSON; expected an object")
    return found
