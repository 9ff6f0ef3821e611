"""The sums of a night's record, which are small enough for the repository: a line for each method and way of running.

The first line has the settings, the commit and the seeds. A schedule that broke a promise is named with its promise.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from tests.vopr import night

GROUP = ("method", "transport", "buffer")
SUMMED = ("rounds", "faults", "crashes", "commands", "departures", "sleeps", "late", "any_id", "conditions")
MEMBERS = ("departures", "sleeps", "late", "conditions")  # a schedule with one of them has members that come and go


def sums(record: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of the sums. `digest` is of the digests of a line's schedules in the order of their seeds."""
    head, *lines = night.lines(record)
    lines.sort(key=lambda line: line["seed"])
    seeds = [line["seed"] for line in lines]
    yield {**head, "seeds": [seeds[0], seeds[-1]], "schedules": len(seeds)}
    for line in lines:
        if line["failure"] is not None:
            yield {"seed": line["seed"], "failure": line["failure"]}
    for group, found in groupby(sorted(lines, key=_group), _group):
        yield {**dict(zip(GROUP, group, strict=True)), **_sums(list(found))}


def _group(line: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(line[name] for name in GROUP)


def _sums(lines: list[dict[str, Any]]) -> dict[str, Any]:
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update({name: line[name] for name in SUMMED})
    return {
        "schedules": len(lines),
        "failures": sum(line["failure"] is not None for line in lines),
        "with_members": sum(any(line[name] for name in MEMBERS) for line in lines),
        "hours": round(sum(line["hours"] for line in lines), 2),
        **counts,
        "cpu_s": round(sum(line["cpu_s"] for line in lines), 2),
        "digest": hashlib.sha256(" ".join(line["digest"] for line in lines).encode()).hexdigest()[:16],
    }
