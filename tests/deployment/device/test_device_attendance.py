"""An agent's device in one run (edgefl/deployment/agent/): it leaves, comes back, and ends with equal bits.

It leaves before work that it should not do now. New samples count from the next round on.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from edgefl.cli.cli import main
from edgefl.deployment.agent.conditional_device import GuardedDevice
from edgefl.deployment.agent.conditions import ConditionStatus
from edgefl.deployment.agent.sample_file import SampleFile
from edgefl.deployment.device.device_socket import LeftError
from edgefl.deployment.device.state_reader import runs_of
from edgefl.experiment.client_dataset import partition_file
from edgefl.protocol.wire.messages import Verdict
from tests.deployment.device.device_cases import files
from tests.deployment.device.device_listener import Listener
from tests.deployment.device.device_server import ScriptedServer, converse

WORK = ("handle ModelChunk", "handle Train", "handle Evaluate")


class Moods:
    """Conditions that cease before the n-th look, or never if n is infinite."""

    def __init__(self, after: float) -> None:
        self.left = after

    def why_not(self) -> str | None:
        self.left -= 1
        return None if self.left >= 0 else "power on battery; expected mains"

    def checks(self) -> list[ConditionStatus]:
        return []


def attendance(device: Any, after: float, path: Path, others: Any = lambda idle_s: None, now: Any = lambda: 0.0) -> Any:
    told: list[str] = []
    samples = SampleFile(path)
    samples.newest()
    found = GuardedDevice(device, Moods(after), samples, others, told.append, told.append, now)  # type: ignore[arg-type]
    return found, told


def test_it_leaves_at_a_rounds_border_and_ends_with_the_same_bits(
    server: ScriptedServer, make: Any, partitions: Path
) -> None:
    undisturbed = make(1)
    converse(undisturbed, server)
    server.replies.clear()
    ends: set[str] = set()
    for after in (0, 0, 1, 2, 0, 1, 1, 0, 99):
        begun: list[str] = []
        attending, _ = attendance(make(), after, partition_file(partitions, 0))
        try:
            converse(attending, server, begun.append)
        except LeftError as error:
            assert str(error) == "power on battery; expected mains"
            work = [name for name in begun if name in WORK]
            assert len(work) == after + 1  # the last of them was not done
            ends.add(work[-1])
        if attending.finished is not None:
            break
    assert ends == set(WORK)
    assert files(attending._device) == files(undisturbed)


def test_it_takes_a_verdict_whatever_the_conditions(server: ScriptedServer, make: Any, partitions: Path) -> None:
    attending, _ = attendance(make(), 0, partition_file(partitions, 0))
    assert list(attending.handle(Verdict(7, "accepted", ""))) == []
    with pytest.raises(LeftError, match="power on battery"):
        attending.look()


def test_it_leaves_for_others_when_nothing_is_asked(make: Any, partitions: Path) -> None:
    now = [0.0]
    turn = lambda idle_s: "another's turn" if idle_s >= 60 else None  # noqa: E731
    attending, _ = attendance(make(), 1e9, partition_file(partitions, 0), turn, lambda: now[0])
    for now[0], asked in ((59.0, False), (59.5, True), (119.0, False)):
        if asked:
            list(attending.handle(Verdict(7, "accepted", "")))
        attending.look()
    now[0] = 119.5
    with pytest.raises(LeftError, match="another's turn"):
        attending.look()


def test_new_samples_count_from_the_next_round_on(
    server: ScriptedServer, make: Any, partitions: Path, tmp_path: Path
) -> None:
    """From another client's file the fitting samples are taken, and from a damaged file no samples."""
    path = tmp_path / "data.npz"
    shutil.copy(partition_file(partitions, 0), path)
    attending, told = attendance(make(), 1e9, path)
    (tmp_path / "half.npz").write_bytes(path.read_bytes()[:500])
    (tmp_path / "half.npz").rename(path)
    converse(attending, server)
    assert attending.finished is not None
    assert [line for line in told if "training on the earlier samples" in line]
    first = files(attending._device)
    server.replies.clear()
    shutil.copy(partition_file(partitions, 0), path)
    again, told = attendance(make(1), 1e9, path)
    shutil.copy(partition_file(partitions, 0), tmp_path / "same.npz")
    (tmp_path / "same.npz").rename(path)
    converse(again, server)
    assert [line for line in told if line.endswith("has changed; training on its present samples")]
    assert files(again._device) == first


def test_a_client_joins_a_second_run_and_clears_the_first(
    server: ScriptedServer, partitions: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "client",
        "--state",
        str(tmp_path / "state"),
        "--data",
        str(partition_file(partitions, 0)),
        "--keep-runs",
        "1",
    ]
    for run in ("first", "second"):
        server.run, server.secret = run, None
        server.replies.clear()
        with Listener(server) as listener:
            assert main([*words, "--server", listener.address]) == 0
        assert list(server.replies) == [1, 2]
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1][20:].startswith("INFO run first is over: removed its ")
    records = {record.run: record for record in runs_of(tmp_path / "state")}
    assert records["first"].size_bytes < 300 < records["second"].size_bytes
    assert main([*words, "--server", "127.0.0.1:9", "--keep-runs", "-1"]) == 2
