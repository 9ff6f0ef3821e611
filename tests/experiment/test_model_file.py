"""`--model FILE`: training starts from its graph and weights, and the run goes by their content."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgefl import rng
from edgefl.cli.cli import main
from edgefl.experiment import model_file
from edgefl.models.graph import INPUT, Graph, Model, Node, architectures, model_files
from edgefl.models.graph.operations import Flatten, Linear
from edgefl.study.simulation.committed_rounds import read_committed

SHORT = ["--clients", "4", "--rounds", "2", "--per-round", "2", "--epochs", "1", "--method", "fedspu", "--json"]
DIGITS = (1, 8, 8)


def built_in(seed: int = 1) -> Model:
    graph = architectures.build("digits_cnn", DIGITS, 10)
    return Model(graph, graph.init(rng.stream(seed, rng.INIT)))


def linear(input_shape: tuple[int, ...], outputs: int, value: float = 0.5) -> Model:
    features = int(np.prod(input_shape))
    graph = Graph(input_shape, (Node("flat", Flatten(), (INPUT,)), Node("fc", Linear(features, outputs), ("flat",))))
    params = {name: np.full(info.shape, value, np.float32) for name, info in graph.parameters().items()}
    return Model(graph, params)


def simulate(*arguments: str) -> int:
    return main(["simulate", *arguments])


def final(run: Path) -> dict[str, np.ndarray]:
    return read_committed(run / "fedspu").state.arrays["model"]


def test_training_starts_from_the_weights_of_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file with what the seed draws for a built-in model gives equal bits, and other weights give other bits."""
    model_files.save(tmp_path / "same.safetensors", built_in())
    model_files.save(tmp_path / "other.safetensors", built_in(seed=2))
    runs = {"digits_cnn": "digits_cnn", "same": str(tmp_path / "same.safetensors")}
    runs["other"] = str(tmp_path / "other.safetensors")
    for name, model in runs.items():
        assert simulate(*SHORT, "--model", model, "--run-dir", str(tmp_path / name)) == 0
    expected, found, other = (final(tmp_path / name) for name in runs)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
    assert any((other[name] != value).any() for name, value in expected.items())


def test_a_run_goes_on_from_its_own_copy_and_refuses_another_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine, run = tmp_path / "mine.safetensors", tmp_path / "run"
    model_files.save(mine, built_in(seed=2))
    assert simulate(*SHORT, "--model", str(mine), "--run-dir", str(run)) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["experiment"]["model"] == model_file.name_of(built_in(seed=2))
    moved = mine.rename(tmp_path / "renamed.safetensors")
    assert simulate("--resume", str(run), "--json") == 0
    assert json.loads(capsys.readouterr().out) == said
    model_files.save(moved, built_in(seed=2), classes=range(10))  # other metadata, the same model
    assert simulate("--resume", str(run), "--model", str(moved)) == 0
    model_files.save(moved, built_in(seed=3))
    assert simulate("--resume", str(run), "--model", str(moved)) == 2
    assert "expected the same model" in capsys.readouterr().err


def test_a_spoilt_copy_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model_files.save(tmp_path / "mine.safetensors", built_in(seed=2))
    run = tmp_path / "run"
    assert simulate(*SHORT, "--model", str(tmp_path / "mine.safetensors"), "--run-dir", str(run)) == 0
    copy = run / model_file.COPY
    spoils: list[tuple[Callable[[], object], str]] = [
        (lambda: model_files.save(copy, built_in(seed=3)), "expected sha256:"),
        (lambda: copy.write_bytes(copy.read_bytes()[:-9]), "cannot be read"),
        (copy.unlink, "cannot be read"),
    ]
    for spoil, message in spoils:
        spoil()
        assert simulate("--resume", str(run)) == 2
        said = capsys.readouterr().err
        assert f"{copy} " in said
        assert message in said


def with_nan() -> Model:
    model = linear(DIGITS, 10)
    model.params["fc.bias"][3] = np.nan
    return model


def test_files_that_cannot_be_trained_on_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases = [
        (linear(DIGITS, 9), "the model has 9 outputs; data=digits has 10 classes; expected equally many"),
        (linear(DIGITS, 11), "the model has 11 outputs; data=digits has 10 classes; expected equally many"),
        (linear((1, 28, 28), 10), "the model takes (1, 28, 28); examples of data=digits are (1, 8, 8)"),
        (linear((64,), 10), "the model takes (64,); examples of data=digits are (1, 8, 8)"),
        (with_nan(), "fc.bias has nan; expected finite values"),
        (b"no model", "header"),
        (None, "No such file; expected a model that"),
    ]
    path, run = tmp_path / "mine.safetensors", tmp_path / "run"
    for model, message in cases:
        path.unlink(missing_ok=True)
        if isinstance(model, bytes):
            path.write_bytes(model)
        elif model is not None:
            model_files.save(path, model)
        assert simulate(*SHORT, "--model", str(path), "--run-dir", str(run)) == 2, message
        assert message in capsys.readouterr().err, message
        assert not run.exists(), message
    assert simulate("--model", model_file.name_of(built_in())) == 2
    assert "without its file; expected --model FILE" in capsys.readouterr().err
