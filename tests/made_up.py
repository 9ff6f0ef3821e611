"""Made-up machines: folders that stand for /, with files as Linux writes them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def write(root: Path, files: Mapping[str, object]) -> Path:
    """Write each file with its text and the end of a line, in place of its former content."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n")
    return root
