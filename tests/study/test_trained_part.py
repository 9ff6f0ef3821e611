"""A trained part in simulate: bytes of messages by formula, files on the disk, resumption, export, and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import edgefl
from edgefl.cli.cli import main
from edgefl.errors import GraphError, RunError
from edgefl.experiment.run_json import read_experiment
from edgefl.models.graph import Model, model_files
from edgefl.models.graph.architectures import build
from edgefl.rng import INIT, stream
from edgefl.study.export.trained_models import ModelSource, find

BASE = {"rounds": 2, "clients": 3, "per_round": 2, "epochs": 1, "partition": "iid", "progress": False}
HEAD, BLOCK = 10 * 256 + 10, 64 * 32 * 9 + 5 * 64  # values of fc, and of conv2 with bn2
HALF = 32 * 16 * 9 + 5 * 32 + 10 * 128 + 10  # the last block and the head at half of the neurons


def header(blocks: int) -> int:
    """Bytes of a payload's header."""
    return 28 + 8 * blocks


BYTES = [  # down and up of a client in a round of digits_cnn
    ("fedavg", "head", 4 * HEAD + header(2), 4 * HEAD + header(2)),
    ("fedavg", "biases", 4 * (32 + 32 + 64 + 64 + 10) + header(5), 4 * 202 + header(5)),
    ("fedavg", "norms", 4 * (4 * 32 + 4 * 64) + header(8), 4 * 384 + header(8)),
    ("fedavg", "last:1", 4 * (BLOCK + HEAD) + header(8), 4 * (BLOCK + HEAD) + header(8)),
    ("fedper", "last:1", 4 * BLOCK + header(6), 4 * BLOCK + header(6)),
    ("fedspu:keep=.5", "last:1", 4 * HALF + header(8) + 2 * 8 + 4 + 8, 4 * HALF + header(8) + 8),
]


def clients_of(path: Path) -> list[dict[str, int]]:
    (metrics,) = path.glob("*/metrics.jsonl")
    return [client for line in metrics.read_text().splitlines() for client in json.loads(line)["clients"]]


@pytest.mark.parametrize(("method", "train", "down", "up"), BYTES)
def test_messages_have_the_bytes_of_the_part(tmp_path: Path, method: str, train: str, down: int, up: int) -> None:
    run = edgefl.simulate(method, train=train, directory=tmp_path / "run", **BASE)
    assert {(client["down"], client["up"]) for client in clients_of(run.directory)} == {(down, up)}


def saved(path: Path) -> Path:
    """A file of digits_cnn with weights."""
    graph = build("digits_cnn", (1, 8, 8), 10)
    model_files.save(path / "base.safetensors", Model(graph, graph.init(stream(5, INIT))))
    return path / "base.safetensors"


@pytest.mark.parametrize("method", ["fedspu:keep=.5", "local", "ditto"])
def test_clients_keep_their_part_and_export_whole_models(tmp_path: Path, method: str) -> None:
    file = saved(tmp_path)
    run = edgefl.simulate(method, model=file, train="head", directory=tmp_path / "run", **BASE)
    base = model_files.load(file).params
    (kept, *_) = run.directory.glob("*/clients/*/*.safetensors")
    assert 4 * HEAD < kept.stat().st_size < 4 * HEAD + 400
    found = find(ModelSource(run.directory, int(kept.parent.name))).model
    for name, value in found.params.items():
        assert (value.tobytes() == base[name].tobytes()) == (not name.startswith("fc.")), name
    assert found.graph.frozen == frozenset(base) - {"fc.weight", "fc.bias"}


def test_frozen_parameters_keep_their_bits_and_a_run_goes_on(tmp_path: Path) -> None:
    """Norms of the frozen part normalise by the statistics of the file."""
    file, directory = saved(tmp_path), tmp_path / "run"
    once = edgefl.simulate("fedavg", model=file, train=["last:1", "-*.running_*"], directory=directory, **BASE)
    assert read_experiment(directory)["train"] == "last:1,-*.running_*"
    base, found = model_files.load(file).params, find(ModelSource(directory)).model.params
    moved = {name for name, value in found.items() if value.tobytes() != base[name].tobytes()}
    assert moved == {f"{layer}.{part}" for layer in ("conv2", "bn2", "fc") for part in ("weight", "bias")}
    more = {**BASE, "rounds": 3}
    edgefl.simulate("fedavg", model=file, train="last:1,-*.running_*", directory=directory, **more)
    whole = edgefl.simulate("fedavg", model=file, train="last:1,-*.running_*", directory=tmp_path / "at-once", **more)
    for name, value in find(ModelSource(whole.directory)).model.params.items():
        assert np.array_equal(find(ModelSource(once.directory)).model.params[name], value), name


def test_the_server_writes_the_frozen_parameters_once(tmp_path: Path) -> None:
    """A damaged file of frozen parameters is named."""
    edgefl.simulate("fedavg", train="head", directory=tmp_path, **BASE)
    base, state = (tmp_path / "fedavg" / "server" / name for name in ("base.safetensors", "000002.safetensors"))
    assert 4 * HEAD < state.stat().st_size < 4 * HEAD + 400
    frozen = 32 * 9 + 5 * 32 + 64 * 32 * 9 + 5 * 64
    assert 4 * frozen < base.stat().st_size < 4 * frozen + 1200
    written = base.stat().st_mtime_ns
    edgefl.simulate("fedavg", train="head", directory=tmp_path, **{**BASE, "rounds": 3})
    assert base.stat().st_mtime_ns == written
    assert find(ModelSource(tmp_path)).model.params["conv2.weight"].shape == (64, 32, 3, 3)
    base.write_bytes(base.read_bytes()[:-1] + b"x")
    with pytest.raises(RunError, match=r"base\.safetensors is damaged"):
        find(ModelSource(tmp_path))


def test_a_run_goes_on_with_its_own_part_alone(tmp_path: Path) -> None:
    edgefl.simulate("fedavg", train="head", directory=tmp_path, **BASE)
    with pytest.raises(RunError, match="was run with train='head'; expected 'last:1'"):
        edgefl.simulate("fedavg", train="last:1", directory=tmp_path, **BASE)


def test_a_run_without_a_part_has_the_settings_of_before(tmp_path: Path) -> None:
    edgefl.simulate("fedavg", directory=tmp_path, **BASE)
    assert "train" not in read_experiment(tmp_path)


REFUSED = [
    ("fedavg", "conv3.*", "train=conv3"),
    ("fedavg", "conv1.weight[:8]", "names a slice of a parameter"),
    ("fedper", "head", "fedper: all 12 parameters of the model's body are frozen"),
    ("fedspa", "biases", "fedspa: the trained part"),
]


@pytest.mark.parametrize(("method", "train", "problem"), REFUSED)
def test_a_part_is_refused_before_anything_is_written(tmp_path: Path, method: str, train: str, problem: str) -> None:
    with pytest.raises((ValueError, GraphError), match=problem):
        edgefl.simulate(method, train=train, directory=tmp_path / "run", **BASE)
    assert not (tmp_path / "run").exists()


def test_commands_refuse_a_part_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(saved(tmp_path))
    commands = (
        ["simulate", "--train", "haed", "--run-dir", str(tmp_path / "run")],
        ["serve", "--train", "haed", "--port", "0", "--run-dir", str(tmp_path / "run")],
        ["memory", "digits_cnn", "--train", "haed"],
        ["inspect", file, "--train", "haed"],
    )
    for command in commands:
        assert main(command) == 2
        assert "train=haed names no parameter; the nearest is head\n" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_resume_takes_the_part_of_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edgefl.simulate("fedavg", train="head", directory=tmp_path, **BASE)
    assert main(["simulate", "--resume", str(tmp_path), "--train", "biases"]) == 2
    assert "was run with train=head, not biases; expected the same settings" in capsys.readouterr().err
    assert main(["simulate", "--resume", str(tmp_path)]) == 0


def test_results_name_the_frozen_bytes_once(tmp_path: Path) -> None:
    """4 x (288 + 160 + 18,432 + 320) bytes of digits_cnn are frozen with train=head."""
    run = edgefl.simulate("fedavg,local", train="head", directory=tmp_path, **BASE)
    sentence = "The frozen part of the model has 0.0768 MB: a device fetches it once, and no payload"
    assert " ".join(run.table().split()).count(sentence) == 1
    assert run.to_json()["methods"]["fedavg"]["frozen_bytes"] == 76800
