"""edgefl as a Flower app, on Flower's own messages in this process: bit for bit what `edgefl simulate` gives."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="flwr is not installed (extra `flower`, Python 3.11; scripts/frameworks.sh)")

from flwr.app import ArrayRecord, Message, RecordDict

from edgefl.deployment.device.device_model import Data
from edgefl.errors import RunError
from edgefl.experiment.assembly import assemble
from edgefl.experiment.client_dataset import partition_file, read_partition, write_partition
from edgefl.experiment.settings import Experiment
from edgefl.integrations import flower
from edgefl.integrations.flower import client_app, serve
from edgefl.server import run_history
from edgefl.study.simulation.journal import Journal, read_metrics
from edgefl.study.simulation.round_loop import simulate
from tests.deployment.supernode.in_process import InProcessGrid

EXPERIMENT = Experiment(
    ("fedspu",),
    model="pflego_mlp",
    clients=4,
    per_round=3,
    rounds=3,
    eval_every=2,
    epochs=1,
    partition="dirichlet:0.5",
    keep=(0.4, 1.0),
)


@pytest.fixture(scope="module")
def partitions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory, federation = tmp_path_factory.mktemp("dealt"), assemble(EXPERIMENT)
    for client in range(EXPERIMENT.clients):
        write_partition(partition_file(directory, client), federation, client)
    return directory


@pytest.fixture
def data(partitions: Path) -> Callable[[Any], Data]:
    return lambda context: Data(*read_partition(partition_file(partitions, context.node_config["partition-id"])))


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flower, "PULL_EVERY_S", 0.0)
    monkeypatch.setattr(flower, "NODES_EVERY_S", 0.0)
    monkeypatch.setattr("edgefl.server.relay_nodes.AGAIN_S", 0.0)


def simulated(path: Path, experiment: Experiment) -> tuple[Any, list[dict[str, Any]]]:
    ((_, method),) = experiment.algorithms().items()
    journal = Journal(path)
    state = simulate(method, assemble(experiment), experiment.settings(1), journal)
    journal.close()
    return state, list(read_metrics(path))


def assert_same(run: Path, path: Path, experiment: Experiment) -> None:
    state, log_records = simulated(path, experiment)
    found = run_history.progress(run).state
    assert found is not None
    assert found.arrays.keys() == state.arrays.keys()
    for kind, arrays in state.arrays.items():
        for name, value in arrays.items():
            np.testing.assert_array_equal(found.arrays[kind][name], value)
    assert [log_record.get("evaluation") for log_record in run_history.metrics(run)] == [
        log_record.get("evaluation") for log_record in log_records
    ]


@pytest.mark.parametrize("name", ["fedspu", "pflego", "fedspa", "fedavg"])
def test_rounds_give_the_bits_of_a_simulation(name: str, data: Any, tmp_path: Path) -> None:
    experiment = replace(EXPERIMENT, methods=(name,))
    result = serve(InProcessGrid(client_app(data), 4), experiment, tmp_path / "run")
    assert_same(tmp_path / "run", tmp_path / "simulated", experiment)
    assert sorted(result.train_metrics_clientapp) == [1, 2, 3]
    assert sorted(result.evaluate_metrics_clientapp) == [2, 3]


def test_the_metrics_are_in_flowers_result(data: Any, tmp_path: Path) -> None:
    result = serve(InProcessGrid(client_app(data), 4), EXPERIMENT, tmp_path / "run")
    log_records = run_history.metrics(tmp_path / "run")
    assert result.train_metrics_clientapp[2]["clients.loss"] == [each["loss"] for each in log_records[1]["clients"]]
    assert result.train_metrics_clientapp[2]["up.values"] == log_records[1]["up"]["values"]
    kind, scores = next(iter(log_records[1]["evaluation"].items()))
    assert result.evaluate_metrics_clientapp[2][f"{kind}.accuracy"] == scores["accuracy"]
    state = run_history.progress(tmp_path / "run").state
    assert state is not None
    for name, value in state.arrays["model"].items():
        np.testing.assert_array_equal(result.arrays[name].numpy(), value)


@pytest.mark.parametrize("place", ["context", "disk"])
def test_envelopes_that_are_lost_cost_no_bit(place: str, data: Any, tmp_path: Path) -> None:
    """Half of them are: on the way there, or on the way back."""
    random_stream = random.Random(3)

    def state(context: Any) -> Path:
        return tmp_path / f"device-{context.node_config['partition-id']}"

    app = client_app(data, state=state if place == "disk" else None)
    grid = InProcessGrid(app, 4, lambda number: random_stream.choice(["answer", "answer", "lost", "silent"]))
    serve(grid, EXPERIMENT, tmp_path / "run")
    assert_same(tmp_path / "run", tmp_path / "simulated", EXPERIMENT)


class Killed(BaseException):
    """The server's process ends."""


def test_a_server_that_is_killed_anywhere_goes_on(data: Any, tmp_path: Path) -> None:
    random_stream, deaths = random.Random(4), 0
    grid = InProcessGrid(client_app(data), 4)

    def fate(number: int) -> str:
        if random_stream.random() < 0.15:
            raise Killed
        return "answer"

    grid.fate = fate
    for _ in range(100):
        try:
            serve(grid, EXPERIMENT, tmp_path / "run")
            break
        except Killed:
            deaths += 1
    assert deaths >= 3
    assert_same(tmp_path / "run", tmp_path / "simulated", EXPERIMENT)


def test_nodes_that_have_lost_what_they_kept_are_refused_by_name(
    data: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(number: int) -> str:
        if number > 9:
            raise Killed
        return "answer"

    with pytest.raises(Killed):
        serve(InProcessGrid(client_app(data), 4, stop), EXPERIMENT, tmp_path / "run")
    monkeypatch.setattr(logging.getLogger("flwr"), "propagate", True)
    with caplog.at_level("INFO", "flwr"):
        serve(InProcessGrid(client_app(data), 4), EXPERIMENT, tmp_path / "run", deadline_s=0.01)
    assert "with another secret: this is another device, or its state directory was deleted" in caplog.text
    assert {each["status"] for each in run_history.metrics(tmp_path / "run")[-1]["clients"]} == {"absent"}


def test_a_loss_may_be_accepted(data: Any, tmp_path: Path) -> None:
    def stop(number: int) -> str:
        if number > 9:
            raise Killed
        return "answer"

    with pytest.raises(Killed):
        serve(InProcessGrid(client_app(data), 4, stop), EXPERIMENT, tmp_path / "run")
    serve(InProcessGrid(client_app(data), 4), EXPERIMENT, tmp_path / "run", accept_loss=range(4))
    assert [each["status"] for each in run_history.metrics(tmp_path / "run")[-1]["clients"]] == ["on", "on", "on"]


def test_a_directory_of_another_run_is_refused(data: Any, tmp_path: Path) -> None:
    serve(InProcessGrid(client_app(data), 4), replace(EXPERIMENT, rounds=1), tmp_path / "run")
    with pytest.raises(RunError, match="was run with rounds=1; expected 3"):
        serve(InProcessGrid(client_app(data), 4), EXPERIMENT, tmp_path / "run")


def test_a_message_that_is_no_envelope_is_refused(data: Any) -> None:
    grid = InProcessGrid(client_app(data), 1)
    sent = Message(RecordDict({"arrays": ArrayRecord([np.zeros(3)])}), 100, "train")
    with pytest.raises(ValueError, match=r"message with \['arrays'\]; expected an envelope"):
        grid.app(sent, grid.contexts[100])
