"""A served run whose server and devices are killed ends bit-identical to simulate: the server's parameters, every
evaluation, and what each device keeps. FedSPU's, and full disks, are in tests/faults/test_faults.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from edgefl.cli.cli import main
from edgefl.deployment.device.device_state import DeviceState
from edgefl.deployment.device.state_reader import folder_of
from edgefl.experiment.assembly import assemble
from edgefl.experiment.run_json import read_experiment
from edgefl.experiment.settings import Experiment
from edgefl.methods.rounds.state_file import StoredClientState
from edgefl.server import run_history
from edgefl.study.simulation.journal import Journal
from edgefl.study.simulation.replay import difference
from edgefl.study.simulation.round_loop import simulate
from tests.forked import ForkedCommand
from tests.server.processes import lines, start, until

CLIENTS, ROUNDS = 3, 6
EXPERIMENT = f"--clients {CLIENTS} --rounds {ROUNDS} --per-round 2 --eval-every 1 --partition iid".split()
MODELS = {"pflego": ["--model", "pflego_mlp"]}  # the default one has running statistics
OPTIONS = {"pflego": ["--set", "server=adam"]}  # it has no epochs


@dataclass
class Processes:
    """A run with a process for the server and one for every device.

    said      what the server says, line by line
    commands  that start the devices, again if need be
    """

    stack: ExitStack
    run: Path
    address: str
    server: ForkedCommand
    said: Iterator[str]
    commands: list[list[str]]
    devices: list[ForkedCommand]


def serve(stack: ExitStack, path: Path, method: str) -> Processes:
    run, partitions = path / "run", path / "shares"
    experiment = [*EXPERIMENT, *MODELS.get(method, [])]
    assert main(["partition", *experiment, "--out", str(partitions)]) == 0
    chosen = ["--method", method, *OPTIONS.get(method, ["--epochs", "1"])]
    server = start(stack, "serve", *experiment, *chosen, "--port", "0", "--run-dir", str(run))
    said = lines(server)
    address = until(said, "listening on").split()[-1]
    commands = []
    for client in range(CLIENTS):
        state, data = str(path / f"device{client}"), str(partitions / f"device-{client:04d}.npz")
        commands.append(["client", "--server", address, "--id", str(client), "--state", state, "--data", data])
    devices = [start(stack, *command) for command in commands]
    return Processes(stack, run, address, server, said, commands, devices)


def kill_server(processes: Processes) -> None:
    """SIGKILL, and a new process that resumes the run at the same address."""
    processes.server.kill()
    processes.server.wait()
    port = processes.address.split(":")[1]
    processes.server = start(processes.stack, "serve", "--resume", str(processes.run), "--port", port)
    processes.said = lines(processes.server)


def kill_both(processes: Processes) -> None:
    """Kill a device, then the server, then, two rounds on, another device. Each comes back."""
    kill_device(processes, 0)
    kill_server(processes)
    until(processes.said, f"round 4/{ROUNDS}")
    kill_device(processes, 1)


def kill_device(processes: Processes, client: int) -> None:
    processes.devices[client].kill()
    processes.devices[client].wait()
    processes.devices[client] = start(processes.stack, *processes.commands[client])


@pytest.mark.parametrize("method", ["fedumf-feddc", "pflego", "fedspa"])
def test_an_interrupted_run_equals_simulate(method: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        processes = serve(stack, tmp_path, method)
        until(processes.said, f"round 2/{ROUNDS}")
        kill_both(processes)
        until(processes.said, f"round {ROUNDS}/{ROUNDS}")
        assert [process.wait(60) for process in (processes.server, *processes.devices)] == [0] * (1 + CLIENTS)
    run = tmp_path / "run"
    experiment = Experiment.from_json(read_experiment(run))
    journal = Journal(tmp_path / "simulated")
    state = simulate(experiment.algorithms()[method], assemble(experiment), experiment.settings(1), journal)
    assert difference(run_history.final_state(run), state) is None
    for served, simulated in zip(run_history.metrics(run), journal.metrics(), strict=True):
        assert served["evaluation"] == simulated["evaluation"]
        moved = [
            [(record["client"], record["down"], record["up"]) for record in log_record["clients"]]
            for log_record in (served, simulated)
        ]
        assert moved[0] == moved[1]
    for client in range(CLIENTS):
        assert content(DeviceState(folder_of(tmp_path / f"device{client}")).personal()) == content(
            journal.load_client_state(client)
        )
    journal.close()


def content(kept: StoredClientState | None) -> tuple[object, dict[str, bytes]]:
    """Return what a device keeps, as values that can be compared."""
    assert kept is not None
    return kept.private, {name: value.tobytes() for name, value in kept.flat().items()}
