"""`python -m bench papers energy`: FedSPU's figure 13, the energy of all clients by method, on modelled devices.

The runs are fair.py's, so records that `fair` has made serve here, and a run that is missing is made as `fair` makes
it. The paper measures Jetson Nanos with a power meter. Here the joules are those of the modelled `mixed` devices:
arithmetic, bytes, idling, and the waking of the radio for each message. Local training sends nothing, so its joules are
the joules of arithmetic alone.

The rule, which was written before the figures were computed: a method spends less than FedSPU, or more, where the whole
95 % t interval of what it saves by seed is on one side of 0. Otherwise no difference is shown.
"""

from __future__ import annotations

from dataclasses import replace

from rich.console import Console
from rich.table import Table

from bench.papers.comparison_table import Known, accuracy_text, scaled
from bench.papers.fair import ADAPTED, EQUAL, FAIR, FEDSPU, complete
from bench.papers.rivals import RIVALS
from edgefl.study.comparison import Figure
from edgefl.study.paired_differences import PairedDifference

OF_THE_PAPER = (name for name in RIVALS if name != FEDSPU and not name.endswith(ADAPTED))
SHOWN = (FEDSPU, "FedSPU + ES", *OF_THE_PAPER, "FedAvg", "Local")
ENERGY = replace(FAIR, methods={name: FAIR.methods[name] for name in SHOWN})


def joules(known: Known, name: str) -> Figure:
    """Return the joules of all clients in a method's whole run, by seed."""
    return Figure(tuple(summary.curve[-1][EQUAL["J"]] for summary in known[name][1].values()))


def saved(known: Known, name: str) -> PairedDifference:
    """Return what a method saves of FedSPU's joules, in percent of them, over the seeds."""
    pairs = zip(joules(known, FEDSPU).values, joules(known, name).values, strict=True)
    shares = [None if mine is None or other is None else 100 * (1 - other / mine) for mine, other in pairs]
    return PairedDifference.of(shares, [0.0] * len(shares))


def said(off: PairedDifference) -> str:
    """Return a saving with its interval, and what the rule says of it."""
    if off.mean is None:
        return "-"
    if off.low is None or off.high is None:
        return f"{off.mean:+.1f} (one seed)"
    verdict = "less" if off.low > 0 else "more" if off.high < 0 else "not shown"
    return f"{off.mean:+.1f} ({off.low:+.1f} to {off.high:+.1f}), {verdict}"


def print_table(workload: str, known: Known) -> None:
    """Print what there is of a place."""
    console = Console()
    console.width = max(console.width, 120)
    if not (whole := complete(known)):
        console.print(f"{workload}: no run is done")
        return
    seeds = ", ".join(map(str, whole[FEDSPU][1]))
    table = Table(title=f"{workload}, modelled energy of all clients, seeds {seeds}", title_justify="left")
    for heading in ("", "accuracy %", "kJ", "saved of FedSPU's % (95 % t)", "GFLOP"):
        table.add_column(heading, justify="right" if heading else "left")
    for name, (_, made) in whole.items():
        accuracy = Figure(tuple(each.accuracy for each in made.values()))
        work = Figure(tuple(each.work for each in made.values()))
        off = "" if name == FEDSPU else said(saved(whole, name))
        table.add_row(name, accuracy_text(accuracy), scaled(joules(whole, name), 1000), off, scaled(work, 1e9))
    console.print(table)
