"""CSV files and data frames have the very numbers of the JSON."""

from __future__ import annotations

import csv
import importlib.util
import json
from io import StringIO
from typing import Any, NamedTuple

import pytest

from edgefl.study import data_frame
from edgefl.study.comparison import compare
from edgefl.study.flat_rows import FIGURES, KINDS, as_csv, flat_rows
from edgefl.study.summary import Summary
from tests.study.test_study_comparison import run


class Fake(NamedTuple):
    """A stand-in for what rows are made of."""

    summaries: dict[int, list[Summary]]
    metrics: list[dict[str, Any]]
    tuned: dict[str, dict[str, Any]]


@pytest.fixture
def fake() -> Fake:
    seeds = {1: [run("fedspu", [1, 2, 3, 4]), run("fedavg", [1, 1, 1, 1])]}
    seeds[2] = [run("fedspu", [5, 5, 5, 9]), run("fedavg", [2, 2, 2, None])]
    return Fake(seeds, [{"method": "fedspu", "seed": 1, "round": 1}], {"fedspu": {"lr": 0.1}})


def test_csv_has_the_numbers_of_the_json(fake: Fake) -> None:
    found = json.loads(json.dumps(compare(fake.summaries).to_json()))
    rows = {row["method"]: row for row in csv.DictReader(StringIO(as_csv(flat_rows(fake))))}
    assert list(rows) == ["fedspu", "fedavg"]
    for method, row in rows.items():
        expected = found["methods"][method]
        for name in FIGURES:
            column, figure = "accuracy" if name == "score" else name, expected[name] or {"mean": None, "spread": None}
            assert (row[column], row[f"{column}_spread"]) == (text(figure["mean"]), text(figure["spread"]))
        for name in ("standard_error", "of_dense", "clients", "missing", "diverged"):
            assert row[name] == text(expected[name])
        assert row["at_equal_bytes"] == text(found["budgets"]["bytes"]["scores"][method]["mean"])
        assert row["at_equal_bytes_of"] == text(found["budgets"]["bytes"]["least"]["mean"])
    assert (rows["fedspu"]["tuned_lr"], rows["fedavg"]["tuned_lr"]) == ("0.1", "")


def text(value: Any) -> str:
    return "" if value is None else repr(value)


@pytest.mark.parametrize(
    ("kind", "count", "some"),
    [
        ("methods", 2, {"method": "fedspu", "seeds": 2, "accuracy": 0.425}),
        ("seeds", 4, {"method": "fedspu", "seed": 1, "accuracy": 0.25, "rounds": 1, "payload_bytes": 800}),
        ("clients", 16, {"method": "fedspu", "seed": 1, "client": 0, "test_samples": 10, "accuracy": 0.1}),
        ("rounds", 1, {"method": "fedspu", "seed": 1, "round": 1}),
        ("differences", 3, {"method": "fedspu", "other": "fedavg", "over": "seeds", "seed": None, "level": 0.95}),
    ],
)
def test_a_row_of_each_kind(fake: Fake, kind: str, count: int, some: dict[str, Any]) -> None:
    rows = flat_rows(fake, kind)
    assert len(rows) == count
    assert {name: rows[0][name] for name in some} == pytest.approx(some)


def test_a_client_that_was_not_tested_has_no_accuracy(fake: Fake) -> None:
    last = flat_rows(fake, "clients")[-1]
    assert (last["method"], last["seed"], last["client"], last["accuracy"]) == ("fedavg", 2, 3, None)


def test_another_kind_is_refused(fake: Fake) -> None:
    with pytest.raises(ValueError, match=r"frame of 'devices'; expected one of methods, seeds, clients, rounds, diff"):
        flat_rows(fake, "devices")


def test_rows_of_unlike_names_share_a_csv_file() -> None:
    assert as_csv([{"a": 1, "b": True}, {"a": "x,y", "c": (0.5, 1.0)}]) == 'a,b,c\n1,true,\n"x,y",,"0.5,1"\n'


@pytest.mark.parametrize("kind", KINDS)
def test_a_frame_has_the_rows(fake: Fake, kind: str) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is an optional extra")
    rows = flat_rows(fake, kind)
    frame = data_frame.data_frame(rows)
    assert list(frame.columns) == list(dict.fromkeys(name for row in rows for name in row))
    for row, found in zip(rows, frame.to_dict("records"), strict=True):
        for name, value in row.items():
            assert pandas.isna(found[name]) if value is None else found[name] == value


def test_without_pandas_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        ValueError, match=r"frame\(\) needs pandas.*pip install pandas, or without pandas.*format='csv'"
    ):
        data_frame.data_frame([])
