"""Clients that never took part in training: what each method gives them, with the values that `fair` has chosen.

The federations are fair.py's, of whose clients a quarter is held out. Every method makes a model for such a client
from the server's part, adapted as algorithms 7.24 says. Methods that test a common model adapt it by `ft=5`, so that
all adapt for about as long as FedSPU. Evaluations come after the last round.

The rule, which was written before the runs, is fair.py's: a difference counts where its 95 % t interval is on one side
of 0.
"""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from bench.papers.comparison import REFRESH, Method, Study
from bench.papers.comparison_table import Known, accuracy_text, in_points
from bench.papers.fair import ADAPTED, FAIR, FEDSPU, complete, said
from edgefl.study.comparison import Figure
from edgefl.study.paired_differences import PairedDifference

COMMON = {
    "FedAvg": "fedavg", "PruneFL": "prunefl", "FedMP": "fedmp", "random dropout": "random-dropout",
    "FedProx": "fedprox",
}  # fmt: skip
PERSONAL = ("Ditto", "FedPer", "FedSelect", "Hermes", "FedRep")
ADAPTING = {f"{name}{ADAPTED}": Method(f"{label}:ft={REFRESH}", like=name) for name, label in COMMON.items()}
TRAINED, HELD_OUT = 15, 5  # of fair.py's 20 clients of the digits

NEWCOMERS = Study(
    "newcomers",
    {**{name: FAIR.methods[name] for name in (FEDSPU, *COMMON, *PERSONAL)}, **ADAPTING},
    {"clients": TRAINED, "held_out": HELD_OUT},
    points=1,
    lent=(FAIR.name,),
    trials=FAIR.trials,
)


def shown(known: Known) -> Known:
    """Return the methods of the table: those with personal models, and the adapted ones."""
    return {name: each for name, each in complete(known).items() if name not in COMMON}


def figures(known: Known, name: str) -> list[Figure]:
    """Return the accuracy of the trained clients, then that of the held-out clients and their worst tenth."""
    made = known[name][1].values()
    return [
        Figure(tuple(getattr(each, what) for each in made)) for what in ("accuracy", "held_out", "held_out_worst_tenth")
    ]


def lead(known: Known, name: str) -> PairedDifference:
    """Return FedSPU's difference from a method on the held-out clients, in points."""
    mine, others = (in_points(figures(known, who)[1]).values for who in (FEDSPU, name))
    return PairedDifference.of(mine, others)


def print_table(workload: str, known: Known) -> None:
    """Print what there is of a place."""
    console = Console()
    console.width = max(console.width, 140)
    table = Table(title=f"{workload}: clients that never took part", title_justify="left")
    for heading in ("", "trained clients %", "held-out clients %", "worst tenth", "FedSPU ahead by (95 % t)"):
        table.add_column(heading, justify="right" if heading else "left")
    rows = shown(known)
    for name in rows:
        ahead = "" if name == FEDSPU else said(lead(rows, name))
        table.add_row(name, *map(accuracy_text, figures(rows, name)), ahead)
    console.print(table)
