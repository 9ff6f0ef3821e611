"""Tables of what weak devices get of each method: every tier, and what was reached at an equal budget.

Budgets are bytes, virtual time and energy. The tables also say whether our expectations of the cached prefix hold. They
are made from records, as comparison_table.py does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from bench.papers.comparison_table import (
    MB,
    Known,
    accuracy_text,
    at,
    compared,
    difference_text,
    in_points,
    print_missing,
    scaled,
    title_of,
    verdict,
)
from bench.papers.weak import DROPOUT, FEDSPU, KEEPING, OURS, offered
from edgefl.study.accuracy_targets import target
from edgefl.study.comparison import BUDGETS, Comparison, Figure, compare
from edgefl.study.summary import Summary

EQUAL = {"bytes": ("MB", MB), "virtual-seconds": ("s", 1.0), "joules": ("kJ", 1e3)}  # by budget: unit, in base units
WEAKEST = 2  # tiers, in which dropout should be behind


class Expected(NamedTuple):
    """A difference in points, and what we think of it."""

    claim: str
    off: Figure
    said: str


class Spent(NamedTuple):
    """The spent budgets, by the names of EQUAL.

    least   what the thriftiest of KEEPING spends, by seed
    wanted  the lowest accuracy that one of them ends with. `first` is by method what it had spent when it had so much
    """

    least: dict[str, Figure]
    wanted: float
    first: dict[str, dict[str, Figure]]


def by_tier(made: Mapping[int, Summary]) -> list[Figure]:
    """Return the mean accuracy of the clients of each tier, the weakest first."""
    tiers = zip(*(summary.tiers for summary in made.values()), strict=True)
    return [Figure(tuple(tier["accuracy"] for tier in each)) for each in tiers]


def spent(known: Known, found: Comparison) -> Spent | None:
    """Return what was spent, or None while some method that keeps personal models has not been run."""
    if any(name not in found.rows for name in KEEPING):
        return None

    def by_seed(names: Sequence[str]) -> dict[int, list[Summary]]:
        return {seed: [known[name][1][seed] for name in names] for seed in found.seeds}

    budgets, lowest = compare(by_seed(KEEPING)).budgets, target(by_seed(KEEPING))
    assert lowest is not None  # all of them classify
    first = target(by_seed(list(found.rows)), lowest.accuracy)
    assert first is not None
    return Spent({name: budgets[name].least for name in EQUAL}, lowest.accuracy, first.spent)


def expected(known: Known, found: Comparison) -> list[Expected]:
    """Return what issue 18 expects, for the methods that are there."""
    if OURS not in found.rows:
        return []
    ours, keeps = by_tier(known[OURS][1]), [tier["keep"] for tier in found.rows[OURS].tiers]
    said = []
    for other, tiers in ((FEDSPU, len(keeps)), (DROPOUT, WEAKEST)):
        theirs = by_tier(known[other][1]) if other in found.rows else []
        for keep, mine, its in zip(keeps[:tiers], ours, theirs, strict=False):
            off = in_points(mine.minus(its))
            claim = f"tier {keep:g}: {OURS} over {other}"
            said.append(Expected(claim, off, verdict(off, or_equal=other == FEDSPU)))
    if known_spent := spent(known, found):
        for name in ("virtual-seconds", "joules"):
            mine = at(known_spent.least[name], known[OURS][1], BUDGETS[name])
            for other in (each for each in KEEPING if each != OURS):
                off = in_points(mine.minus(at(known_spent.least[name], known[other][1], BUDGETS[name])))
                said.append(Expected(f"at equal {name}: {OURS} over {other}", off, verdict(off)))
    return said


def print_table(workload: str, known: Known) -> None:
    """Print what there is of a place."""
    console = Console()
    console.width = max(console.width, 160)
    console.print(_offers(workload))
    found = compared(known)
    if found is None:
        console.print(f"{workload}: no run is done")
        return
    console.print(_tiers(workload, known, found))
    if known_spent := spent(known, found):
        console.print(_equal(known, found, known_spent))
    for each in expected(known, found):
        what = "nothing evaluated in time" if each.off.mean is None else f"{difference_text(each.off)}: {each.said}"
        console.print(f"{each.claim}: {what}")
    print_missing(console, known, found)


def _table(title: str, headings: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left")
    for heading in headings:
        table.add_column(heading, justify="right" if heading else "left")
    return table


def _offers(workload: str) -> Table:
    title = f"{workload}: what {OURS} asks of a tier, and what a round costs there, of a dense one (FedSPU's)"
    table = _table(title, ("", "neurons", "cut", "multiply-adds", "memory", "values sent"))
    for keep, offer, cost, fedspu, dense in offered(workload):
        costs = [(each.macs, each.memory, each.values) for each in (cost, fedspu, dense)]
        shares = [f"{ours / all:.3f} ({theirs / all:.3f})" for ours, theirs, all in zip(*costs, strict=True)]
        table.add_row(f"tier {keep:g}", f"{offer.keep:g}", offer.cut or "-", *shares)
    return table


def _tiers(workload: str, known: Known, found: Comparison) -> Table:
    keeps = [f"tier {tier['keep']:g}" for tier in next(iter(found.rows.values())).tiers]
    table = _table(title_of(workload, found), ("", "rate", "accuracy %", *keeps, "worst tenth", "device GFLOP"))
    for label, row in found.rows.items():
        rate, made = known[label]
        figures = [accuracy_text(figure) for figure in (row.score, *by_tier(made), row.worst_tenth)]
        table.add_row(label, f"{rate:g}", *figures, scaled(row.work, 1e9))
    return table


def _equal(known: Known, found: Comparison, what: Spent) -> Table:
    least = ", ".join(f"{scaled(what.least[name], size)} {unit}" for name, (unit, size) in EQUAL.items())
    title = f"accuracy % at the least of {', '.join(KEEPING)}: {least}; to {100 * what.wanted:.1f} %; modelled devices"
    units = [unit for unit, _ in EQUAL.values()]
    headings = (*(f"at equal {unit}" for unit in units), *units, *(f"{unit} to it" for unit in units))
    table = _table(title, ("", *headings))
    for label in found.rows:
        made = known[label][1]
        reached = [accuracy_text(at(what.least[name], made, BUDGETS[name])) for name in EQUAL]
        ends = [Figure(tuple(each.curve[-1][BUDGETS[name]] for each in made.values())) for name in EQUAL]
        totals = [scaled(end, size) for end, (_, size) in zip(ends, EQUAL.values(), strict=True)]
        to_it = [scaled(what.first[label][name], size) for name, (_, size) in EQUAL.items()]
        table.add_row(label, *reached, *totals, *to_it)
    return table
