"""Devices that measure their rounds, as real processes on a made-up board of 6 W: what the run then says."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

import edgefl
from edgefl.cli import local_processes as demo
from edgefl.cli.cli import main
from edgefl.experiment.client_dataset import partition_file
from edgefl.experiment.run_json import open_run
from edgefl.server import run_history
from tests.made_up import write
from tests.server.processes import lines, start, until


def test_a_run_of_devices_that_measure_says_joules_and_is_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    board = {"name": "ina3221", "in1_label": "VDD_IN", "in1_input": 5000, "curr1_input": 1200}
    write(tmp_path / "board", {f"sys/class/hwmon/hwmon0/{name}": text for name, text in board.items()})
    monkeypatch.setenv("EDGEFL_ENERGY_ROOT", str(tmp_path / "board"))
    experiment = replace(demo.EXPERIMENT, methods=("fedspu",), clients=2, per_round=2, rounds=2, eval_every=2, epochs=1)
    demo.write_partitions(tmp_path / "shares", experiment)
    open_run(tmp_path / "run", experiment.to_json())
    with ExitStack() as stack:
        server = start(stack, "serve", "--resume", str(tmp_path / "run"), "--port", "0")
        address = until(lines(server), "listening on").split()[-1]
        devices = []
        for client in range(2):
            where = (
                "--state",
                str(tmp_path / f"device{client}"),
                "--data",
                str(partition_file(tmp_path / "shares", client)),
            )
            devices.append(start(stack, "client", "--server", address, "--id", str(client), *where, "--measure-energy"))
        said = "energy of rounds is measured, of this whole machine: ina3221 VDD_IN\n"
        assert [until(lines(device), "energy")[20:] for device in devices] == [f"INFO {said}"] * 2
        assert [process.wait(120) for process in (server, *devices)] == [0, 0, 0]
    records = [each for log_record in run_history.metrics(tmp_path / "run") for each in log_record["clients"]]
    assert len(records) == 4
    for record in records:  # both readings lie just outside of what the seconds are of
        assert 6.0 * record["seconds"] <= record["joules_hwmon"] < 6.0 * (record["seconds"] + 0.5)
    joules = sum(record["joules_hwmon"] for record in records)
    assert main(["status", str(tmp_path / "run")]) == 0
    assert (
        f"energy        {joules:.4g} J (hwmon), measured by the devices while they trained" in capsys.readouterr().out
    )
    assert main(["status", str(tmp_path / "run"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["measured_joules"] == {"hwmon": pytest.approx(joules)}
    assert "measured" in edgefl.open_run(tmp_path / "run").table()
    assert main(["simulate", "--replay", str(tmp_path / "run"), "--workers", "1"]) == 0
    assert capsys.readouterr().out.startswith("identical after round 2")
