"""The federation of served_gpt2.py with an int8 base, within a memory limit below the float32 base."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.adapters.gpt2 import WORDS
from bench.adapters.quantized import quantized_file
from bench.adapters.served import Case, roles, served
from bench.adapters.served_gpt2 import OPTIONS, SAMPLES

LIMIT = "450MB"


def measured(folder: Path, repeats: int) -> Iterator[dict[str, object]]:
    """Yield one row. `repeats` does not matter here."""
    model = quantized_file(folder, "gpt2", "int8")
    with tempfile.TemporaryDirectory() as path:
        device = ("--max-model", "1GB", "--max-memory", LIMIT)
        data = roles(Path(path), 1, WORDS, SAMPLES)
        yield served(
            Path(path), Case(f"gpt2 int8, fedavg, --max-memory {LIMIT}", "fedavg", model, data, OPTIONS, 1, device)
        )
