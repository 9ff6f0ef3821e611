"""The record of the data that a run has trained on, and the words for a change of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgefl.errors import RunError
from edgefl.experiment.data.split import Split
from edgefl.experiment.data_record import DataRecord
from edgefl.experiment.run_json import (
    EXPERIMENT,
    TRAINED_ON,
    change_settings,
    check_data,
    open_run,
    read_data_records,
    read_experiment,
    settings_digest,
)
from edgefl.learning import Samples
from edgefl.system.durable_files import read_json

X, Y = np.arange(12, dtype=np.float32).reshape(6, 2), np.array([0, 1, 0, 1, 0, 1], np.int32)
SAMPLES = Samples(X, Y)


def indices(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int32)


SPLITS = [Split(indices(0, 1), indices(), indices(2)), Split(indices(3), indices(4), indices(5))]
RECORD = DataRecord.of(SAMPLES, SPLITS)


def test_counts_are_of_all_clients_together() -> None:
    assert (RECORD.samples, RECORD.shape, RECORD.counts) == (6, (2,), (3, 1, 2))
    assert len(RECORD.sha256) == 64
    assert DataRecord.of(SAMPLES).counts is None


CHANGES: list[tuple[str, Any, str]] = [
    ("nothing", DataRecord.of(Samples(X.copy(), Y.copy()), list(SPLITS)), ""),
    ("a value", DataRecord.of(Samples(X + np.float32(1), Y), SPLITS), "6 samples of shape [2] with SHA-256"),
    ("a label", DataRecord.of(Samples(X, Y[::-1].copy()), SPLITS), "6 samples of shape [2] with SHA-256"),
    ("the scale", DataRecord.of(Samples(X, Y, 2.0), SPLITS), "6 samples of shape [2] with SHA-256"),
    ("a common test part", DataRecord.of(SAMPLES, SPLITS, SAMPLES), "6 samples of shape [2] with SHA-256"),
    ("whose sample it is", DataRecord.of(SAMPLES, [SPLITS[1], SPLITS[0]]), "6 samples of shape [2] with SHA-256"),
    (
        "a sample less",
        DataRecord.of(Samples(X[:5], Y[:5]), SPLITS[:1]),
        "6 samples of shape [2] before, 5 samples of shape [2] now",
    ),
    (
        "a column more",
        DataRecord.of(Samples(np.zeros((6, 3), np.float32), Y), SPLITS),
        "6 samples of shape [2] before, 6 samples of shape [3] now",
    ),
    (
        "a client less",
        DataRecord.of(SAMPLES, SPLITS[:1]),
        "3 samples for training, 1 for validation and 2 for testing before, 2 samples for training, 0 for validation"
        " and 1 for testing now",
    ),
    ("no split", DataRecord.of(SAMPLES), "3 samples for training, 1 for validation and 2 for testing before, samples"),
]


@pytest.mark.parametrize(("now", "words"), [each[1:] for each in CHANGES], ids=[each[0] for each in CHANGES])
def test_what_has_changed_is_named(now: DataRecord, words: str) -> None:
    found = RECORD.change_to(now)
    assert (found is None) == (not words)
    assert found is None or found.startswith(words)


@pytest.mark.parametrize("record", [RECORD, DataRecord.of(SAMPLES)])
def test_a_record_survives_json(record: DataRecord) -> None:
    assert DataRecord.read(json.loads(json.dumps(record.to_json()))) == record


# run.json.


def test_a_run_goes_on_with_its_data_and_no_others(tmp_path: Path) -> None:
    other = replace(RECORD, sha256="f" * 64)
    open_run(tmp_path, {"seed": 1}, trains_on=RECORD)
    before = (tmp_path / EXPERIMENT).read_bytes()
    assert check_data(tmp_path, RECORD) is None
    with pytest.raises(RunError, match=r"has trained on other data .* before and f{16} now; .* with --accept-data"):
        check_data(tmp_path, other)
    assert (tmp_path / EXPERIMENT).read_bytes() == before
    assert "continues with data other" in str(check_data(tmp_path, other, accept=True))
    assert read_data_records(tmp_path) == [RECORD, other]
    assert check_data(tmp_path, other) is None


def test_a_run_of_before_says_once_that_it_has_no_digest(tmp_path: Path) -> None:
    open_run(tmp_path, {"seed": 1})
    digest = settings_digest(tmp_path)
    assert "keeps no SHA-256 of the data" in str(check_data(tmp_path, RECORD))
    assert check_data(tmp_path, RECORD) is None
    assert settings_digest(tmp_path) == digest
    assert read_experiment(tmp_path) == {"seed": 1}


def test_growing_and_opening_a_run_keep_its_records(tmp_path: Path) -> None:
    open_run(tmp_path, {"seed": 1}, trains_on=RECORD)
    change_settings(tmp_path, {"seed": 1, "rounds": 9})
    open_run(tmp_path, {"seed": 1, "rounds": 9})
    assert read_data_records(tmp_path) == [RECORD]


@pytest.mark.parametrize("damage", [5, {}, [1], [{}], [{**RECORD.to_json(), "counts": [1]}]])
def test_damaged_records_are_named(damage: Any, tmp_path: Path) -> None:
    from edgefl.system.durable_files import with_digest

    open_run(tmp_path, {"seed": 1}, trains_on=RECORD)
    content = {**read_json(tmp_path / EXPERIMENT), TRAINED_ON: damage}
    (tmp_path / EXPERIMENT).write_text(json.dumps(with_digest(content)))
    if damage == {}:
        assert read_data_records(tmp_path) == []
        return
    with pytest.raises(RunError, match="has a damaged trained_on"):
        read_data_records(tmp_path)
