"""Own data from a file to a federation: groups as clients, splits by time, a model that follows the shape."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgefl.cli.experiment_options import experiment_of
from edgefl.errors import DataError
from edgefl.experiment.assembly import assemble
from edgefl.experiment.client_dataset import partition_file, read_partition, write_partition
from edgefl.experiment.data.split import split_by_time
from edgefl.experiment.run_data import groups_in
from edgefl.experiment.settings import Experiment

PEOPLE = {"anna": 10, "ben": 20, "cleo": 3}


@pytest.fixture
def walks(tmp_path: Path) -> Path:
    """Return a table with so many rows of each person, the newest first."""
    lines = ["who,when,a,b,kind"]
    for person, count in PEOPLE.items():
        lines += [f"{person},{count - i},{i},{i % 3},{'run' if i % 2 else 'sit'}" for i in range(count)]
    path = tmp_path / "walks.csv"
    path.write_text("\n".join(lines))
    return path


def asked(path: Path, **options: object) -> Experiment:
    return experiment_of({"data": str(path), "label": "kind", "group": "who", "time": "when", **options}, None)


def test_every_group_is_a_client_unless_it_is_small(walks: Path) -> None:
    experiment = asked(walks, method=["fedspu"], fewest=4)
    assert (experiment.clients, experiment.per_round, experiment.partition) == (2, 2, "group")
    federation = assemble(experiment)
    sizes = [sum(map(len, (part.train, part.validation, part.test))) for part in federation.clients]
    assert sizes == [10, 20]
    assert [node.name for node in federation.graph.nodes][:2] == ["norm", "fc1"]
    assert federation.graph.output_shape == (2,)
    assert Experiment.from_json(experiment.to_json()) == experiment.with_evaluation_rounds()


def test_the_newest_samples_test(walks: Path) -> None:
    experiment = asked(walks, method=["fedspu"], split="time", train_share=0.6, validation_share=0.5)
    parts = assemble(experiment).clients[0]
    assert parts.test.tolist() == [0, 1, 2, 3]
    assert parts.validation.tolist() == [4, 5, 6]
    assert parts.train.tolist() == [7, 8, 9]


def test_samples_of_one_time_keep_their_order() -> None:
    times = np.array([5.0, 1, 1, 1, 0])
    found = split_by_time(np.arange(1, 5, dtype=np.int32), times, 0.5, 0.0, "client 0")
    assert (found.train.tolist(), found.test.tolist()) == ([1, 4], [2, 3])


def test_a_group_that_is_too_small_is_named(walks: Path) -> None:
    walks.write_text(walks.read_text() + "\ndora,1,1,1,sit")
    with pytest.raises(DataError, match=r"client 3, group 'dora', gets 0 training and 1 test samples of 1; .*--fewest"):
        assemble(asked(walks))
    with pytest.raises(DataError, match="fewest=21, the largest group has 20 samples"):
        groups_in(replace(asked(walks, clients=2, method=["fedspu"]), fewest=21))


def test_times_and_groups_have_to_be_there(walks: Path) -> None:
    with pytest.raises(ValueError, match="split=time with data=digits, which has no times"):
        assemble(Experiment(split="time"))
    with pytest.raises(DataError, match="clients=all with data=digits, which has no groups"):
        experiment_of({"clients": "all"}, None)
    with pytest.raises(DataError, match=r"data=digits with label='kind'; expected nothing to be set"):
        assemble(Experiment(label="kind"))
    with pytest.raises(ValueError, match="split=age; expected random or time"):
        Experiment(split="age")


def test_settings_that_are_not_used_leave_run_json_as_it_was() -> None:
    names = {"label", "group", "time", "drop", "axes", "image_size", "split", "fewest"}
    assert not names & Experiment().to_json().keys()


@pytest.mark.parametrize(
    ("x", "axes", "layers"),
    [
        (np.zeros((40, 7), np.float32), "", ["norm", "fc1", "relu1", "fc2", "relu2", "fc"]),
        (np.zeros((40, 3, 9), np.float32), "NCL", ["conv1", "bn1", "relu1", "pool1", "conv2"]),
        (np.zeros((40, 3, 20, 30), np.uint8), "", ["conv1", "bn1", "relu1", "pool1", "conv2"]),
        (np.arange(240).reshape(40, 6), "", ["embedding", "conv1", "bn1", "relu1", "mean", "flatten", "fc"]),
    ],
)
def test_the_model_follows_the_shape(tmp_path: Path, x: np.ndarray, axes: str, layers: list[str]) -> None:
    path = tmp_path / "made.npz"
    np.savez(path, x=x, y=np.arange(40) % 4)
    experiment = Experiment(data=str(path), clients=2, per_round=2, partition="iid", axes=axes)
    graph = assemble(experiment).graph
    assert [node.name for node in graph.nodes][: len(layers)] == layers
    assert graph.output_shape == (4,)


def test_sequences_of_channels_reach_a_device_as_they_are(tmp_path: Path) -> None:
    x = np.random.default_rng(1).normal(size=(40, 3, 9)).astype(np.float32)
    np.savez(tmp_path / "made.npz", x=x.transpose(0, 2, 1), y=np.arange(40) % 4)
    path = str(tmp_path / "made.npz")
    federation = assemble(Experiment(data=path, clients=2, per_round=2, partition="iid", axes="NLC"))
    write_partition(partition_file(tmp_path, 0), federation, 0)
    samples, parts = read_partition(partition_file(tmp_path, 0))
    assert parts is not None
    assert samples.x[parts.test].tobytes() == federation.data.x[federation.clients[0].test].tobytes()
    assert samples.x.shape[1:] == (3, 9)
