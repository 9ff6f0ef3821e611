"""`edgefl client --flower` as a user runs it, without flwr or torch, and against flwr's own SuperLink."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from bench.deployment import is_simulated
from bench.flower_devices import ALONE, experiment, measure
from edgefl.cli.cli import main
from edgefl.experiment.assembled_experiment import AssembledExperiment
from edgefl.experiment.assembly import assemble
from edgefl.experiment.client_dataset import partition_file, write_partition
from edgefl.experiment.run_json import open_run
from edgefl.experiment.settings import Experiment
from edgefl.server.relay import RelayServer
from edgefl.server.round_rules import Rules
from edgefl.server.server_setup import staff
from edgefl.server.store import Store
from tests.deployment.supernode.superlink import SuperLink, superlink

LIMIT_S = 120.0


@pytest.fixture(scope="module")
def partition(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("shares")
    write_partition(partition_file(directory, 0), assemble(experiment(2, 1, "fedavg")), 0)
    return partition_file(directory, 0)


@contextmanager
def run_of(what: Experiment, path: Path) -> Iterator[RelayServer]:
    """The server's half of a run by envelopes."""
    assembled = AssembledExperiment.of(what, assemble(what))
    rules = Rules(
        what.rounds,
        what.eval_every,
        wait_for=what.clients,
        aggregation_settings=assembled.aggregation_settings,
    )
    open_run(path, what.to_json())
    with closing(Store(path)) as store:
        coordinator, offer = staff(assembled, store, rules, None)
        run = RelayServer(coordinator, store, offer, lambda line: None, lambda record: None)
        run.start()
        yield run


def carry(link: SuperLink, run: RelayServer, killing: Callable[[], None]) -> None:
    """Takes envelopes between a run and a SuperLink, as a ServerApp does, until the run is over."""
    waiting: dict[str, int] = {}
    until = time.monotonic() + LIMIT_S
    while not run.is_over:
        assert time.monotonic() < until, (link.calls[-10:], run.stage)
        killing()
        run.present(list(link.online))
        waiting = {message: node for message, node in waiting.items() if node in link.online}
        waiting |= {link.ask(outgoing_envelope.data): outgoing_envelope.node for outgoing_envelope in run.due()}
        for message, node in list(waiting.items()):
            if message in link.replies and link.has_all(message):
                del waiting[message]
                run.answered(node, link.answered(message))
        time.sleep(0.01)


def test_a_run_by_envelopes_is_a_simulation_without_flwr_or_torch(partition, tmp_path) -> None:
    """The device is killed after its second reply, and goes on."""
    what = replace(experiment(1, 3, "fedspu"), model="pflego_mlp")
    write_partition(partition_file(tmp_path, 0), assemble(what), 0)
    with superlink() as link, run_of(what, tmp_path / "run") as run:
        arguments = [
            "--flower",
            link.url,
            "--data",
            str(partition_file(tmp_path, 0)),
            "--state",
            str(tmp_path / "state"),
        ]
        command = [sys.executable, "-c", ALONE, "client", *arguments]
        lives = [subprocess.Popen(command, stderr=subprocess.PIPE)]

        def killing() -> None:
            if len(lives) == 1 and link.calls.count("push-messages") == 2:
                lives[0].kill()
                lives[0].communicate()
                lives.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))

        carry(link, run, killing)
        out, errors = lives[-1].communicate(timeout=LIMIT_S)
    assert len(lives) == 2
    assert (lives[-1].returncode, out) == (0, "imported:\n"), errors
    assert errors.splitlines()[-1][20:] == "INFO the run is over: the run ended after round 3"
    assert is_simulated(tmp_path / "run", what, tmp_path / "simulated")
    assert link.calls.count("activate-node") == 1


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--flower", "http://example.org"], "is another machine; expected https://, or --insecure"),
        (["--flower", "http://127.0.0.1:1", "--tls"], "with TLS; expected https://"),
        (["--flower", "127.0.0.1:1"], "expected http://HOST:PORT or https://HOST:PORT"),
        (["--flower", "http://127.0.0.1:1", "--node-key", "absent"], "key file absent: No such file"),
        (["--flower", "http://127.0.0.1:1", "--give-up", "0"], "http://127.0.0.1:1: Connection refused"),
        (["--server", "127.0.0.1:1", "--node-key", "absent"], "--node-key without --flower"),
        (["--server", "127.0.0.1:1", "--flower", "http://127.0.0.1:1"], "not allowed with argument"),
        ([], "one of the arguments --server --flower is required"),
    ],
)
def test_mistakes_are_named(partition, tmp_path, capsys, options, problem) -> None:
    try:
        code = main(["client", "--data", str(partition), "--state", str(tmp_path / "state"), *options])
    except SystemExit as error:
        code = int(str(error))
    assert code != 0
    assert problem in capsys.readouterr().err.splitlines()[-1]


def test_it_is_refused_by_name(partition, tmp_path, capsys) -> None:
    with superlink() as link:
        command = ["client", "--data", str(partition), "--state", str(tmp_path / "state"), "--flower", link.url]
        link.version = "1.40.0"
        assert main(command) == 1
        refused = "SuperLink API 1.40.0; expected a SuperLink of flwr 1.41 to 1.42, or a later one\n"
        assert capsys.readouterr().err.endswith(refused)
        link.version, link.needs_keys = "1.41.0", True
        assert main(command) == 1
        assert capsys.readouterr().err.endswith("expected --node-key FILE of a key that is registered there\n")


FLOWER = os.environ.get("EDGEFL_FLOWER") or (sys.executable if importlib.util.find_spec("flwr") else None)


@pytest.mark.skipif(FLOWER is None, reason="no flwr here, nor an interpreter with it in EDGEFL_FLOWER")
def test_at_flowers_own_superlink_a_killed_device_costs_no_bit() -> None:
    assert FLOWER is not None
    found = {each.what: each for each in measure(Path(FLOWER), experiment(2, 3, "fedspu"), kills=1, seed=1)}
    assert found["kills by SIGKILL"].value == 1
    for each in found.values():
        assert each.bar is None or each.value <= each.bar, json.dumps(asdict(each))
