"""Time and energy of modelled devices as tables, labelled as a model. They are computed elsewhere (accuracy_targets.py,
device_costs.py).
"""

from __future__ import annotations

from rich.table import Table

from edgefl.study.accuracy_targets import Target, target
from edgefl.study.comparison import Figure, Summaries
from edgefl.study.result_text import NONE, percent
from edgefl.study.table_style import new_table

MODELLED = {"virtual-seconds": "virtual_seconds", "joules": "virtual_joules"}


def device_tables(by_seed: Summaries, accuracy: float | None = None) -> list[Table]:
    """What methods had spent when they reached an accuracy, where devices are modelled or one was asked for; and what
    the rounds of each device took.

    accuracy  as of `target`
    """
    is_modelled = any(summary.devices for of in by_seed.values() for summary in of)
    found = target(by_seed, accuracy) if is_modelled or accuracy is not None else None
    tables = [] if found is None else [_at(found, by_seed)]
    return [*tables, _of_devices(by_seed)] if is_modelled else tables


def _at(found: Target, by_seed: Summaries) -> Table:
    names = list(next(iter(found.spent.values())))
    model = "; time and energy by the model of the devices" if "joules" in names else ""
    table = new_table(f"Until {percent(found.accuracy)} of accuracy{model}")
    table.add_column("method", overflow="fold")
    shown = {"rounds": lambda n: f"{n:.4g}", "bytes": lambda n: f"{n / 1e6:.2f} MB"}
    shown |= {"virtual-seconds": duration, "joules": energy}
    heads = {"virtual-seconds": "time", "joules": "energy", "bytes": "payload"}
    for name in names:
        table.add_column(heads.get(name, name), justify="right")
    ends = [name for name in names if name in MODELLED]
    for name in ends:
        table.add_column(f"{heads[name]} in all", justify="right")
    for method, spent in found.spent.items():
        cells = [NONE if spent[name].mean is None else shown[name](spent[name].mean or 0.0) for name in names]
        last = [s for of in by_seed.values() for s in of if s.method == method]
        whole = [Figure(tuple(getattr(s, MODELLED[name]) for s in last)).mean for name in ends]
        table.add_row(method, *cells, *(shown[name](end or 0.0) for name, end in zip(ends, whole, strict=True)))
    return table


def _of_devices(by_seed: Summaries) -> Table:
    """Of the first seed."""
    several = " of the first seed" if len(by_seed) > 1 else ""
    table = new_table(f"Client rounds{several} by the model of each device")
    table.add_column("method", overflow="fold")
    table.add_column("device", overflow="fold")
    for column in ("rounds", "late", "absent", "time", "energy"):
        table.add_column(column, justify="right")
    for summary in next(iter(by_seed.values())):
        for row in summary.devices:
            counts = [str(row[name]) for name in ("client_rounds", "late", "absent")]
            means = [NONE] * 2 if row["seconds"] is None else [duration(row["seconds"]), energy(row["joules"])]
            table.add_row(summary.method, row["device"], *counts, *means)
    return table


def duration(seconds: float) -> str:
    """In the largest unit of which there is more than two."""
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds > 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def energy(joules: float) -> str:
    return f"{joules / 1e3:.3g} kJ" if joules >= 1e3 else f"{joules:.3g} J" if joules >= 1 else f"{1e3 * joules:.3g} mJ"
