"""FedSPU beside methods whose common model is adapted by each client before its test, as FedSPU's own models are.

`weak` sets FedSPU's own models beside random dropout's model of all clients, which no client has adapted. Here both
have a row. The federations, models, rounds and rates are those of `comparison` and `weak`. All runs of a table are of
one machine, because an instruction set moves a seed of the digits by up to two points.

Adapted rows train the last layer alone, which weak devices can afford. An adapted row takes the rate of its row without
adapting. Four trials of its own, on the same validation samples in the same short runs, choose 1 or 5 epochs at a rate
of .1 or .3. Every other method has four trials, too, of its rate alone.

The rule, which was written before the runs: FedSPU is ahead where the whole 95 % t interval of its differences by seed
is above 0, and behind where the whole interval is below 0. Otherwise no difference is shown. One seed decides nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from bench.papers.comparison import METHODS, Method, Study
from bench.papers.comparison_table import MB, Known, accuracy_text, scaled
from edgefl.study.comparison import Figure
from edgefl.study.paired_differences import PairedDifference

FEDSPU, DROPOUT, FEDAVG = "FedSPU", "random dropout", "FedAvg"
ADAPTING = (("ft", (1, 5)), ("ft_lr", (0.1, 0.3)))

ADAPTED = Study(
    "adapted",
    {
        FEDSPU: METHODS[FEDSPU],
        DROPOUT: Method("random-dropout"),
        f"{DROPOUT}, adapted": Method("random-dropout:ft_part=head", like=DROPOUT, adapting=ADAPTING),
        FEDAVG: METHODS[FEDAVG],
        f"{FEDAVG}, adapted": Method("fedavg:ft_part=head", like=FEDAVG, adapting=ADAPTING),
    },
    {},
    points=2,  # an adapted row trains all clients at every evaluation
    lent=("comparison", "weak"),
)


class Lead(NamedTuple):
    """The differences in points between FedSPU and another method, over the seeds that both have."""

    other: str
    seeds: tuple[int, ...]
    off: PairedDifference

    @property
    def said(self) -> str:
        """Return what the rule above says."""
        if self.off.low is None or self.off.high is None:
            return "one seed"
        return "ahead" if self.off.low > 0 else "behind" if self.off.high < 0 else "no difference shown"

    def __str__(self) -> str:
        assert self.off.mean is not None
        if self.off.low is None or self.off.high is None:
            return f"{self.off.mean:+.1f} (one seed)"
        return f"{self.off.mean:+.1f} ({self.off.low:+.1f} to {self.off.high:+.1f})"


def leads(known: Known) -> list[Lead]:
    """Return FedSPU's differences from every other method that has a seed in common with FedSPU."""
    ours, found = known.get(FEDSPU, (0.0, {}))[1], []
    for other, (_, theirs) in known.items():
        if other != FEDSPU and (seeds := tuple(sorted(ours.keys() & theirs.keys()))):
            points = [[100 * made[seed].accuracy for seed in seeds] for made in (ours, theirs)]
            found.append(Lead(other, seeds, PairedDifference.of(*points)))
    return found


def print_table(workload: str, known: Known) -> None:
    """Print what there is of a place."""
    console = Console()
    console.width = max(console.width, 160)
    table = Table(title=f"{workload}: clients' own test samples", title_justify="left")
    for heading in ("", "rate", "seeds", "accuracy %", "worst tenth", "MB", "FedSPU ahead by (95 % t interval)", ""):
        table.add_column(heading, justify="right" if heading else "left")
    ahead = {lead.other: lead for lead in leads(known)}
    for label, (rate, made) in known.items():
        figures = [Figure(tuple(getattr(each, name) for each in made.values())) for name in ("accuracy", "worst_tenth")]
        sent = Figure(tuple(float(each.payload_bytes) for each in made.values()))
        lead = ahead.get(label)
        table.add_row(
            label, f"{rate:g}", ", ".join(map(str, made)), *map(accuracy_text, figures), scaled(sent, MB),
            "" if lead is None else str(lead), "" if lead is None else lead.said,
        )  # fmt: skip
    console.print(table)
