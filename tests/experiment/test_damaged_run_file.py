"""run.json damaged, or written by hand with values that a setting cannot have: one sentence, never a traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from edgefl.cli.cli import main
from edgefl.errors import RunError
from edgefl.experiment.run_json import EXPERIMENT, open_run, read_provenances, settings_digest
from edgefl.experiment.settings import Experiment
from tests.faults.damage import damages

SMALL = Experiment(methods=("fedavg",), clients=2, rounds=1, per_round=1)


def test_no_damage_changes_a_setting_unnoticed(tmp_path: Path) -> None:
    open_run(tmp_path, SMALL.to_json())
    file, refused = tmp_path / EXPERIMENT, 0
    expected = SMALL, read_provenances(tmp_path)
    whole = file.read_bytes()
    for damage in damages(file):
        damage.strike(file)
        try:
            assert (Experiment.of_run(tmp_path), read_provenances(tmp_path)) == expected
        except RunError as error:
            assert str(error).startswith(f"{file} ")
            refused += 1
        file.write_bytes(whole)
    assert refused >= 23


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is not JSON"),
        ("[1, 2]", "is list as JSON; expected an object"),
        ("null", "is NoneType as JSON; expected an object"),
        ("[" * 100_000, "is not JSON"),
        ('{"made_by": 5}', "has made_by=5; expected a list"),
    ],
)
def test_what_is_no_object_of_settings_is_said(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / EXPERIMENT).write_text(content)
    with pytest.raises(RunError, match=message):
        read_provenances(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clients": "20"}, "clients='20'; expected a whole number"),
        ({"clients": True}, "clients=True; expected a whole number"),
        ({"lr": None}, "lr=None; expected a number"),
        ({"methods": "fedavg"}, "methods='fedavg'; expected a list"),
        ({"keep": ["a"]}, r"keep=\['a'\]; expected a list"),
        ({"options": [["server"]]}, r"options=\[\['server'\]\]; expected a list"),
        ({"rounds": 1.5}, "rounds=1.5; expected a whole number"),
        ({"clients": 0}, "clients=0; expected clients >= 1"),
        ({"pace": 1}, "setting 'pace'; expected one of"),
    ],
)
def test_a_value_that_a_setting_cannot_have_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(RunError, match=message):
        Experiment.from_json({**SMALL.to_json(), **change})


@pytest.mark.parametrize("command", ["serve", "simulate"])
def test_a_resumed_run_with_other_settings_ends_in_one_sentence(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / EXPERIMENT).write_text(json.dumps({**SMALL.to_json(), "clients": "20"}))
    assert main([command, "--resume", str(tmp_path)]) == 2
    words = f"clients='20'; expected a whole number, as {Experiment.clients}\n"
    assert capsys.readouterr().err == f"edgefl {command}: {tmp_path}/run.json has {words}"


def test_settings_have_one_digest_whoever_made_the_run(tmp_path: Path) -> None:
    assert settings_digest(tmp_path) == ""
    open_run(tmp_path, SMALL.to_json())
    first = settings_digest(tmp_path)
    content = json.loads((tmp_path / EXPERIMENT).read_text())
    del content["sha256"]
    (tmp_path / EXPERIMENT).write_text(json.dumps(content | {"made_by": ["somebody"]}))
    assert settings_digest(tmp_path) == first
    (tmp_path / EXPERIMENT).write_text(json.dumps(content | {"seed": 2}))
    assert settings_digest(tmp_path) != first
