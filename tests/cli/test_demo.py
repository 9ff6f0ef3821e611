"""`edgefl demo`, made small: real processes, one JSON object, a picture."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from edgefl.cli import cli
from edgefl.cli import local_processes as demo
from edgefl.errors import RunError

SMALL = replace(demo.EXPERIMENT, methods=("fedspu-es", "local"), clients=3, per_round=2, eval_every=2, epochs=1)


def test_demo_reports_every_device_and_every_byte(tmp_path: Path, monkeypatch, capsys) -> None:
    pytest.importorskip("matplotlib", reason="the picture needs matplotlib")
    monkeypatch.setattr(demo, "EXPERIMENT", SMALL)
    assert cli.main(["demo", "--rounds", "3", "--run-dir", str(tmp_path / "run"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [device["device"] for device in found["devices"]] == [0, 1, 2]
    assert all(0 <= device["fedspu-es"]["accuracy"] <= 1 for device in found["devices"])
    wire = found["sockets"]["fedspu-es"]
    assert wire["training"] + wire["models"] + wire["headers"] == wire["total"]
    assert wire["training"] == found["methods"]["fedspu-es"]["payload_bytes"] > 0
    assert found["methods"]["local"]["payload_bytes"] == 0
    assert (tmp_path / "run" / "demo.png").stat().st_size > 1000


@pytest.mark.skipif(sys.platform != "linux", reason="memory of another process is read from /proc")
def test_memory_of_the_devices_is_measured(tmp_path: Path) -> None:
    experiment = replace(SMALL, methods=("local",), rounds=1)
    demo.write_partitions(tmp_path / "shares", experiment)
    served = demo.serve(tmp_path / "run", experiment, tmp_path / "shares", lambda log_record: None)
    assert all(peak is not None and 1e7 < peak < 1e9 for peak in served.peak_bytes)


def test_device_that_fails_ends_the_demo_with_its_last_words(tmp_path: Path) -> None:
    experiment = replace(SMALL, methods=("local",), rounds=1)
    (tmp_path / "shares").mkdir()
    with pytest.raises(RunError, match=r"device-000\d ended with exit code 2 \(edgefl client: .*npz"):
        demo.serve(tmp_path / "run", experiment, tmp_path / "shares", lambda log_record: None)


def test_demo_refuses_a_directory_with_something_in_it(tmp_path: Path, capsys) -> None:
    (tmp_path / "mine").touch()
    assert cli.main(["demo", "--run-dir", str(tmp_path)]) == 2
    assert "is not empty; expected a new directory" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [tmp_path / "mine"]
