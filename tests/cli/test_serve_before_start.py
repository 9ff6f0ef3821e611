"""`edgefl serve` before its run starts: a port in use leaves nothing, and what will go wrong is said."""

from __future__ import annotations

import socket
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from edgefl.cli.cli import main
from edgefl.cli.client_options import MAX_MODEL_BYTES
from edgefl.cli.serve_warnings import PartitionComparison, early_start, large_model
from edgefl.experiment.assembly import assemble_experiment
from edgefl.experiment.settings import Experiment
from edgefl.protocol.trust.certificate_dates import expiry
from edgefl.server.round_rules import Rules

NOW = datetime(2026, 1, 10, tzinfo=timezone.utc)


def test_a_port_in_use_leaves_no_run_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        asked = ["--clients", "2", "--partition", "iid", "--port", port, "--run-dir", str(tmp_path / "run")]
        assert main(["serve", *asked]) == 2
    words = f"--host 127.0.0.1 --port {port} is in use; expected a free port, or --port 0 for any that is free"
    assert words in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (MAX_MODEL_BYTES, ""),
        (
            MAX_MODEL_BYTES + 1,
            "the model has 268435457 bytes, and devices refuse more than 268435456 by default: "
            "start them with `edgefl client --max-model 268435457`",
        ),
    ],
)
def test_a_model_beyond_what_devices_take_by_default_is_named(size: int, words: str) -> None:
    assert large_model(size) == words


@pytest.mark.parametrize(
    ("method", "rules", "is_said"),
    [
        ("fedavg", Rules(1, 1, wait_for=2), True),
        ("fedavg", Rules(1, 1, wait_for=3), False),
        ("fedavg", Rules(1, 1, wait_for=2, among_enrolled=True), False),
        ("fedavg", Rules(1, 1, wait_for=2, seen_s=60.0), False),
        ("fedumf", Rules(1, 1, wait_for=2), False),
    ],
)
def test_a_start_before_all_have_enrolled_is_named(method: str, rules: Rules, is_said: bool) -> None:
    experiment = Experiment(methods=(method,), data="digits", clients=3, per_round=2, rounds=1, partition="iid")
    found = early_start(assemble_experiment(experiment, served=True), rules)
    assert found.startswith("--wait-for 2 is below --clients 3: round 1 chooses among all clients") == is_said
    assert bool(found) == is_said


def test_devices_that_hold_other_counts_than_the_partition_are_named() -> None:
    said: list[str] = []
    comparison = PartitionComparison([40, 25] * 5, said.append)
    comparison.enrolled(0, 40)
    comparison.enrolled(1, None)
    assert said == []
    comparison.enrolled(1, 40)
    assert said[0].startswith("client 1 declares 40 training samples; the server's own partition gives it 25: ")
    for client in range(2, 10):
        comparison.enrolled(client, 7)
    assert len(said) == 6
    assert said[-1] == "more devices declare other counts than the server's own partition; they are not named"


@pytest.mark.parametrize(
    ("days_ago", "valid_days", "words"),
    [
        (1, 90, ""),
        (30, 20, "expired on 2025-12-31: no device can connect; expected a valid certificate"),
        (10, 20, "expires on 2026-01-20, in 10.0 days: no device can connect after that"),
        (-5, 90, "is valid from 2026-01-14 on: no device can connect; expected a valid certificate"),
    ],
)
def test_a_certificate_that_no_device_accepts_is_named(
    tmp_path: Path, days_ago: int, valid_days: int, words: str
) -> None:
    pytest.importorskip("cryptography", reason="certificates are made with the optional package cryptography")
    from edgefl.protocol.trust.certificates import make_certificates

    make_certificates(tmp_path, ["127.0.0.1"], 0, NOW - timedelta(days=days_ago), days=valid_days)
    found = expiry(tmp_path / "server.pem", NOW.timestamp())
    assert words in found
    assert bool(found) == bool(words)


def test_dates_that_cannot_be_read_are_not_spoken_of(tmp_path: Path) -> None:
    (tmp_path / "no.pem").write_text("nothing")
    assert expiry(tmp_path / "no.pem", 0.0) == ""
