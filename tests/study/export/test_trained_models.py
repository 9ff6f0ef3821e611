"""Models that are taken out of runs are the models that were evaluated in them. A message says what cannot be taken
out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import edgefl
from edgefl.cli.cli import main
from edgefl.errors import DataError, RunError
from edgefl.experiment.assembly import assemble
from edgefl.experiment.federation import Federation
from edgefl.experiment.run_json import open_run
from edgefl.experiment.settings import Experiment
from edgefl.learning import GraphLearner
from edgefl.methods import METHODS
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.task import MODEL
from edgefl.models.graph import Model, model_files
from edgefl.study.export.trained_models import ModelSource, find
from edgefl.study.simulation.committed_rounds import read_committed
from edgefl.study.simulation.journal import Journal, read_metrics
from edgefl.study.simulation.round_loop import simulate
from edgefl.torch import to_torch

CLIENTS, ROUNDS = 5, 2
EXPERIMENT = Experiment(
    methods=tuple(METHODS),
    model="pflego_mlp",
    clients=CLIENTS,
    per_round=2,
    rounds=ROUNDS,
    eval_every=1,
    epochs=2,
    partition="classes:4",
    options=(("tau", 3),),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run of every method."""
    path: Path = tmp_path_factory.mktemp("runs") / "run"
    open_run(path, EXPERIMENT.to_json())
    federation = assemble(EXPERIMENT)
    for name, algorithm in EXPERIMENT.algorithms().items():
        journal = Journal(path / name)
        simulate(algorithm, federation, EXPERIMENT.settings(1), journal)
        journal.close()
    return path


@pytest.fixture(scope="module")
def federation() -> Federation:
    return assemble(EXPERIMENT)


def evaluations(run: Path) -> Iterator[tuple[str, Algorithm, dict[str, Any]]]:
    """Yield the last evaluation of every method."""
    for name, algorithm in EXPERIMENT.algorithms().items():
        yield name, algorithm, list(read_metrics(run / name))[-1]["evaluation"]


def scores(model: Model, classes: tuple[int, ...] | None, federation: Federation, client: int) -> tuple[int, float]:
    """Hits and summed loss of a model on a client's test samples, by its logits alone."""
    data, test = federation.data, federation.clients[client].test
    x = data.x[test].astype(np.float32) * np.float32(data.scale) + np.float32(data.shift)
    logits = GraphLearner(model).predict(x).astype(np.float64)
    rows = data.y[test] if classes is None else np.searchsorted(classes, data.y[test])
    logits -= np.log(np.exp(logits).sum(1, keepdims=True))
    return int((logits.argmax(1) == rows).sum()), float(-logits[np.arange(len(rows)), rows].sum())


def test_a_model_of_a_client_is_the_one_that_its_method_evaluated(run: Path, federation: Federation) -> None:
    found = set()
    for name, algorithm, evaluation in evaluations(run):
        for kind in {"personal", "adapted"} & evaluation.keys():
            trained = range(CLIENTS) if not algorithm.keeps_state else read_committed(run / name).trained
            assert trained, name
            for client in trained:
                model, what, classes, _ = find(ModelSource(run / name, client))
                correct, loss = scores(model, classes, federation, client)
                assert what == f"client {client}'s model of {name} after round {ROUNDS}"
                assert correct == evaluation[kind]["correct"][client], what
                assert loss == pytest.approx(evaluation[kind]["loss_sum"][client], rel=1e-5), what
                assert classes is None or len(classes) == model.graph.output_shape[0] < 10, what
            found.add(name)
    assert found >= {"fedspu", "fedspu-es", "local", "fedavg-ft", "fedspa", "fedper", "pflego", "ditto", "subfedavg"}


def test_the_model_of_all_is_the_servers(run: Path, federation: Federation) -> None:
    for name, _, evaluation in evaluations(run):
        if MODEL not in read_committed(run / name).state.arrays:
            continue
        model, what, classes, _ = find(ModelSource(run, None, name))
        assert what == f"{name}'s model of all clients after round {ROUNDS}"
        assert classes is None
        for client in range(CLIENTS):
            correct, loss = scores(model, None, federation, client)
            assert correct == evaluation["global_local"]["correct"][client], name
            assert loss == pytest.approx(evaluation["global_local"]["loss_sum"][client], rel=1e-5), name


def test_of_a_known_data_set_only_the_shape_is_needed(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files are asked for where the method needs the client's samples or classes, and nowhere else."""
    client = read_committed(run / "fedspu").trained[0]
    asked = [ModelSource(run, None, "fedavg"), ModelSource(run, client, "fedspu")]
    expected = [find(each) for each in asked]

    def gone(*given: object) -> None:
        raise DataError("no files of the data set")

    monkeypatch.setattr("edgefl.study.export.trained_models.assemble", gone)
    for source, before in zip(asked, expected, strict=True):
        found = find(source)
        assert found.what == before.what
        assert found.model.graph == before.model.graph
        assert all((found.model.params[name] == value).all() for name, value in before.model.params.items())
    with pytest.raises(DataError, match="no files"):
        find(ModelSource(run, client, "fedper"))


def test_every_format_has_the_same_model(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    client = read_committed(run / "fedper").trained[0]
    model, _, classes, _ = find(ModelSource(run, client, "fedper"))
    assert classes is not None
    arguments = ["export", str(run), "--method", "fedper", "--client", str(client)]
    for suffix in ("safetensors", "pt", "onnx"):
        assert main([*arguments, str(tmp_path / f"mine.{suffix}")]) == 0
        said = capsys.readouterr().err
        assert f"client {client}'s model of fedper after round {ROUNDS}" in said
        assert said.endswith(f"its outputs are the classes {', '.join(map(str, classes))}\n")
    read = model_files.load(tmp_path / "mine.safetensors")
    assert read.graph == model.graph
    module = to_torch(model)
    module.load_state_dict(torch.load(tmp_path / "mine.pt", weights_only=True))
    x = np.random.default_rng(1).standard_normal((7, *model.graph.input_shape)).astype(np.float32)
    expected = GraphLearner(model).predict(x)
    predictor = edgefl.load(str(tmp_path / "mine.safetensors"))
    np.testing.assert_array_equal(predictor.predict(x), expected)
    np.testing.assert_array_equal(predictor.labels(x), np.array(classes)[expected.argmax(1)])
    with torch.no_grad():
        np.testing.assert_allclose(module.eval()(torch.from_numpy(x)).numpy(), expected, atol=1e-5)
    assert (tmp_path / "mine.onnx").stat().st_size > 4 * sum(value.size for value in model.params.values())


def test_what_cannot_be_taken_out_is_said(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    waiting = next(client for client in range(CLIENTS) if client not in read_committed(run / "fedspu").trained)
    cases = [
        ([str(run)], 2, "is a run of fedspu, fedspu-es, fedspu-cached"),
        ([str(run), "--method", "fedfoo"], 2, "--method fedfoo; expected one of fedspu"),
        ([str(run), "--method", "local"], 2, "local has no model of all clients; expected --client"),
        ([str(run), "--method", "fedper"], 2, "fedper has no model of all clients; expected --client"),
        ([str(run), "--method", "fedavg", "--client", "0"], 2, "fedavg has one model for all clients"),
        ([str(run), "--method", "fedspu", "--client", "5"], 2, "client 5 of "),
        ([str(run), "--method", "fedspu", "--client", "-1"], 2, "expected an id from 0 to 4"),
        ([str(run), "--method", "fedspu", "--client", str(waiting)], 2, "by round 2; expected a client that has: "),
        ([str(tmp_path)], 2, "is neither a run nor the state of a device; expected a directory"),
        ([str(tmp_path / "gone")], 2, "gone: no such folder; expected the directory of a run or of a device"),
    ]
    target = tmp_path / "out.onnx"
    for arguments, code, message in cases:
        assert main(["export", *arguments, str(target)]) == code, arguments
        assert message in capsys.readouterr().err, arguments
    assert main(["export", str(run), str(tmp_path / "out.tflite")]) == 2
    assert "expected a file that ends in .safetensors, .pt, .onnx" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_goes_on_is_read_beside_it_and_left_as_it_is(tmp_path: Path) -> None:
    """The journal holds its lock. A damaged file is named, and before the first commit there is no model."""
    experiment = replace(EXPERIMENT, methods=("fedspu",))
    open_run(tmp_path / "run", experiment.to_json())
    with pytest.raises(RunError, match=r"commit\.json is missing"):
        find(ModelSource(tmp_path / "run"))
    journal = Journal(tmp_path / "run" / "fedspu")
    state = simulate(experiment.algorithms()["fedspu"], assemble(experiment), experiment.settings(1), journal)
    before = {file: file.read_bytes() for file in (tmp_path / "run").rglob("*") if file.is_file()}
    model = find(ModelSource(tmp_path / "run")).model
    assert {file: file.read_bytes() for file in (tmp_path / "run").rglob("*") if file.is_file()} == before
    for name, value in state.arrays[MODEL].items():
        np.testing.assert_array_equal(model.params[name], value, err_msg=name)
    journal.close()
    (arrays,) = (tmp_path / "run" / "fedspu" / "server").iterdir()
    arrays.write_bytes(arrays.read_bytes()[:-1] + b"?")
    with pytest.raises(RunError, match="is damaged"):
        find(ModelSource(tmp_path / "run"))
