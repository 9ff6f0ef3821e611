"""Runs with a label for each token or pixel: their lines, tables, records and reports have the score of the places."""

from __future__ import annotations

import csv
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

import edgefl
from edgefl.study.progress_display import news
from tests.experiment.test_place_targets import IDS, KINDS, PIXELS, SEGMENTS, TURNED
from tests.learning.graphs import model

TOKENS: dict[str, Any] = {"x": IDS, "y": IDS, "targets": "labels"}
SETTINGS = {"clients": 3, "per_round": 2, "rounds": 2, "eval_every": 1, "seeds": 2, "workers": 1, "progress": False}


@pytest.mark.parametrize(
    ("graph", "data", "name", "heading"),
    [
        (TURNED, TOKENS, "perplexity", "perplexity"),
        (SEGMENTS, {"x": PIXELS, "y": KINDS}, "mean_iou", "mean IoU"),
    ],
)
def test_a_run_of_places_shows_and_stores_its_score(
    tmp_path: Path, graph: edgefl.Graph, data: dict[str, Any], name: str, heading: str
) -> None:
    run = edgefl.simulate("fedavg", model=model(graph), data=data, directory=tmp_path / "run", **SETTINGS)
    of_seeds = [each.evaluation[name] for each in run.method.seeds.values()]
    mean = sum(of_seeds) / 2
    seeded = run.method.seeds[1]
    written = f"{100 * of_seeds[0]:.1f}" if name == "mean_iou" else f"{of_seeds[0]:.4g}"
    assert f"{heading} {written}" in news(seeded.log_records[-1])
    assert seeded.summary.to_json()[name] == of_seeds[0] == seeded.summary.curve[-1][name]
    assert heading in run.table()
    (row,) = csv.DictReader(StringIO(run.table(format="csv")))
    assert float(row[name]) == pytest.approx(mean)
    assert run.metrics[-1][name] == of_seeds[-1]
    assert f"{heading[0].upper()}{heading[1:]} over rounds" in run.report(tmp_path / "report.html").read_text("utf-8")
