"""A deadline run with real processes: one device never comes, one is stopped for a while; the replay is identical."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from pathlib import Path

import pytest
from processes import lines, start, until

from edgefl.cli import main
from edgefl.server import history

CLIENTS, ROUNDS, DEADLINE_S = 4, 5, 1.0
SLACK_S = 2.0  # on a busy machine
DEAD, SLOW = 0, 3
EXPERIMENT = f"--clients {CLIENTS} --rounds {ROUNDS} --per-round {CLIENTS} --eval-every 1 --partition iid --epochs 1"
SERVE = f"--method fedspu --port 0 --wait-for 3 --deadline {DEADLINE_S} --evaluation-deadline {DEADLINE_S}"


def test_dead_and_slow_clients_do_not_hold_a_deadline_run_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, shares = tmp_path / "run", tmp_path / "shares"
    assert main(["deal", *EXPERIMENT.split(), "--out", str(shares)]) == 0
    with ExitStack() as stack:
        server = start(stack, "serve", *EXPERIMENT.split(), *SERVE.split(), "--run-dir", str(run))
        said = lines(server)
        address = until(said, "listening on").split()[-1]
        devices = {}
        for client in set(range(CLIENTS)) - {DEAD}:
            state, data = str(tmp_path / f"device{client}"), str(shares / f"device-{client:04d}.npz")
            capacity = "0.5" if client == SLOW else "1"
            given = ("--server", address, "--id", str(client), "--state", state, "--data", data)
            devices[client] = start(stack, "client", *given, "--capacity", capacity)
        until(said, f"round 1/{ROUNDS}")
        devices[SLOW].send_signal(signal.SIGSTOP)
        until(said, f"round 3/{ROUNDS}")
        devices[SLOW].send_signal(signal.SIGCONT)
        until(said, f"round {ROUNDS}/{ROUNDS}")
        assert server.wait(30) == 0
    outcomes = {key: ruling and ruling.outcome for key, ruling in history.progress(run).rulings.items()}
    assert all(outcomes[round, DEAD] is None for round in range(1, ROUNDS + 1))
    assert outcomes[3, SLOW] != "accepted"
    assert "accepted" in [outcomes[round, 1] for round in range(1, ROUNDS + 1)]
    for line in history.metrics(run):
        assert DEADLINE_S <= line["seconds"] < DEADLINE_S + SLACK_S
    capsys.readouterr()
    assert main(["simulate", "--replay", str(run)]) == 0
    assert capsys.readouterr().out.startswith(f"identical after round {ROUNDS}")
