"""Methods of all papers beside each other under equal rules, on one machine.

`comparison` tries rates alone, on seed 1, where it also tests. Here every method has the same number of trials
(search.py), and its own constants are among them: PFLEGO's rho, mu of Ditto and FedProx, FedRep's split of the epochs,
PruneFL's density. Trials use the validation samples of seeds 101 and 102. Tests use seeds 1 to 3.

Each run also has every client's model after the newest values and five local epochs. So a common model stands beside
personal models after equal adaptation. FedMP and random dropout would adapt a sub-model there. So they have a row with
`ft=5`, which adapts the whole common model, from the same rounds with the same values. Clients are modelled devices,
which says seconds and joules and changes no model.

The rule, which was written before the runs: a difference is that of FedSPU less another method, by seed. FedSPU is
ahead where the whole 95 % t interval is above 0, and behind where it is below 0. Otherwise no difference is shown. The
seeds are the sample. Clients are described by their worst tenth, and no test is made over clients.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from bench.papers.comparison import METHODS, REFRESH, Method, Study
from bench.papers.comparison_table import MB, Known, accuracy_text, at, in_points, scaled
from edgefl.methods.rounds.round_metrics import REFRESHED
from edgefl.study.comparison import BUDGETS, Figure
from edgefl.study.paired_differences import PairedDifference
from edgefl.study.summary import Summary

FEDSPU = "FedSPU"
TRIALS = 6
ADAPTED = ", adapted"  # end of the name of a row that adapts by `ft`
EQUAL = {"bytes": BUDGETS["bytes"], "s": BUDGETS["virtual-seconds"], "J": BUDGETS["joules"]}


def _with(method: Method, *own: Mapping[str, object]) -> Method:
    return replace(method, own=own)


def adapting(name: str, method: str) -> tuple[str, Method]:
    """Return a row that adapts a method's common model before the test. It has the values of the method's own row."""
    return f"{name}{ADAPTED}", Method(f"{method}:ft={REFRESH}", like=name, points=2)


FAIR = Study(
    "fair",
    {
        FEDSPU: METHODS[FEDSPU],
        "FedAvg": METHODS["FedAvg"],
        "SCAFFOLD": _with(METHODS["SCAFFOLD"], {"server_lr": 0.5}, {"server_lr": 1.5}),
        "FedRep": _with(METHODS["FedRep"], {"head_epochs": 2, "epochs": 3}, {"head_epochs": 3, "epochs": 2}),
        "FedBABU": _with(METHODS["FedBABU"], {"ft_epochs": 5}, {"ft_epochs": 5, "ft_lr": 0.01}),
        "FedMP": _with(METHODS["FedMP"], {"weight": "samples"}),
        "PruneFL": _with(METHODS["PruneFL"], {"density": 0.7}, {"every": 10}),
        "Hermes": _with(METHODS["Hermes"], {"prune_rate": 0.1}, {"accuracy": 0.8}),
        "FedAvg-FT": _with(METHODS["FedAvg-FT"], {"ft_epochs": 2}, {"ft_epochs": 5}),
        "random dropout": _with(Method("random-dropout"), {"scale": True}, {"weight": "uniform"}),
        "PFLEGO": _with(METHODS["PFLEGO"], {"rho": 0.006}, {"rho": 0.02}),
        "FedPer": METHODS["FedPer"],
        "Ditto": _with(METHODS["Ditto"], {"mu": 0.1}, {"mu": 1.0}),
        "FedProx": _with(METHODS["FedProx"], {"mu": 0.1}, {"mu": 1.0}),
        "Local": METHODS["Local"],
        "FedSelect": _with(Method("fedselect"), {"growth": 0.1}, {"personal": 0.25}),
        "APFL": _with(Method("apfl"), {"alpha": 0.25}, {"alpha": 0.75}),
        "LG-FedAvg": Method("lg-fedavg"),
        "Subsampling": _with(Method("subsampling"), {"share": 0.75}, {"rescale": True}),
        "FjORD": _with(Method("fjord"), {"weight": "uniform"}),
        "FedSPU + ES": METHODS["FedSPU + ES"],
        "FedSPU, keep=1": METHODS["FedSPU, keep=1"],
        **dict(map(adapting, ("random dropout", "FedMP"), ("random-dropout", "fedmp"))),
    },
    {"refresh": REFRESH, "devices": "mixed"},
    points=20,
    trials=TRIALS,
)


class Lead(NamedTuple):
    """FedSPU's differences from another method in points over the seeds: as the models are, and after adaptation."""

    own: PairedDifference
    adapted: PairedDifference


def adapted_of(summary: Summary) -> Summary:
    """Return the summary whose scores are those after the newest values and the local epochs."""
    return replace(summary, evaluation={summary.kind: summary.evaluation[REFRESHED]})


def figures(known: Known, name: str) -> list[Figure]:
    """Return the accuracy and the worst tenth of a method, as its models are and after adaptation."""
    made = list(known[name][1].values())
    if f"{name}{ADAPTED}" in known:
        after = list(known[f"{name}{ADAPTED}"][1].values())
    else:
        after = [adapted_of(each) for each in made] if all(REFRESHED in each.evaluation for each in made) else []
    parts = ((part, score) for part in (made, after) for score in ("accuracy", "worst_tenth"))
    return [Figure(tuple(getattr(each, score) for each in part)) for part, score in parts]


def lead(known: Known, name: str) -> Lead:
    """Return FedSPU's differences from a method. A method whose clients have stopped in some seed is not adapted."""
    mine, others = ([in_points(each).values for each in figures(known, who)] for who in (FEDSPU, name))
    own, adapted = (PairedDifference.of(mine[at] if others[at] else (), others[at]) for at in (0, 2))
    return Lead(own, adapted)


def said(off: PairedDifference) -> str:
    """Return a difference with its interval, and what the rule says of it."""
    if off.mean is None:
        return "-"
    if off.low is None or off.high is None:
        return f"{off.mean:+.1f} (one seed)"
    verdict = "ahead" if off.low > 0 else "behind" if off.high < 0 else "not shown"
    return f"{off.mean:+.1f} ({off.low:+.1f} to {off.high:+.1f}), {verdict}"


def at_equal(known: Known, name: str) -> list[Figure]:
    """Return the accuracy of a method at the bytes, seconds and joules of FedSPU's whole run."""
    spent = {key: tuple(summary.curve[-1][key] for summary in known[FEDSPU][1].values()) for key in EQUAL.values()}
    return [at(Figure(most), known[name][1], key) for key, most in spent.items()]


def complete(known: Known) -> Known:
    """Return the methods that have as many seeds as FedSPU."""
    seeds = tuple(known.get(FEDSPU, (0.0, {}))[1])
    return {name: each for name, each in known.items() if seeds and tuple(each[1]) == seeds}


def rows(known: Known) -> Known:
    """Return the methods without the rows that adapt a method's model."""
    return {name: each for name, each in known.items() if not name.endswith(ADAPTED)}


def print_table(workload: str, known: Known) -> None:
    """Print what there is of a place."""
    console = Console()
    console.width = max(console.width, 200)
    if not (whole := complete(known)):
        console.print(f"{workload}: no run is done")
        return
    table = Table(title=f"{workload}, seeds {', '.join(map(str, whole[FEDSPU][1]))}", title_justify="left")
    headings = (
        "", "rate", "accuracy %", "worst tenth", "adapted", "worst tenth", *(f"at FedSPU's {name}" for name in EQUAL),
        "MB", "GFLOP", "FedSPU ahead by (95 % t)", "after adaptation",
    )  # fmt: skip
    for heading in headings:
        table.add_column(heading, justify="right" if heading else "left")
    for name, (rate, made) in rows(whole).items():
        sent = Figure(tuple(float(each.payload_bytes) for each in made.values()))
        work = Figure(tuple(each.work for each in made.values()))
        ahead = lead(whole, name)
        table.add_row(
            name, f"{rate:g}", *map(accuracy_text, figures(whole, name)), *map(accuracy_text, at_equal(whole, name)),
            scaled(sent, MB), scaled(work, 1e9), *("" if name == FEDSPU else said(each) for each in ahead),
        )  # fmt: skip
    console.print(table)
    if missing := [name for name in known if name not in whole]:
        console.print(f"not in the table, for want of seeds: {', '.join(missing)}")
