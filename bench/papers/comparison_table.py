"""The comparison of a place as tables: what methods reach and cost over seeds, and which papers' orders hold.

The figures are the figures of edgefl's own comparisons (edgefl/study/comparison.py), from records in place of
directories.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from bench.papers.comparison import REFRESH
from edgefl.study.comparison import Comparison, ComparisonRow, Figure, compare, reached
from edgefl.study.summary import Summary

Known = dict[str, tuple[float, dict[int, Summary]]]  # by label: the rate, and by seed what came of it
MB = 1e6


class Order(NamedTuple):
    """A claim of a paper that one method does better than another."""

    paper: str
    better: str
    worse: str


ORDERS = (
    Order("PFLEGO, table 1", "PFLEGO", "FedPer"),
    Order("PFLEGO, table 1, but High", "PFLEGO", "FedAvg"),
    Order("FedPer", "FedPer", "FedAvg"),
    Order("Ditto; FedSpa, table 1", "Ditto", "FedAvg"),
    Order("Ditto; FedSpa, table 1", "Ditto", "Local"),
    Order("FedProx", "FedProx", "FedAvg"),
    Order("ours", "FedSPU", "Local"),
    Order("ours", "FedSPU", "FedAvg-FT"),
    Order("ours", "FedSPU", "FedSPU, keep=1"),
)


def compared(known: Known) -> Comparison | None:
    """Compare the methods that have the most seeds. Return None before any run is done."""
    seeds = max((tuple(made) for _, made in known.values()), key=len, default=())
    if not seeds:
        return None
    whole = [made for _, made in known.values() if tuple(made) == seeds]
    return compare({seed: [made[seed] for made in whole] for seed in seeds})


def orders(found: Comparison) -> list[tuple[Order, Figure, str]]:
    """Return the orders whose both methods are there, with the differences over seeds in points and the verdicts."""
    said = []
    for order in ORDERS:
        if order.better in found.rows and order.worse in found.rows:
            off = in_points(found.rows[order.better].score.minus(found.rows[order.worse].score))
            said.append((order, off, verdict(off)))
    return said


def verdict(off: Figure, or_equal: bool = False) -> str:
    """Return whether a difference is above 0, and by more than two standard errors over the seeds."""
    if off.mean is None:
        return "a seed is missing"
    met = "met" if off.mean > 0 or (or_equal and off.mean == 0) else "not met"
    if off.spread is None:
        return f"{met}, one seed"
    error = off.spread / len(off.values) ** 0.5
    return met if abs(off.mean) > 2 * error else f"{met}, within two errors"


def print_table(workload: str, known: Known) -> None:
    """Print what there is of a place."""
    console = Console()
    console.width = max(console.width, 160)
    found = compared(known)
    if found is None:
        console.print(f"{workload}: no run is done")
        return
    console.print(_methods(workload, known, found))
    for order, off, said in orders(found):
        console.print(f"{order.better} over {order.worse} ({order.paper}): {difference_text(off)}: {said}")
    print_missing(console, known, found)


def print_missing(console: Console, known: Known, found: Comparison) -> None:
    """Print the methods that are not in the table, if there are any."""
    if missing := [label for label in known if label not in found.rows]:
        console.print(f"not in the table, for want of seeds: {', '.join(missing)}")


def title_of(workload: str, found: Comparison) -> str:
    """Return the title of a table."""
    rounds = next(iter(found.rows.values())).rounds.mean
    return f"{workload}, {rounds:g} rounds, seeds {', '.join(map(str, found.seeds))}"


HELD_OUT = ("held-out clients", "their worst tenth")  # columns of clients that never took part


def _methods(workload: str, known: Known, found: Comparison) -> Table:
    table = Table(title=title_of(workload, found), title_justify="left")
    headings = (
        "", "rate", "accuracy %", "worst tenth", f"after refresh, {REFRESH} epochs", "at FedSPU's bytes", "MB",
        "of dense", "device s", "device GFLOP", "MB to train",
    )  # fmt: skip
    are_held_out = any(row.held_out for row in found.rows.values())
    for heading in (*headings, *(HELD_OUT if are_held_out else ())):
        table.add_column(heading, justify="left" if heading == "" else "right")
    for label, row in found.rows.items():
        rate, made = known[label]
        budget = found.rows["FedSPU"].payload_bytes if "FedSPU" in found.rows else None
        at_bytes = None if budget is None else at(budget, made, "payload_bytes")
        beside = [accuracy_text(row.held_out), accuracy_text(row.held_out_worst_tenth)] if are_held_out else []
        table.add_row(label, f"{rate:g}", *_cells(label, row, at_bytes), *beside)
    return table


def at(budget: Figure, made: Mapping[int, Summary], key: str) -> Figure:
    """Return what a method had reached at its last evaluation within the budget, seed by seed."""
    spent = zip(made.values(), budget.values, strict=True)
    points = [None if most is None else reached(summary.curve, key, most) for summary, most in spent]
    return Figure(tuple(None if point is None else point["accuracy"] for point in points))


def _cells(label: str, row: ComparisonRow, at_bytes: Figure | None) -> list[str]:
    memory = [tier["memory_bytes"] for tier in row.tiers]
    lowest, highest = (f"{value / MB:.2f}" for value in (min(memory), max(memory)))
    return [
        accuracy_text(row.score),
        accuracy_text(row.worst_tenth),
        accuracy_text(row.refreshed),
        accuracy_text(at_bytes),
        scaled(row.payload_bytes, MB),
        "" if row.of_dense is None else f"{row.of_dense:.2f}",
        scaled(row.device_seconds, 1),
        scaled(row.work, 1e9),
        f"{lowest} to {highest}" if label in ("FedSPU", "FedSPU + ES") else highest,
    ]


def in_points(figure: Figure) -> Figure:
    """Turn shares into percent."""
    return Figure(tuple(None if value is None else 100 * value for value in figure.values))


def difference_text(off: Figure) -> str:
    """Return a difference in points as text."""
    spread = "" if off.spread is None else f" (± {off.spread:.2f})"
    return f"{off.mean:+.2f}{spread} points"


def accuracy_text(figure: Figure | None) -> str:
    if figure is None or figure.mean is None:
        return "-"
    spread = "" if figure.spread is None else f" ± {100 * figure.spread:.1f}"
    return f"{100 * figure.mean:.1f}{spread}"


def scaled(figure: Figure, unit: float) -> str:
    return "-" if figure.mean is None else f"{figure.mean / unit:.3g}"
