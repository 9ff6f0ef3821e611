"""run.json: the settings of a run, and every process that made it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgefl import rng
from edgefl.errors import RunError
from edgefl.experiment import run_json
from edgefl.experiment.model_file import COPY
from edgefl.experiment.run_json import EXPERIMENT, open_run, read_experiment, read_provenances
from edgefl.models.graph import Model, architectures, model_files
from edgefl.system.durable_files import temporary


def as_provenance(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_json, "provenance", lambda: name)


def test_every_provenance_is_listed_once_and_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("first", "first", "second", "first"):
        as_provenance(name, monkeypatch)
        open_run(tmp_path, {"seed": 1})
    assert read_provenances(tmp_path) == ["first", "second"]
    assert read_experiment(tmp_path) == {"seed": 1}


def test_a_run_of_before_provenances_were_kept_can_be_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / EXPERIMENT).write_text(json.dumps({"seed": 1}))
    assert read_provenances(tmp_path) == []
    as_provenance("first", monkeypatch)
    open_run(tmp_path, {"seed": 1})
    assert read_provenances(tmp_path) == ["first"]


def test_what_a_crash_before_the_settings_leaves_is_no_hindrance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        full.setattr(run_json, "write_atomically", _fails)
        with pytest.raises(OSError):
            open_run(tmp_path, {"seed": 1}, begun(1))
    assert [path.name for path in tmp_path.iterdir()] == [COPY]
    temporary(tmp_path / EXPERIMENT).write_text("{")
    open_run(tmp_path, {"seed": 1}, begun(1))
    assert read_experiment(tmp_path) == {"seed": 1}


@pytest.mark.parametrize("model", [None, 1])
def test_a_directory_of_something_else_is_left_alone(tmp_path: Path, model: int | None) -> None:
    model_files.save(tmp_path / COPY, begun(2))
    content = (tmp_path / COPY).read_bytes()
    with pytest.raises(RunError) as error:
        open_run(tmp_path, {"seed": 1}, None if model is None else begun(model))
    assert str(error.value) == (
        f"{tmp_path} is not empty and holds no {EXPERIMENT}; expected a new directory or an edgefl run"
    )
    assert (tmp_path / COPY).read_bytes() == content


def begun(seed: int) -> Model:
    graph = architectures.build("digits_cnn", (1, 8, 8), 10)
    return Model(graph, graph.init(rng.stream(seed, rng.INIT)))


def _fails(path: Path, data: bytes) -> None:
    raise OSError(28, "No space left on device")
