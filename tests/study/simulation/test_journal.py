"""The files of a simulation, damaged while it does not run: named before anything is removed, never a traceback."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from edgefl.errors import RunError
from edgefl.methods.rounds.state_file import StoredClientState
from edgefl.methods.task import State
from edgefl.study.simulation.journal import Journal
from tests.faults.damage import damages

KEPT = StoredClientState({"w": np.arange(4, dtype=np.float32)}, {"seen": 3}, {})
FILES = ("commit.json", "metrics.jsonl", "server/000002.safetensors", "clients/0001/000002.safetensors")


def journal_of(path: Path) -> Path:
    """Two rounds of one client, committed, and a third that was not."""
    journal = Journal(path)
    for round in (1, 2):
        journal.save_client_state(1, round, KEPT)
        journal.log({"round": round, "loss": 0.5})
        journal.commit(round, State({"model": {"w": np.full(3, round, np.float32)}}, {"running": [1]}))
    journal.save_client_state(1, 3, KEPT)
    journal.log({"round": 3})
    journal.close()
    return path


def read(path: Path) -> str:
    """Everything that a resumed simulation reads of it, as text."""
    journal = Journal(path)
    try:
        state, client_state, log_records = journal.load_state(), journal.load_client_state(1), list(journal.metrics())
    finally:
        journal.close()
    assert client_state is not None
    return str((state.values, state.arrays, client_state.private, client_state.params, log_records))


def contents(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


@pytest.mark.parametrize("name", ["commit.json", "server/000002.safetensors", "clients/0001/000002.safetensors"])
def test_damage_is_named_or_changes_nothing(name: str, tmp_path: Path) -> None:
    whole = journal_of(tmp_path / "whole")
    expected, refused = read(whole), 0
    for damage in damages(whole / name):
        if name == "commit.json" and damage.kind == "deleted":
            continue  # a run that has not committed yet is repeated
        copy = tmp_path / "copy"
        shutil.copytree(whole, copy)
        damage.strike(copy / name)
        try:
            assert read(copy) == expected
        except RunError as error:
            assert str(copy / name) in str(error)
            refused += 1
        shutil.rmtree(copy)
    assert refused >= 20


@pytest.mark.parametrize("name", FILES[1:])
def test_nothing_is_removed_before_a_missing_file_is_named(name: str, tmp_path: Path) -> None:
    path = journal_of(tmp_path)
    (path / name).unlink()
    before = contents(path)
    with pytest.raises(RunError, match=name):
        Journal(path)
    assert contents(path) == before
    assert "clients/0001/000003.safetensors" in before


def test_a_log_record_of_metrics_that_is_damaged_is_named(tmp_path: Path) -> None:
    path = journal_of(tmp_path)
    content = (path / "metrics.jsonl").read_bytes()
    (path / "metrics.jsonl").write_bytes(content.replace(b"0.5", b"0,5"))
    with pytest.raises(RunError, match=r"metrics.jsonl is damaged in line 1 \("):
        read(path)


@pytest.mark.parametrize(
    "change",
    [{"round": "2"}, {"clients": {"one": 2}}, {"clients": [1]}, {"values": None}, {"metrics_bytes": 1.5}, {"more": 1}],
)
def test_a_commit_of_other_kinds_of_values_is_named(change: dict[str, object], tmp_path: Path) -> None:
    path = journal_of(tmp_path)
    commit = json.loads((path / "commit.json").read_bytes())
    del commit["sha256"]
    (path / "commit.json").write_text(json.dumps({**commit, **change}))
    with pytest.raises(RunError, match=r"commit.json is not a commit record"):
        Journal(path)


def test_a_run_of_before_there_were_digests_goes_on(tmp_path: Path) -> None:
    path = journal_of(tmp_path)
    expected = read(path)
    commit = json.loads((path / "commit.json").read_bytes())
    del commit["sha256"], commit["digests"]
    (path / "commit.json").write_text(json.dumps(commit))
    assert read(path) == expected
