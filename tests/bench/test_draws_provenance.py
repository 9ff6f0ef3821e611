"""The figures of docs/papers.md about shared draws and whole sums are those of their records."""

from __future__ import annotations

import json
import re
from statistics import mean, stdev

import pytest

from tests.papers_records import needs_records
from tests.sources import ROOT

RESULTS, SECTION = ROOT / "bench" / "papers" / "results", "### With shared draws and whole sums"
SEEDS = 1, 2, 3
pytestmark = needs_records


def section() -> str:
    _, _, rest = (ROOT / "docs" / "papers.md").read_text().partition(SECTION)
    return re.sub(r"\s+", " ", rest.partition("\n### ")[0])


def stated(table: str, place: str, method: str, models: str = "personal") -> str:
    """Return the mean and the standard deviation over the seeds, as the page writes them."""
    files = [RESULTS / table / f"{place}-{method}-seed{seed}.json" for seed in SEEDS]
    found = [100 * json.loads(file.read_text())["summary"]["evaluation"][models]["accuracy"] for file in files]
    return f"{mean(found):.1f} ± {stdev(found):.1f} %"


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("fedavg", "FedAvg reaches {} with the float64 mean, and {} with whole sums."),
        ("fedspu", "FedSPU with draws of its own reaches {} with the float64 mean, and {} with whole sums."),
        ("fedspu+draws=shared", "FedSPU with shared draws reaches {} with the float64 mean, and {} with whole sums."),
    ],
)
def test_speech(method: str, words: str) -> None:
    models = "global_local" if method == "fedavg" else "personal"
    found = (stated(table, "speech", method, models) for table in ("draws", "draws-exact"))
    assert words.format(*found) in section().partition("On EMNIST")[0]


@pytest.mark.parametrize(("method", "draws"), [("fedspu", "draws of its own"), ("fedspu+draws=shared", "shared draws")])
def test_emnist(method: str, draws: str) -> None:
    mean, whole = (stated(table, "emnist", method) for table in ("draws", "draws-exact"))
    said = f"FedSPU with {draws} reaches {mean} with the float64 mean, and {whole} with whole sums."
    assert said in section().partition("On EMNIST")[2]


def test_the_model_of_all_clients_on_emnist() -> None:
    methods = "fedspu+draws=shared", "fedspu"
    mean, whole = (
        " in place of ".join(stated(table, "emnist", each, "global_local") for each in methods)
        for table in ("draws", "draws-exact")
    )
    assert f"on the clients' samples: {mean} with the float64 mean, and {whole} with whole sums." in section()
