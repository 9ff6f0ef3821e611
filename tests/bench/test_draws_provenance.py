"""The figures of docs/papers.md about shared draws and whole sums are those of their records."""

from __future__ import annotations

import json
import re
from statistics import mean, stdev

import pytest

from bench.mutants import tree

RESULTS, SECTION = tree.ROOT / "bench" / "papers" / "results", "### With shared draws and whole sums"
SEEDS = 1, 2, 3


def section() -> str:
    _, _, rest = (tree.ROOT / "docs" / "papers.md").read_text().partition(SECTION)
    return re.sub(r"\s+", " ", rest.partition("\n### ")[0])


def stated(table: str, place: str, method: str, models: str = "personal") -> str:
    """Return the mean and the standard deviation over the seeds, as the page writes them."""
    files = [RESULTS / table / f"{place}-{method}-seed{seed}.json" for seed in SEEDS]
    found = [100 * json.loads(file.read_text())["summary"]["evaluation"][models]["accuracy"] for file in files]
    return f"{mean(found):.1f} ± {stdev(found):.1f} %"


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("fedspu", "FedSPU with draws of its own reaches {} with the float64 mean, and {} with whole sums."),
        ("fedspu+draws=shared", "FedSPU with shared draws reaches {} with the float64 mean, and {} with whole sums."),
    ],
)
def test_speech(method: str, words: str) -> None:
    assert words.format(stated("draws", "speech", method), stated("draws-exact", "speech", method)) in section()


def test_emnist() -> None:
    own, shared = (stated("draws", "emnist", method) for method in ("fedspu", "fedspu+draws=shared"))
    assert f"FedSPU reaches {own} with draws of its own and {shared} with shared draws." in section()
    own, shared = (stated("draws", "emnist", method, "global_local") for method in ("fedspu", "fedspu+draws=shared"))
    assert f"on the clients' samples: {shared} in place of {own}." in section()
