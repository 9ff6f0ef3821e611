"""A sample of `python -m tests faults`: real processes that die, stall or meet a full disk.

The steps are counted by a library that is loaded before the C library, so this needs Linux and a C compiler.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults import asynchronous, deadline, hostile
from tests.faults.steps import Kind, compiler
from tests.faults.sweep import Row, Side, Sweep, faults
from tests.faults.sweep_report import print_table

if sys.platform != "linux" or compiler() is None:
    pytest.skip("steps are counted with LD_PRELOAD, by a library built with cc", allow_module_level=True)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    return Sweep(tmp_path_factory.mktemp("faults"))


SLACK_S = 10.0  # on a busy machine
UPLOAD = "rename pending.safetensors +2"  # the folder is synced, then the reply is sent


@pytest.mark.parametrize(
    ("side", "kind", "step", "what"),
    [
        pytest.param("server", "killed before", "rename server/000001.safetensors", "", id="server-closing-a-round"),
        pytest.param("server", "disk full from", "open server/.000001.safetensors.tmp", "", id="server-disk-full"),
        pytest.param("device", "killed before", UPLOAD, "send to peer", id="device-trained-before-upload"),
        pytest.param("device", "killed after", UPLOAD, "send to peer", id="device-before-acknowledgement"),
        pytest.param("device", "disk full from", "open .pending.safetensors.tmp", "", id="device-disk-full"),
    ],
)
def test_a_struck_process_ends_bit_identical_to_simulate(
    side: Side, kind: Kind, step: str, what: str, sweep: Sweep
) -> None:
    row = sweep.run(side, kind, step)
    assert row.difference is None
    assert row.what == (what or step)
    assert row.lives == (2 if kind.startswith("killed") else 1)


def test_strangers_neither_fill_the_server_nor_keep_devices_out(tmp_path: Path) -> None:
    """Twice as many as it has files, from the devices' own address. Times are for the command, on a quiet machine."""
    pytest.importorskip("cryptography", reason="certificates are made with the optional package cryptography")
    experiment = replace(hostile.EXPERIMENT, clients=2, per_round=2, rounds=3, eval_every=3)
    found = hostile.served(tmp_path, 2 * hostile.FILES, experiment, hostile.prepare(tmp_path, experiment))
    assert found.difference is None
    assert found.attack["connected"] > hostile.FILES
    assert found.memory_mb < hostile.MEMORY_MB
    assert found.log_kb < hostile.LOG_KB
    log = (tmp_path / "512" / "logs" / "server.log").read_text()
    assert "this process may open 256 files (ulimit -Hn), so it takes 190 connections at a time from devices" in log
    assert "cannot accept connections" not in log


def test_dead_and_slow_devices_do_not_hold_a_deadline_run_up(tmp_path: Path) -> None:
    """The dead one comes back after the last round, while the server waits for it to hear of the end."""
    result = deadline.run(tmp_path, deadline_s=4.0)
    first, *later = result.took_part
    assert (first[deadline.DEAD], first[deadline.SLOW]) == ("absent", "late")
    assert [each[deadline.DEAD] for each in later] == ["absent", "absent"]
    assert "accepted" in [each[0] for each in result.took_part]
    assert all(0 <= late_s < SLACK_S for late_s in result.late_s)
    assert result.identical, result.replay
    server = (tmp_path / "logs" / "server.log").read_text()
    assert server.count("listening on") == 1  # it was not started again for that


def test_killed_and_stopped_devices_have_asynchronous_rounds_that_replay(tmp_path: Path) -> None:
    pytest.importorskip("cryptography", reason="certificates are made with the optional package cryptography")
    result = asynchronous.run(tmp_path, 8, 1, replace(asynchronous.EXPERIMENT, rounds=40, eval_every=40))
    assert sum(count for fault, count in result.faults.items() if "SIGKILL" in fault) == 8
    assert sum(result.staleness.values()) >= 120
    assert max(result.staleness) >= 2
    assert not result.twice
    assert result.identical, result.replay


def test_a_sweep_strikes_every_step_and_of_writes_in_a_row_two() -> None:
    steps = ["open a", *["write a"] * 4, "fsync a", "send to peer"]
    assert list(faults(steps)) == [
        ("killed before", 0),
        ("disk full from", 0),
        ("killed before", 1),
        ("killed before", 3),
        ("disk full from", 1),
        ("killed before", 5),
        ("killed before", 6),
        ("killed after", 6),
    ]
    assert [step for kind, step in faults(steps, every_write=True) if kind == "killed before"] == list(range(7))


def test_a_run_that_differs_shows_in_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    same = Row("server", "killed before", 3, "fsync run.db", 2, 1.5, None)
    print_table([same, Row("server", "killed before", 4, "fsync run.db", 2, 1.5, "server: w is 1 and 2")])
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "fsync" in line]
    assert line.split()[-2::-2][:5] == ["1.5", "2", "1", "2", "2"]
