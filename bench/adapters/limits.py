"""Memory limits of a step: what processes without torch hold, what it costs, and whether bits stay equal."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.adapters import gpt2
from bench.processes import ROOT, python

MB = 10**6
LIMITS = (0, 120 * MB, 60 * MB, 40 * MB)  # beside the parameters. 0 is no limit


def measured(folder: Path, repeats: int) -> Iterator[dict[str, object]]:
    """Yield a row for each limit of GPT-2 with adapters."""
    yield from rows("gpt2", gpt2.model_file(folder), LIMITS, repeats)


def rows(case: str, file: Path, limits: Sequence[int], repeats: int) -> Iterator[dict[str, object]]:
    """Yield a row for each limit. Each limit has a process of its own, one after the other."""
    free: dict[str, Any] = {}
    for limit in limits:
        found = _held(file, case, limit, repeats)
        free = free or found
        held = found["held"]
        yield {
            "name": f"{case}, {limit // MB} MB" if limit else f"{case}, no limit",
            "base": found["base"],
            "interpreter": found["interpreter"],
            "resident_beside": found["resident"] - found["interpreter"] - found["base"],
            "held_beside": sum(held.values()) - held["params"],
            "arena": held["arena"],
            "packing": held["scratch"],
            "seconds": round(found["seconds"], 3),
            "times": round(found["seconds"] / free["seconds"], 3),
            "same_bits": found["digest"] == free["digest"],
        }


def _held(file: Path, case: str, limit: int, steps: int) -> dict[str, Any]:
    command = python("-m", "bench.adapters.held", str(file.resolve()), case, str(limit), str(steps))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{case} within {limit} bytes: {done.stderr[-500:]}")
    return dict(json.loads(done.stdout))
