"""A device's samples as a file: partitioned as in a simulation, read back with checks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgefl.cli.cli import main
from edgefl.deployment.device import participation
from edgefl.errors import DataError, RunError
from edgefl.experiment.assembly import assemble
from edgefl.experiment.client_dataset import client_of, partition_file, read_partition
from edgefl.experiment.data.split import split
from edgefl.experiment.settings import Experiment

EXPERIMENT = Experiment(clients=4, per_round=2, partition="dirichlet:0.5", seed=3)


@pytest.fixture(scope="module")
def partitions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dealt")
    options = ["--clients", "4", "--per-round", "2", "--partition", "dirichlet:0.5", "--seed", "3"]
    assert main(["partition", *options, "--out", str(out)]) == 0
    return out


def test_every_client_gets_the_samples_and_the_split_of_a_simulation(partitions: Path) -> None:
    federation = assemble(EXPERIMENT)
    assert len(list(partitions.iterdir())) == 4
    for client, expected in enumerate(federation.clients):
        samples, found = read_partition(partition_file(partitions, client))
        assert found is not None
        assert (samples.scale, samples.shift) == (federation.data.scale, federation.data.shift)
        for name in ("train", "validation", "test"):
            mine, theirs = getattr(found, name), getattr(expected, name)
            assert mine.dtype == np.int32
            assert samples.x[mine].tobytes() == federation.data.x[theirs].tobytes()
            assert samples.y[mine].tobytes() == federation.data.y[theirs].tobytes()


def test_a_device_asks_for_the_id_that_its_samples_were_partitioned_to(
    partitions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without such an id it asks for the id that it is told. A user's own file has no id."""
    asked: list[int | None] = []

    def visit(client: int | None, key: bytes | None) -> None:
        asked.append(client)
        raise RunError("enough")

    monkeypatch.setattr(participation, "RunInquiry", visit)
    with np.load(partition_file(partitions, 1)) as content:
        np.savez(tmp_path / "own.npz", x=content["x"], y=content["y"], classes=10)
        np.savez(tmp_path / "wrong.npz", x=content["x"], y=content["y"], client=np.array([-1]))
    for path, more in (
        (partition_file(partitions, 3), []),
        (partition_file(partitions, 3), ["--id", "0"]),
        (tmp_path / "own.npz", []),
    ):
        options = ["--server", "127.0.0.1:1", "--state", str(tmp_path / "state"), "--data", str(path), *more]
        assert main(["client", *options]) == 1
    assert asked == [3, 0, None]
    assert [client_of(partition_file(partitions, client)) for client in range(4)] == [0, 1, 2, 3]
    with pytest.raises(DataError, match=r"wrong.npz: client is \[-1\]; expected one id, 0 or more"):
        client_of(tmp_path / "wrong.npz")


def test_a_file_without_a_split_is_split_by_seed_and_client(partitions: Path, tmp_path: Path) -> None:
    with np.load(partition_file(partitions, 1)) as content:
        np.savez(tmp_path / "own.npz", x=content["x"], y=content["y"], classes=10)
    samples, none = read_partition(tmp_path / "own.npz")
    assert none is None
    given = read_partition(partition_file(partitions, 1))[1]
    found = split(np.arange(len(samples), dtype=np.int32), 3, 1, 0.7, 0.1)
    assert given is not None
    assert found.train.tobytes() == given.train.tobytes()
    assert found.test.tobytes() == given.test.tobytes()


def changed(**arrays: Any) -> dict[str, Any]:
    whole = {"x": np.zeros((6, 1, 2, 2), np.float32), "y": np.zeros(6, np.int32)}
    parts = {"train": np.array([0, 1]), "validation": np.array([2]), "test": np.array([4, 5])}
    return {key: value for key, value in {**whole, **parts, **arrays}.items() if value is not None}


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"test": None}, "has train, validation; expected all of train, validation, test, or no part"),
        ({"test": np.array([5, 6])}, "test goes from 5 to 6; expected 0 to 5"),
        ({"train": np.array([-1, 1])}, "train goes from -1 to 1"),
        ({"train": np.array([1, 0])}, "train is not sorted and unique"),
        ({"test": np.array([1, 5])}, "share samples; expected disjoint parts"),
        ({"train": np.array([], np.int32)}, "0 training and 2 test samples"),
        ({"train": np.array([0.5])}, "train is float64"),
    ],
)
def test_a_split_that_contradicts_itself_is_refused(arrays: dict[str, Any], message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "own.npz", **changed(**arrays))
    with pytest.raises(DataError, match=message):
        read_partition(tmp_path / "own.npz")


def test_data_that_cannot_be_partitioned_are_a_wrong_request(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["partition", "--partition", "fair", "--out", str(tmp_path / "out")]) == 2
    assert "partition=fair; expected iid" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_table_as_a_devices_data_is_refused_with_the_command_that_makes_its_file(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("a,y\n1,0\n")
    with pytest.raises(
        DataError, match=r"mine\.csv; expected an \.npz file, as `edgefl partition --data mine.csv` writes"
    ):
        read_partition(tmp_path / "mine.csv")
