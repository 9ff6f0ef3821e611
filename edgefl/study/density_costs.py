"""The cost of a client round at every density that clients trained at, from the metrics of a run. Nothing
is printed.

A method with masks has one density, or each client another, which falls: then its records say to which it has come, and
a round is counted at the density that its client had before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from edgefl.methods.rounds.client_round import EXECUTED, SEARCH

DENSITY = "density"  # of a client's record: of the mask that it goes on with

Record = Mapping[str, Any]


def by_density(
    records: Sequence[Record], density: float, nominal: Callable[[int], float | None]
) -> list[dict[str, Any]]:
    """A row for every density, the largest first: `client_rounds`, and the mean of what one of them took.

    records  of clients that answered, by rounds
    density  where records do not say it: of the method's masks
    nominal  floating point operations of a round over so many training samples
    Operations are None where they are not known, as in runs of earlier versions.
    """
    found, latest = defaultdict(list), dict[int, float]()
    falls = any(DENSITY in record for record in records)  # from 1
    for record in records:
        found[round(latest.get(record["client"], 1.0) if falls else density, 2)].append(record)
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
    """The number of a client round's messages, one down and one up, that carried a part of a model."""
    return (record["down"] > 0) + (record["up"] > 0)


def executed(records: Sequence[Record]) -> dict[str, float | None]:
    """Mean operations of a client round as they were executed, to train and to move a mask; None: nobody says that."""
    said = [record for record in records if EXECUTED in record]
    return {
        EXECUTED: mean([record[EXECUTED] for record in said]),
        SEARCH: mean([record.get(SEARCH, 0.0) for record in said]),
    }


def mean(values: Sequence[float | None]) -> float | None:
    """None where one of them is, or there are none."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None
