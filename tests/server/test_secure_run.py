"""A served run with secure aggregation: real processes with TLS, keys, a roster and SIGKILLs, and its replay."""

from __future__ import annotations

from pathlib import Path

from bench.secure.served_run import ServedRun


def test_a_killed_secure_run_is_replayed_to_the_bit(tmp_path: Path) -> None:
    run = ServedRun(clients=5, per_round=5, rounds=4, kills=3, keep=(0.5,), step_s=1.5, seed=1, others=2000)
    found = run.play(tmp_path)
    assert found["rounds"] == 4
    assert found["opened_groups"] >= 1
    assert found["outcomes"]["masked"] >= 3
    assert found["device_killed_after_step_2"] == found["server_killed_after_step_1"] == 1


def test_a_killed_run_without_a_roster_is_replayed_to_the_bit(tmp_path: Path) -> None:
    run = ServedRun(clients=5, per_round=5, rounds=4, kills=3, keep=(0.5,), step_s=1.5, seed=1, has_roster=False)
    found = run.play(tmp_path)
    assert found["rounds"] == 4
    assert found["outcomes"]["masked"] >= 3
