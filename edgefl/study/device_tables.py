"""Tables of the time and the energy of modelled devices, labelled as a model. accuracy_targets.py and device_costs.py
compute the figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from edgefl.study.accuracy_targets import Target, target
from edgefl.study.comparison import Figure, Summaries
from edgefl.study.result_table import ResultTable, new_result_table
from edgefl.study.result_text import NONE, megabytes, percent

ADAPTING = ("adapting", "its energy")  # headings of the cost of an adaptation before a client's test
MODELLED = {"virtual-seconds": "virtual_seconds", "joules": "virtual_joules"}


def device_tables(by_seed: Summaries, accuracy: float | None = None) -> list[ResultTable]:
    """Return the table of the methods' costs until they reached an accuracy, if devices are modelled or an accuracy was
    asked for, and the table of the cost of each device's rounds.

    accuracy  the accuracy to reach, as for `target`
    """
    is_modelled = any(summary.devices for of in by_seed.values() for summary in of)
    found = target(by_seed, accuracy) if is_modelled or accuracy is not None else None
    tables = [] if found is None else [_at(found, by_seed)]
    return [*tables, _of_devices(by_seed)] if is_modelled else tables


def _at(found: Target, by_seed: Summaries) -> ResultTable:
    names = list(next(iter(found.spent.values())))
    model = "; time and energy by the model of the devices" if "joules" in names else ""
    ends = [name for name in names if name in MODELLED]
    headings = ["method", *(HEADS.get(name, name) for name in names), *(f"{HEADS[name]} in all" for name in ends)]

    def cells(method: str) -> Iterator[str]:
        yield method
        for name in names:
            mean = found.spent[method][name].mean
            yield NONE if mean is None else WORDS[name](mean)
        last = [s for of in by_seed.values() for s in of if s.method == method]
        for name in ends:
            yield WORDS[name](Figure(tuple(getattr(s, MODELLED[name]) for s in last)).mean or 0.0)

    return new_result_table(f"Until {percent(found.accuracy)} of accuracy{model}", headings, map(cells, found.spent))


def _of_devices(by_seed: Summaries) -> ResultTable:
    """Return the table of devices for the first seed."""
    several = " of the first seed" if len(by_seed) > 1 else ""
    rows, first = [], next(iter(by_seed.values()))
    adapts = any("adapt_seconds" in row for summary in first for row in summary.devices)
    for summary in first:
        for row in summary.devices:
            counts = [str(row[name]) for name in ("client_rounds", "late", "absent")]
            means = [NONE] * 2 if row["seconds"] is None else [duration(row["seconds"]), energy(row["joules"])]
            rows.append([summary.method, row["device"], *counts, *means, *(_adapting(row) if adapts else ())])
    headings = ("method", "device", "rounds", "late", "absent", "time", "energy", *(ADAPTING if adapts else ()))
    return new_result_table(f"Client rounds{several} by the model of each device", headings, rows, left=2)


def _adapting(row: Mapping[str, float]) -> tuple[str, str]:
    """Return the cells of a device's adaptation before a test."""
    if "adapt_seconds" not in row:
        return NONE, NONE
    return duration(row["adapt_seconds"]), energy(row["adapt_joules"])


def duration(seconds: float) -> str:
    """Write seconds in the largest unit of which there are more than two."""
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds > 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def energy(joules: float) -> str:
    return f"{joules / 1e3:.3g} kJ" if joules >= 1e3 else f"{joules:.3g} J" if joules >= 1 else f"{1e3 * joules:.3g} mJ"


HEADS = {"virtual-seconds": "time", "joules": "energy", "bytes": "payload"}  # headings of columns, if not the name
WORDS: Mapping[str, Callable[[float], str]] = {  # name of a cost -> function that writes it in words
    "rounds": lambda spent: f"{spent:.4g}",
    "bytes": megabytes,
    "virtual-seconds": duration,
    "joules": energy,
}
