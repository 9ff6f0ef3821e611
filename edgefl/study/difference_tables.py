"""The table of paired differences between methods. paired_differences.py computes the differences."""

from __future__ import annotations

from collections.abc import Iterator

from edgefl.study.comparison import Comparison
from edgefl.study.paired_differences import MethodPair, PairedDifference
from edgefl.study.result_table import ResultTable, new_result_table
from edgefl.study.result_text import NONE


def difference_table(found: Comparison, has_all: bool = False) -> ResultTable:
    """Return the table of the first method less each other one, over the seeds and over the first seed's clients.

    has_all  whether every pair of methods and the clients of every seed are in the table
    """
    has_accuracy = next(iter(found.rows.values())).has_accuracy
    first, several = next(iter(found.rows)), len(found.seeds) > 1
    seeds = found.seeds if has_all else found.seeds[:1]
    pairs = [pair for pair in found.pairs if has_all or pair.method == first]

    def cells(pair: MethodPair) -> Iterator[str]:
        yield from (pair.method, pair.other)
        for each in [*([pair.over_seeds] if several else []), *(pair.over_clients[seed] for seed in seeds)]:
            yield in_words(each, has_accuracy)

    of_clients = [f"over clients of seed {seed}" if several else "over clients" for seed in seeds]
    headings = ["method", "less", *([f"over {len(found.seeds)} seeds"] if several else []), *of_clients]
    what = "accuracy in points" if has_accuracy else "loss"
    return new_result_table(f"Paired differences of {what}, with 95 % intervals", headings, map(cells, pairs), left=2)


def in_words(each: PairedDifference, has_accuracy: bool) -> str:
    """Write the mean and its interval, in points of accuracy or as a loss."""
    if each.mean is None:
        return NONE
    shown = _points if has_accuracy else _loss
    interval = "" if each.low is None or each.high is None else f" [{shown(each.low)}, {shown(each.high)}]"
    return f"{shown(each.mean)}{interval}"


def _points(share: float) -> str:
    return f"{round(100 * share, 1) + 0.0:+.1f}"  # + 0.0 turns -0.0 into 0.0


def _loss(value: float) -> str:
    return f"{value:+.4g}"
