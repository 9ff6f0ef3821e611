"""run.json: the settings of a run, and every process that made it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgefl.experiment import run_file
from edgefl.experiment.run_file import EXPERIMENT, open_run, read_experiment, read_makers


def as_maker(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_file, "maker", lambda: name)


def test_every_maker_is_listed_once_and_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("first", "first", "second", "first"):
        as_maker(name, monkeypatch)
        open_run(tmp_path, {"seed": 1})
    assert read_makers(tmp_path) == ["first", "second"]
    assert read_experiment(tmp_path) == {"seed": 1}


def test_a_run_of_before_makers_were_kept_can_be_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / EXPERIMENT).write_text(json.dumps({"seed": 1}))
    assert read_makers(tmp_path) == []
    as_maker("first", monkeypatch)
    open_run(tmp_path, {"seed": 1})
    assert read_makers(tmp_path) == ["first"]
