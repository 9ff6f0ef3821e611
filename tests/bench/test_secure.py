"""The bench of secure aggregation: random rounds from the command line, and the device whose time is taken."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bench.secure import command, random_rounds
from bench.secure.device_time import DEVICE, VALUES, DeviceRound
from bench.secure.random_rounds import WrongSumError


def test_the_command_counts_its_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["rounds", "--rounds", "2", "--seed", "1"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["what"], row["rounds"], row["first_seed"]) == ("rounds", 2, 1)


def test_a_sum_that_is_wrong_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random_rounds.PlayedRound, "expected", lambda played: np.zeros(1, np.uint32))
    with pytest.raises(WrongSumError, match="seed 1: opened"):
        command.main(["rounds", "--rounds", "1", "--seed", "1"])


def test_the_timed_device_does_what_the_played_one_did() -> None:
    device = DeviceRound.of(10, 1, is_late=False)
    assert device.counts() == {"keys": 10, "shares": 10, "vectors": 9, "consents": 8, "openings": 7}
    vector = device.played.vectors[DEVICE].copy()
    device.take_part(vector)
    masked = [each for each in device.played.transcript if len(each) == 4 * VALUES]
    assert vector.tobytes() == masked[DEVICE]
    assert 1 < device.bytes_times() < 1.05
