"""The bench of steps at masks gives a figure for everything that it promises."""

from __future__ import annotations

from bench import masked
from bench.runner import Effort


def test_a_figure_for_the_step_the_search_and_the_mask() -> None:
    found = list(masked.measure(["lenet5"], 2, [1], Effort(2, 1e-4), (0.1,)))
    assert [each.what.split(": ")[1] for each in found] == [
        "dense step", "step at density 0.1", "search at 0.1 over a gradient", "another mask at 0.1",
    ]  # fmt: skip
    assert all(each.value > 0 for each in found)
