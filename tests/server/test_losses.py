"""A run without keys, with real processes: nobody takes an id over, and a device learns of its lost state.

It is told so until the server accepts the loss. The replay follows the loss.
"""

from __future__ import annotations

import shutil
import signal
from dataclasses import replace
from pathlib import Path

from bench.cluster import Cluster, await_, write_partitions
from edgefl.cli import local_processes as demo
from edgefl.cli.cli import main
from edgefl.experiment.client_dataset import partition_file
from edgefl.protocol.wire.messages import Enrol, Refused
from edgefl.server import run_history
from edgefl.server.directory_check import IDENTITY
from tests.forked import ForkedProcess
from tests.server.stranger import Stranger

EXPERIMENT = replace(
    demo.EXPERIMENT,
    data="digits",
    methods=("fedspu",),
    clients=2,
    per_round=2,
    rounds=4,
    eval_every=4,
    partition="iid",
    epochs=1,
)


def test_an_id_stays_its_devices_and_a_lost_state_is_accepted_by_the_server_alone(tmp_path: Path, capsys) -> None:
    write_partitions(tmp_path / "shares", EXPERIMENT)
    with Cluster(tmp_path, EXPERIMENT, tmp_path / "shares", process=ForkedProcess) as cluster:
        cluster.start_server()
        cluster.start_device(0)
        await_(lambda: "connected as client 0" in cluster.devices[0].said(), "device 0 is connected")
        thief = cluster.device(
            "thief", partition_file(tmp_path / "shares", 1), "--id", "0", "--state", str(tmp_path / "its")
        )
        thief.start()
        assert thief.wait() == 1
        assert "client 0 has enrolled before, with another secret: this is another device, or" in thief.said()
        with Stranger(cluster.port) as stranger:
            answer = stranger.greet(1, run=(cluster.run / IDENTITY).read_text())
            assert isinstance(answer, Refused)
            assert "client 1 says that it has enrolled in this run, whose log does not know of it" in answer.reason
        with Stranger(cluster.port) as stranger:
            stranger.greet(1)
            stranger.say(Enrol(b"", 1.0, b"", 0, b"", 0, b"", b"", [10]))
            assert stranger.refusal() == "secret of 0 bytes; expected 32 in a run without keys"
        cluster.start_device(1)
        await_(lambda: run_history.progress(cluster.run).round >= 1, "round 1 is closed")
        assert cluster.devices[0].ended() is None  # the honest device goes on
        cluster.devices[0].kill()
        cluster.server.send(signal.SIGTERM)
        cluster.server.wait()
        closed = run_history.progress(cluster.run).round
        assert closed < EXPERIMENT.rounds
        shutil.rmtree(cluster.state_of(0))

        cluster.start_server()
        cluster.start_device(0)
        assert cluster.devices[0].wait() == 1
        assert "its state directory was deleted; start it with the directory that it had" in cluster.devices[0].said()
        cluster.server.kill()
        cluster.server.arguments += ["--accept-loss", "0"]
        cluster.start_server()
        cluster.start_device(0)
        cluster.finish()
    ((lost, after), kept), *others = run_history.progress(cluster.run).losses.items()
    assert (lost, kept, others) == (0, 0, [])
    assert after in (closed, closed + 1)  # the reply to the next round may have been judged
    assert f"client 0 has lost what it kept after round {after}, and begins again with nothing: accepted" in (
        cluster.server.said()
    )
    assert main(["simulate", "--replay", str(cluster.run), "--workers", "1"]) == 0
    assert capsys.readouterr().out.startswith("identical after round 4")
    assert main(["status", str(cluster.run)]) == 0
    assert (
        f"lost          client 0 what it kept after round {after}; it went on from nothing" in capsys.readouterr().out
    )
    assert {cluster.run.stat().st_mode & 0o777, cluster.state_of(0).stat().st_mode & 0o777} == {0o700}
