"""Rows of results, and their two forms: JSON lines for machines, a table for people."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table

from bench.machine import Facts
from bench.peak import FLOP
from bench.peers import EAGER
from bench.runner import Timing

PEAK = "peak"


@dataclass(frozen=True)
class Row:
    """Native against PyTorch for one piece of work at one share of active neurons.

    frozen  native time relative to native at p = 1, from the same interleaved run
    bound   this ratio in multiply-accumulates
    sub     the work of a smaller model that has the active neurons alone, where there is such a model
    sub_bound  how many times its multiply-accumulates this has
    best    PyTorch's fastest path, by median
    flop    operations of the step's products, with 2 for a multiply-accumulate, where they are counted
    peak    rate of one large product in the same run, in operations a second (bench/peak.py)
    """

    work: str
    batch: int
    threads: int
    keep: float
    native: Timing
    eager: Timing
    fastest: Timing
    best: str
    frozen: float
    bound: float
    sub: Timing | None = None
    sub_bound: float | None = None
    flop: float | None = None
    peak: float | None = None

    def as_json(self) -> str:
        ratios = {"eager_ratio": self.eager_ratio, "fastest_ratio": self.fastest_ratio, "sub_ratio": self.sub_ratio}
        ratios["peak_share"] = self.peak_share
        return json.dumps(asdict(self) | ratios)

    @property
    def eager_ratio(self) -> float:
        """The time of eager PyTorch over native's."""
        return self.eager.median_s / self.native.median_s

    @property
    def fastest_ratio(self) -> float:
        """The time of PyTorch's fastest path over native's."""
        return self.fastest.median_s / self.native.median_s

    @property
    def sub_ratio(self) -> float | None:
        """The time of native over the smaller model's."""
        return None if self.sub is None else self.native.median_s / self.sub.median_s

    @property
    def peak_share(self) -> float | None:
        """The rate of native's products over the peak. A way that multiplies less than it counts may exceed 1."""
        return None if not self.flop or not self.peak else self.flop / self.native.median_s / self.peak


def row(
    work: str,
    batch: int,
    threads: int,
    keep: float,
    timings: dict[str, Timing],
    bound: float,
    sub_bound: float | None = None,
    flop: float | None = None,
) -> Row:
    """Return the row of `keep` from one run.

    Timings under a `native_name` are native, those under a `sub_name` are of a smaller model, and those under a
    `peak_name` are of one large product. The other timings are of PyTorch's paths.
    """
    products = [timing.median_s for name, timing in timings.items() if name.startswith(PEAK)]
    peak = FLOP / min(products) if products else None
    native, whole = timings[native_name(keep)], timings[native_name(1.0)]
    paths = {name: timing for name, timing in timings.items() if not name.startswith(("native", PEAK))}
    best = min(paths, key=lambda name: paths[name].median_s)
    frozen = native.median_s / whole.median_s
    sub = timings.get(sub_name(keep))
    figures = (native, paths[EAGER], paths[best], best, frozen, bound, sub, sub_bound, flop, peak)
    return Row(work, batch, threads, keep, *figures)


def native_name(keep: float) -> str:
    return f"native p={keep:g}"


def peak_name(path: str) -> str:
    return f"{PEAK} {path}"


def sub_name(keep: float) -> str:
    return f"native sub-model p={keep:g}"


def print_json(facts: Facts, rows: Iterable[Row]) -> None:
    """Print one line of machine facts, then one line per row as it is measured."""
    print(json.dumps({"machine": facts}), flush=True)
    for each in rows:
        print(each.as_json(), flush=True)


def print_table(facts: Facts, rows: Iterable[Row]) -> None:
    """Print a table with medians in microseconds, each with half its interquartile range in percent."""
    table = Table(title=", ".join(f"{name} {value}" for name, value in facts.items()), title_justify="left")
    for heading in ("work", "B", "threads", "p"):
        table.add_column(heading, justify="left" if heading == "work" else "right")
    for heading in (
        "native us",
        "eager us",
        "fastest us",
        "path",
        "eager/nat.",
        "fastest/nat.",
        "vs p=1",
        "bound",
        "vs sub",
        "MACs",
        "of peak",
    ):
        table.add_column(heading, justify="left" if heading == "path" else "right")
    shown = list[Row]()
    for each in rows:
        numbers = (str(each.batch), str(each.threads), f"{each.keep:g}")
        times = (_spread(each.native), _spread(each.eager), _spread(each.fastest), each.best)
        ratios = (each.eager_ratio, each.fastest_ratio, each.frozen, each.bound)
        optional = each.sub_ratio, each.sub_bound, each.peak_share
        beside = ["" if ratio is None else f"{ratio:.3g}" for ratio in optional]
        table.add_row(each.work, *numbers, *times, *(f"{ratio:.3g}" for ratio in ratios), *beside)
        shown.append(each)
    console = Console()
    console.width = max(console.width, 160)
    console.print(table)
    for sentence in over_shares(shown):
        console.print(sentence)


def over_shares(rows: Iterable[Row]) -> list[str]:
    """Return lines that compare each work with its smaller models, where there are any.

    A line has the mean over the work's shares of neurons, one client at each share, over the mean of the smaller
    models.
    """
    found: dict[tuple[str, int, int], list[Row]] = {}
    for each in rows:
        if each.sub is not None:
            found.setdefault((each.work, each.batch, each.threads), []).append(each)
    said = []
    for (work, batch, threads), of in found.items():
        time = sum(each.native.median_s for each in of) / sum(each.sub.median_s for each in of if each.sub)
        macs = sum(each.bound for each in of) / sum(each.bound / (each.sub_bound or 1.0) for each in of)
        where = f"{work}, B = {batch}, {threads} threads" if threads > 1 else f"{work}, B = {batch}"
        shares = ", ".join(f"{each.keep:g}" for each in of)
        said.append(
            f"{where}: over p = {shares} steps take {time:.2f} times those of their sub-models ({macs:.2f} MACs)"
        )
    return said


def _spread(timing: Timing) -> str:
    half_range = (timing.high_s - timing.low_s) / 2 / timing.median_s
    return f"{timing.median_s * 1e6:.0f} ±{100 * half_range:.0f}%"
