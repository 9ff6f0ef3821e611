"""The cost of a client round at every density that clients trained at, from the metrics of a run. Nothing is printed.

A method with masks has one density, or each client has a density of its own that falls from round to round. Then a
client's records state the new density, and a round is counted at the density that its client had before. Where all
clients have one mask that moves, records state the density at which a client trained.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from edgefl.methods.rounds.client_round import EXECUTED, SEARCH

DENSITY = "density"  # entry of a client's record: density of its mask after the round
TRAINED = "trained_density"  # entry of a client's record: density of the mask at which it trained in the round

Record = Mapping[str, Any]


def by_density(
    records: Sequence[Record], density: float, nominal: Callable[[int], float | None]
) -> list[dict[str, Any]]:
    """Return a row for every density, the largest first: `client_rounds`, and the mean cost of a client round.

    records  records of clients that answered, by rounds
    density  density of the method's masks, which counts if the records state no density
    nominal  function from a number of training samples to the floating-point operations of a round
    Operations are None where they are not known, as in runs of earlier versions.
    """
    found, latest = defaultdict(list), dict[int, float]()
    falls = any(DENSITY in record for record in records)  # densities fall from 1
    for record in records:
        before = latest.get(record["client"], 1.0) if falls else density
        found[round(record.get(TRAINED, before), 2)].append(record)
        if DENSITY in record:
            latest[record["client"]] = record[DENSITY]
    return [_row(each, found[each], nominal) for each in sorted(found, reverse=True)]


def _row(density: float, records: Sequence[Record], nominal: Callable[[int], float | None]) -> dict[str, Any]:
    said = [nominal(record.get("examples", 0)) for record in records]
    return {
        "density": density,
        "client_rounds": len(records),
        "bytes": mean([record["down"] + record["up"] for record in records]),
        "messages": mean([messages(record) for record in records]),
        "seconds": mean([record["seconds"] for record in records]),
        "nominal_flops": mean(said),
        **executed(records),
    }


def messages(record: Record) -> int:
    """Return the number of a client round's messages, one down and one up, that carried a part of a model."""
    return (record["down"] > 0) + (record["up"] > 0)


def executed(records: Sequence[Record]) -> dict[str, float | None]:
    """Return the mean operations that a client round executed to train and to move a mask, or None if unknown."""
    said = [record for record in records if EXECUTED in record]
    return {
        EXECUTED: mean([record[EXECUTED] for record in said]),
        SEARCH: mean([record.get(SEARCH, 0.0) for record in said]),
    }


def mean(values: Sequence[float | None]) -> float | None:
    """Return the mean, or None if a value is None or if there are no values."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None
