"""The text of a settings file, up to the size that a person writes. The caller knows what the settings mean."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

MOST_BYTES = 1 << 20  # bytes of a settings file, where a large file that a person wrote has some kB


def read_settings_text(file: Path) -> str:
    """Return the text of a file.

    Raises  OSError if it cannot be read, ValueError if it has more than MOST_BYTES bytes or is not UTF-8.
    """
    return read_bounded(file, MOST_BYTES).decode("utf-8")


def read_bounded(file: Path, most: int) -> bytes:
    """Return the bytes of a file, of which at most `most` + 1 are read.

    Raises  OSError if it cannot be read, ValueError if it has more than `most` bytes.
    """
    with open(file, "rb") as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise ValueError(f"more than {most} bytes; expected at most {most}")
    return content


def json_table(text: str) -> dict[str, Any]:
    """Return the JSON object in a text. Raises ValueError if the text is not a JSON object."""
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError(f"{type(found).__name__} as JSON; expected an object")
    return found
