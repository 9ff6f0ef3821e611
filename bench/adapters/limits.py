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
STEPS = 3  # of a process whose memory is read
LIMITS = ((0, 0), (120 * MB, 0), (60 * MB, 0), (40 * MB, 0))
"""Limits beside the parameters, where 0 is no limit, and the most examples that pass at once, where 0 is all."""


def measured(folder: Path, repeats: int) -> Iterator[dict[str, object]]:
    """Yield a row for each limit of GPT-2 with adapters."""
    yield from rows("gpt2", gpt2.model_file(folder), LIMITS, repeats)


def rows(case: str, file: Path, limits: Sequence[tuple[int, int]], repeats: int) -> Iterator[dict[str, object]]:
    """Yield a row for each limit. Memory is that of a process for each limit. Seconds are of one more process, where
    the limits take turns.
    """
    free: dict[str, Any] = {}
    seconds = asked(file, case, repeats, *limits)
    for (limit, part), spent in zip(limits, seconds, strict=True):
        found = asked(file, case, STEPS, (limit, part))
        free = free or found
        held = found["held"]
        yield {
            "name": f"{case}, {f'{limit // MB} MB' if limit else 'no limit'}{f', parts of {part}' if part else ''}",
            "limit": limit,
            "micro_batch": part,
            "base": found["base"],
            "interpreter": found["interpreter"],
            "resident_beside": found["resident"] - found["interpreter"] - found["base"],
            "held_beside": sum(held.values()) - held["params"],
            "arena": held["arena"],
            "packing": held["scratch"],
            "seconds": round(spent, 3),
            "times": round(spent / seconds[0], 3),
            "same_bits": found["digest"] == free["digest"],
        }


def asked(file: Path, case: str, steps: int, *limits: tuple[int, int]) -> Any:
    """Return what a process of held.py prints of a model file, for limits in bytes and the most examples at once."""
    words = [f"{limit}:{part}" for limit, part in limits]
    command = python("-m", "bench.adapters.held", str(file.resolve()), case, str(steps), *words)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{case} within {limits} bytes: {done.stderr[-500:]}")
    return json.loads(done.stdout)
