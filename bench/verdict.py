"""The verdict of the rows of `python -m bench kernels` together, beside what the project asks of them.

Judged are the operations of 20 us and more on PyTorch's fastest side or on ours, whichever takes longer, and the steps
of layers whose dense step takes us 50 us and more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from bench.rows import Row

OPERATION_S = 20e-6
FROZEN_S = 50e-6
PRODUCTS = ("forward", "grad_input", "grad_weight")
LAYER = "step"
SLOWER, SLOWEST = 1.03, 1.08  # limits over PyTorch's fastest, for 95 % of the operations and for all
NEAR_BOUND, OVER_BOUND = 1.08, 1.15  # limits over the bound, for 95 % of the frozen steps and for all
STEP_MEDIAN = 0.8  # limit of the median, over PyTorch's fastest

Ratio = Callable[[Row], float]


@dataclass(frozen=True)
class Verdict:
    """A verdict: `good` of `of` rows have at most `limit`. `worst` is the largest value, and `where` the row that has
    it.
    """

    what: str
    threads: int
    limit: float
    good: int
    of: int
    asked: float
    worst: float
    where: str

    @property
    def is_met(self) -> bool:
        return self.good >= self.asked * self.of

    def __str__(self) -> str:
        share = f"{self.good} of {self.of} at most {self.limit:g} ({self.good / self.of:.0%}, asked {self.asked:.0%})"
        met = "met" if self.is_met else "missed"
        return f"{self.what}, threads {self.threads}: {share}: {met}; the most is {self.worst:.2f}, {self.where}"


def verdicts(rows: Sequence[Row]) -> list[Verdict]:
    """Return verdicts in the order of the project's bars, for each number of threads.

    A bar without rows is left out.
    """
    found = []
    for threads in sorted({row.threads for row in rows}):
        of = [row for row in rows if row.threads == threads]
        found += [*_dense(of), *_layers(of), *_frozen(of)]
    return found


def _dense(rows: Sequence[Row]) -> Iterable[Verdict]:
    for kind in PRODUCTS:
        judged = [row for row in _of_kind(rows, kind) if row.keep == 1 and _longest_s(row) >= OPERATION_S]
        what = f"{kind}, our time over PyTorch's fastest"
        yield from _verdict(what, judged, _over_fastest, SLOWER, 0.95)
        yield from _verdict(what, judged, _over_fastest, SLOWEST, 1.0)


def _layers(rows: Sequence[Row]) -> Iterable[Verdict]:
    """Yield the verdict on layers. Half of the layers are below a limit if their median is."""
    judged = [row for row in _of_kind(rows, LAYER) if row.keep == 1 and _longest_s(row) >= OPERATION_S]
    if judged:
        middle = median(map(_over_fastest, judged))
        what = f"layer steps, our time over PyTorch's fastest, median {middle:.2f}"
        yield from _verdict(what, judged, _over_fastest, STEP_MEDIAN, 0.5)


def _frozen(rows: Sequence[Row]) -> Iterable[Verdict]:
    steps = _of_kind(rows, LAYER)
    long = {_layer(row) for row in steps if row.keep == 1 and row.native.median_s >= FROZEN_S}
    judged = [row for row in steps if row.keep < 1 and _layer(row) in long]
    for limit, asked in ((NEAR_BOUND, 0.95), (OVER_BOUND, 1.0)):
        yield from _verdict("frozen layer steps over their bound", judged, _over_bound, limit, asked)
    yield from _verdict("frozen layer steps over their dense step", judged, lambda row: row.frozen, 1.0, 1.0)


def _verdict(what: str, rows: Sequence[Row], ratio: Ratio, limit: float, asked: float) -> Iterable[Verdict]:
    if not rows:
        return
    worst = max(rows, key=ratio)
    good = sum(ratio(row) <= limit for row in rows)
    where = f"{worst.work} B={worst.batch} p={worst.keep:g}"
    yield Verdict(what, worst.threads, limit, good, len(rows), asked, ratio(worst), where)


def _of_kind(rows: Sequence[Row], kind: str) -> list[Row]:
    return [row for row in rows if row.work.endswith(f" {kind}")]


def _layer(row: Row) -> tuple[str, int]:
    return row.work, row.batch


def _longest_s(row: Row) -> float:
    return max(row.native.median_s, row.fastest.median_s)


def _over_fastest(row: Row) -> float:
    return row.native.median_s / row.fastest.median_s


def _over_bound(row: Row) -> float:
    return row.frozen / row.bound
