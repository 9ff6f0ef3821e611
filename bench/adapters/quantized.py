"""The part `quantized`: steps on bases in float32, bfloat16 and int8 within a limit, each in a process of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bench.adapters import gemma, gpt2
from bench.adapters.limits import asked
from edgefl.models import quantize_frozen
from edgefl.models.graph import model_files

STEPS = 3


class Size(NamedTuple):
    """A model: its case in held.py, the tokens of a batch, and the bytes that a learner may hold beside parameters."""

    case: str
    tokens: int
    limit: int


SIZES = {"GPT-2": Size("gpt2", 256, 58_000_000), "Gemma 3 270M's shape": Size("gemma", 512, 70_000_000)}
BASES = ("float32", "bfloat16", "int8")


def measured(folder: Path, repeats: int) -> Iterator[dict[str, Any]]:
    """Yield a row for each model and base: bytes of parameters, of the process beside them, and seconds of a step."""
    for name, size in SIZES.items():
        for base in BASES:
            found = asked(quantized_file(folder, size.case, base), size.case, STEPS, (size.limit, 0))
            held = found["held"]
            yield {
                "name": f"{name}, {base}",
                "tokens": size.tokens,
                "limit": size.limit,
                "base": found["base"],
                "load_peak": found["loaded"],
                "arena": held["arena"],
                "packing": held["scratch"],
                "resident_beside": found["resident"] - found["interpreter"] - found["base"],
                "seconds": found["seconds"],
                "digest": found["digest"],
            }


def quantized_file(folder: Path, case: str, base: str) -> Path:
    """Return the file of a model on a base, which is made once."""
    wide = (gemma if case == "gemma" else gpt2).model_file(folder)
    file = wide.with_stem(f"{wide.stem}-{base}")
    if base == "float32":
        return wide
    if not file.exists():
        model_files.save(file, quantize_frozen(model_files.load(wide), base))  # type: ignore[arg-type]
    return file
