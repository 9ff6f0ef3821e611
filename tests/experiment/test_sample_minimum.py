"""Clients that are too small for a model are named before round 1, with what helps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgefl
from edgefl.cli.cli import main

SENTENCE = "BatchNorm 'norm' sees 1 value per channel in a sample and needs 2 samples in a batch"


def arrays(groups: list[int]) -> dict[str, Any]:
    """Samples of three classes in groups of these sizes."""
    chance = np.random.default_rng(0)
    count = sum(groups)
    return {
        "x": chance.normal(size=(count, 8)).astype(np.float32),
        "y": np.arange(count) % 3,
        "group": np.repeat(np.arange(len(groups)), groups),
    }


def simulated(directory: Path, groups: list[int], method: str = "fedavg", **options: Any) -> Any:
    found = arrays(groups)
    more = {"rounds": 1, "epochs": 1, "per_round": 2, **options}
    return edgefl.simulate(method, data=found, directory=directory / "run", progress=False, **more)


@pytest.mark.parametrize(
    ("groups", "options", "words"),
    [
        ([20, 20, 2], {}, f"fedavg: client 2 has 1 training sample; {SENTENCE}: expected fewer clients, --fewest N"),
        ([20, 2, 2], {}, f"fedavg: clients 1, 2 have 1 training sample; {SENTENCE}"),
        ([20] + [2] * 7, {}, f"fedavg: clients 1, 2, 3, 4, 5 and 2 more have 1 training sample; {SENTENCE}"),
        ([20, 20], {"batch": 1}, f"fedavg: batch=1; {SENTENCE}: expected batch >= 2, or a model without BatchNorm"),
        ([20, 20, 2], {"held_out": 1}, "fedavg: client 2 has 1 training sample"),  # it never takes part
        ([20, 20, 2], {"method": "fedper"}, "fedper: client 2 has 1 training sample"),
        ([20, 20, 2], {"method": "fedspu"}, "fedspu: client 2 has 1 training sample"),
    ],
)
def test_who_is_too_small_is_named_before_anything_is_written(
    tmp_path: Path, groups: list[int], options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError) as refusal:
        simulated(tmp_path, groups, **options)
    assert str(refusal.value).startswith(words)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("groups", "options"),
    [
        ([20, 20, 3], {}),  # two training samples
        ([20, 20, 2], {"model": "pflego_mlp"}),  # no BatchNorm
        ([20, 20, 2], {"fewest": 3}),
        ([20, 20], {"batch": 1, "model": "pflego_mlp"}),
        ([13, 13], {"batch": 3}),  # the last of 4 batches would be one sample
    ],
)
def test_what_the_sentence_names_helps(tmp_path: Path, groups: list[int], options: dict[str, Any]) -> None:
    clients = {"clients": sum(size >= options["fewest"] for size in groups)} if "fewest" in options else {}
    run = simulated(tmp_path, groups, **options, **clients)
    assert run is not None


def test_the_command_ends_with_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "d.npz", **arrays([20, 20, 2]))
    asked = ["--data", str(tmp_path / "d.npz"), "--group", "group", "--method", "fedavg", "--rounds", "1"]
    assert main(["simulate", *asked, "--run-dir", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert "fedavg: client 2 has 1 training sample" in said
    assert "Traceback" not in said
    assert not (tmp_path / "run").exists()
