"""A served run whose server process is killed, or whose disk is full for a while, ends bit-identical to simulate."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from processes import lines, start, until

from edgefl.assemble import assemble
from edgefl.cli import main
from edgefl.experiment import Experiment
from edgefl.replay import difference
from edgefl.runs import Journal, read_experiment
from edgefl.server import history
from edgefl.simulate import simulate

CLIENTS, ROUNDS = 3, 6
EXPERIMENT = f"--clients {CLIENTS} --rounds {ROUNDS} --per-round 2 --eval-every 1 --partition iid --epochs 1".split()

Server = tuple[subprocess.Popen[str], Iterator[str]]


def killed(stack: ExitStack, server: Server, run: Path, address: str) -> Server:
    """SIGKILL, and a new process that resumes the run at the same address."""
    process, _ = server
    process.kill()
    process.wait()
    again = start(stack, "serve", "--resume", str(run), "--port", address.split(":")[1])
    return again, lines(again)


def out_of_space(stack: ExitStack, server: Server, run: Path, address: str) -> Server:
    """No write to a file succeeds until the server has complained of it."""
    process, said = server
    unlimited = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, unlimited[1]))
    until(said, "cannot store: ")
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, unlimited)
    until(said, "stored; going on")
    return server


@pytest.mark.parametrize("interrupt", [killed, out_of_space])
def test_an_interrupted_run_equals_simulate(
    interrupt: Callable[[ExitStack, Server, Path, str], Server], tmp_path: Path
) -> None:
    run, shares = tmp_path / "run", tmp_path / "shares"
    assert main(["deal", *EXPERIMENT, "--out", str(shares)]) == 0
    with ExitStack() as stack:
        process = start(stack, "serve", *EXPERIMENT, "--method", "fedspu", "--port", "0", "--run-dir", str(run))
        server: Server = process, lines(process)
        address = until(server[1], "listening on").split()[-1]
        for client in range(CLIENTS):
            state, data = str(tmp_path / f"device{client}"), str(shares / f"device-{client:04d}.npz")
            start(stack, "client", "--server", address, "--id", str(client), "--state", state, "--data", data)
        until(server[1], f"round 2/{ROUNDS}")
        process, said = interrupt(stack, server, run, address)
        until(said, f"round {ROUNDS}/{ROUNDS}")
        assert process.wait(60) == 0
    experiment = Experiment.from_json(read_experiment(run))
    journal = Journal(tmp_path / "simulated")
    state = simulate(experiment.algorithms()["fedspu"], assemble(experiment), experiment.settings(1), journal)
    assert difference(history.final_state(run), state) is None
    served = [line["evaluation"] for line in history.metrics(run)]
    assert served == [line["evaluation"] for line in journal.metrics()]
    journal.close()
