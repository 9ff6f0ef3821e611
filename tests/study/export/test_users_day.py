"""A user's day: a pretrained torch model is converted, trained by a server and four devices over sockets, and taken
out of a device for another runtime. PyTorch is where the model comes from, and nowhere else.
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

import edgefl
from edgefl.cli import local_processes
from edgefl.cli.cli import main
from edgefl.deployment.device.device_state import DeviceState
from edgefl.deployment.device.state_reader import folder_of, read_device
from edgefl.experiment import model_file
from edgefl.experiment.client_dataset import partition_file
from edgefl.experiment.data.npz import read_inputs, read_integers
from edgefl.experiment.run_json import open_run
from edgefl.learning import GraphLearner
from edgefl.models.graph import model_files
from edgefl.server import run_history
from edgefl.server.store import Store
from edgefl.study.export.trained_models import ModelSource, find

DEVICES, ROUNDS = 4, 2
THEIRS = """
import torch
from torch import nn

def empty():
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.LeakyReLU(0.1), nn.MaxPool2d(2),
        nn.Conv2d(6, 12, 3, padding=1), nn.ReLU(), nn.Dropout2d(0.1), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Dropout(0.2), nn.Linear(12, 10),
    )

def pretrained():
    net = empty()
    net.load_state_dict(torch.load("weights.pt", weights_only=True))
    return net
"""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the user's module, and the weights that it was trained to."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "theirs.py").write_text(THEIRS)
    torch.manual_seed(7)
    net = runpy.run_path("theirs.py")["empty"]()
    x, y = torch.randn(64, 1, 8, 8), torch.randint(0, 10, (64,))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    torch.save(net.state_dict(), "weights.pt")
    return tmp_path


def convert(desk: Path) -> Path:
    path = desk / "mine.safetensors"
    assert main(["convert", "theirs.py:pretrained", "--input", "1,8,8", "-o", str(path)]) == 0
    return path


def serve(
    desk: Path, method: str, devices: int, rounds: int, watch: Any = lambda log_record: None
) -> tuple[Path, list[dict[str, Any]]]:
    """Serve a run that starts from the user's model, in a process for the server and for each device. Return its
    metrics.
    """
    model, run = model_files.load(desk / "mine.safetensors"), desk / method
    settings = {"clients": devices, "per_round": devices, "rounds": rounds, "eval_every": rounds, "epochs": 1}
    own = {"methods": (method,), "model": model_file.name_of(model), "partition": "iid", "lr": 0.02}
    experiment = replace(local_processes.EXPERIMENT, data="digits", **own, **settings)
    open_run(run, experiment.to_json(), model)
    local_processes.write_partitions(desk / "shares", replace(experiment, model=""))
    with without_torch(desk):
        return run, local_processes.serve(run, experiment, desk / "shares", watch).log_records


@contextmanager
def without_torch(desk: Path) -> Iterator[None]:
    """Processes that are started meanwhile have a torch that cannot be imported."""
    (desk / "absent").mkdir(exist_ok=True)
    (desk / "absent" / "torch.py").write_text("raise ModuleNotFoundError('no torch here')")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(desk / "absent"), prepend=os.pathsep)
        yield


def edgefl_without_torch(desk: Path, *arguments: str) -> str:
    """Run a command in a process of its own, and return what it says beside its output."""
    with without_torch(desk):
        done = subprocess.run([sys.executable, "-m", "edgefl", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


def state_of(run: Path, client: int) -> Path:
    return run / "devices" / str(client)


def labels(path: Path, x: np.ndarray) -> np.ndarray:
    """Return the labels that onnxruntime computes."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (logits,) = session.run(["output"], {"input": x})
    return logits.argmax(1)


def test_from_a_pretrained_torch_model_to_a_devices_own_in_onnxruntime(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = convert(desk)
    seen: list[str] = []

    def watch(log_record: dict[str, Any]) -> None:
        """The run is read while the server and its devices go on."""
        seen.append(find(ModelSource(desk / "fedspu")).what)

    run, log_records = serve(desk, "fedspu", DEVICES, ROUNDS, watch)
    assert seen[-1] == f"fedspu's model of all clients after round {ROUNDS}"
    assert len(seen) == ROUNDS
    mine.unlink()  # from here on the run has its own
    assert main(["simulate", "--replay", str(run)]) == 0
    assert capsys.readouterr().out.startswith(f"identical after round {ROUNDS}")
    assert {"Dropout", "Dropout2d"} <= {node.op.title for node in model_files.load(run / model_file.COPY).graph.nodes}

    device = DeviceState(folder_of(state_of(run, 2)))  # a device that goes on holds its lock
    said = edgefl_without_torch(desk, "export", str(state_of(run, 2)), str(desk / "device-2.onnx"))
    assert "client 2's model of fedspu after round 2" in said
    edgefl_without_torch(desk, "export", str(state_of(run, 2)), str(desk / "device-2.safetensors"))
    device.close()
    x = read_inputs(partition_file(desk / "shares", 2))
    record = read_device(state_of(run, 2))
    learner = GraphLearner(record.initial._replace(params=dict(record.last.kept.params)))
    np.testing.assert_array_equal(labels(desk / "device-2.onnx", x), learner.predict(x).argmax(1))

    share, answers = str(partition_file(desk / "shares", 2)), str(desk / "answers.npz")
    edgefl_without_torch(desk, "predict", str(desk / "device-2.safetensors"), share, "--labels", "-o", answers)
    with np.load(answers) as answered:
        np.testing.assert_array_equal(answered["labels"], labels(desk / "device-2.onnx", x))

    parts = read_integers(partition_file(desk / "shares", 2), ("y", "test"))
    hits = labels(desk / "device-2.onnx", x)[parts["test"]] == parts["y"][parts["test"]]
    assert hits.sum() == log_records[-1]["evaluation"]["personal"]["correct"][2]
    began = model_files.load(run / model_file.COPY).params
    assert any((record.last.kept.params[name] != value).any() for name, value in began.items())


def test_what_a_device_needs_of_its_server(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """FedPer: the head is the device's, the body the server's."""
    convert(desk)
    run, log_records = serve(desk, "fedper", devices=2, rounds=1)
    target, state = desk / "device-1.safetensors", state_of(run, 1)
    capsys.readouterr()
    for arguments, message in (
        ([str(state)], "a device of fedper keeps no whole model; expected --run, the directory of its server"),
        ([str(state), "--client", "3", "--run", str(run)], "is of client 1; expected --client 1, not 3"),
        ([str(run)], "fedper has no model of all clients; expected --client"),
        (
            [str(run), "--client", "1"],
            "is the run of a server and has no model of client 1; expected the --state of its device",
        ),
    ):
        assert main(["export", *arguments, str(target)]) == 2, message
        assert message in capsys.readouterr().err, message
    assert main(["export", str(state), "--run", str(run), str(target)]) == 0
    predictor, share = edgefl.load(str(target)), partition_file(desk / "shares", 1)
    parts = read_integers(share, ("y", "test"))
    hits = predictor.labels(read_inputs(share)[parts["test"]]) == parts["y"][parts["test"]]
    assert hits.sum() == log_records[-1]["evaluation"]["personal"]["correct"][1]

    open_run(desk / "another", local_processes.EXPERIMENT.to_json())
    with closing(Store(desk / "another")) as store:
        assert main(["export", str(state), "--run", str(desk / "another"), str(target)]) == 2
        assert f"is the run {store.run_id}; expected {run_history.run_id(run)}" in capsys.readouterr().err

    (folder_of(state) / "local.safetensors").rename(desk / "kept")
    assert main(["export", str(state), "--run", str(run), str(target)]) == 2
    assert "client 1 in " in (said := capsys.readouterr().err)
    assert "has not trained yet; expected a round that its server acknowledged" in said
    (folder_of(state) / "local.safetensors").write_bytes((desk / "kept").read_bytes()[:-9])
    assert main(["export", str(state), "--run", str(run), str(target)]) == 2
    assert "local.safetensors" in capsys.readouterr().err
