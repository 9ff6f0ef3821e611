"""Modules and data as programs have them, through `edgefl.simulate` and back: sequences of any axes, clients as a list,
unused parameters in .pt files, trained models in other processes.
"""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgefl
from edgefl.cli.cli import main
from edgefl.errors import DataError, GraphError
from edgefl.models.graph import Model, model_files

torch = pytest.importorskip("torch", reason="the modules are torch's")
nn = torch.nn

SHORT: dict[str, Any] = {"rounds": 1, "epochs": 1, "eval_every": 1, "per_round": 4, "keep": 1.0, "progress": False}
PEOPLE, EACH = 4, 10


def windows(channels: int = 3, steps: int = 5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """[N, channels, steps], labels and groups."""
    stream = np.random.default_rng(5)
    x = stream.normal(size=(PEOPLE * EACH, channels, steps)).astype(np.float32)
    return x, np.tile([0, 1], PEOPLE * EACH // 2), np.repeat(np.arange(PEOPLE), EACH)


def turned(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x.transpose(0, 2, 1))


def conv(channels: int = 3) -> Any:
    torch.manual_seed(3)
    return nn.Sequential(nn.Conv1d(channels, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(4, 2))


class Recurrent(nn.Module):
    def __init__(self, channels: int = 3) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.layer, self.out = nn.LSTM(channels, 4, batch_first=True), nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        return self.out(self.layer(x)[0][:, -1])


def run_of(path: Path, model: Any, data: Any, **settings: Any) -> edgefl.Run:
    return edgefl.simulate("fedspu", model=model, data=data, directory=path, **{**SHORT, **settings})


def of_client(run: edgefl.Run) -> dict[str, np.ndarray]:
    return run.clients[1].model.params


@pytest.mark.parametrize("steps", [5, 3])  # 3: as many as channels
@pytest.mark.parametrize(("make", "order"), [(conv, "NCL"), (Recurrent, "NLC")], ids=["Conv1d", "LSTM"])
def test_a_module_of_sequences_trains_alike_whatever_the_order_of_the_datas_axes(
    tmp_path: Path, make: Any, order: str, steps: int
) -> None:
    x, y, who = windows(steps=steps)
    given = {"NCL": x, "NLC": turned(x)}
    runs = {axes: run_of(tmp_path / axes, make(), (given[axes], y, who), axes=axes) for axes in given}
    plain = run_of(tmp_path / "plain", make(), (given[order], y, who))  # nothing is said: as the module takes it
    for axes, run in runs.items():
        assert (run.experiment.axes, run.federation.graph.input_shape) == (axes, given[order].shape[1:])
        for name, value in of_client(run).items():
            np.testing.assert_array_equal(value, of_client(plain)[name])
        np.testing.assert_array_equal(
            run.clients[1].model.predict(given[axes]), plain.clients[1].model.predict(given[order])
        )
        again = edgefl.open_run(run.directory).federation.data.x
        np.testing.assert_array_equal(again, given[order])


def test_a_converted_model_is_the_module(tmp_path: Path) -> None:
    from edgefl.torch import from_torch

    x, y, who = windows()
    converted = run_of(tmp_path / "a", from_torch(conv(), torch.zeros(2, 3, 5)), (x, y, who), axes="NCL")
    module = run_of(tmp_path / "b", conv(), {"x": x, "y": y, "group": who, "axes": "NCL"})
    for name, value in of_client(module).items():
        np.testing.assert_array_equal(value, of_client(converted)[name])


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        (
            "NLC",
            "the module reads [N, 3, 5] as channels and steps, and axes=NLC gives the data another order; "
            "expected axes=NCL",
        ),
        ("NHWC", "data: x is float32 (40, 3, 5); expected 4 axes, NHWC"),
        ("NTF", "axes=NTF; expected one of NF, NL, NHW, NCL, NLC, NCHW, NHWC"),
    ],
)
def test_axes_that_cannot_be_are_refused_before_a_directory_is_made(tmp_path: Path, axes: str, message: str) -> None:
    x, y, who = windows()
    with pytest.raises((GraphError, DataError)) as error:
        run_of(tmp_path / "run", conv(), (x, y, who), axes=axes)
    assert str(error.value) == message
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("axes", "is_turned", "code"),
    [("NLC", False, 0), ("NCL", True, 0), ("NCL", False, 0), ("", False, 0), ("", True, 2)],
)
def test_the_command_line_takes_the_true_axes_of_a_recurrent_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], axes: str, is_turned: bool, code: int
) -> None:
    from edgefl.torch import from_torch

    x, y, who = windows(4, 10)  # an LSTM of (10, 4), on [N, 10, 4] or turned
    np.savez(tmp_path / "w.npz", x=x if is_turned else turned(x), y=y, group=who)
    model_files.save(tmp_path / "m.safetensors", from_torch(Recurrent(4), torch.zeros(2, 10, 4)))
    options = ["--data", str(tmp_path / "w.npz"), "--group", "group", "--model", str(tmp_path / "m.safetensors")]
    options += [
        "--rounds",
        "1",
        "--method",
        "fedavg",
        "--run-dir",
        str(tmp_path / "run"),
        *(["--axes", axes] if axes else []),
    ]
    assert main(["simulate", *options]) == code
    said = capsys.readouterr().err
    if code:
        expected = (
            "the model takes (10, 4); examples of data=" + str(tmp_path / "w.npz") + " are (1, 4, 10); axes=NCL would"
        )
        assert expected in said and not (tmp_path / "run").exists()
    else:
        found = edgefl.open_run(tmp_path / "run").federation.data.x
        np.testing.assert_array_equal(found.reshape(40, 10, 4), turned(x))


def test_a_list_has_a_client_each(tmp_path: Path) -> None:
    x, y, who = windows()
    flat = x.reshape(len(x), -1)
    several = [(flat[who == each][each:], y[who == each][each:]) for each in range(PEOPLE)]
    run = edgefl.simulate("local", data=several, directory=tmp_path / "run", rounds=1, epochs=1, progress=False)
    assert (run.experiment.partition, run.experiment.clients) == ("group", PEOPLE)
    counts = [sum(map(len, vars(split).values())) for split in run.federation.clients]
    assert counts == [10, 9, 8, 7]
    rows = np.sort(np.concatenate(list(vars(run.federation.clients[2]).values())))
    np.testing.assert_array_equal(run.federation.data.x[rows], several[2][0])


class Aside(nn.Module):
    """A module with a part that forward does not use."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.aux, self.norm = nn.Linear(15, 2), nn.Linear(4, 4), nn.BatchNorm1d(2)

    def forward(self, x: Any) -> Any:
        return self.norm(self.a(x))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Aside, edgefl.Run]:
    x, y, who = windows()
    module, path = Aside(), tmp_path_factory.mktemp("aside") / "run"
    with pytest.warns(UserWarning, match=r"forward does not use aux\.weight, aux\.bias"):
        return module, run_of(path, module, (x.reshape(len(x), -1), y, who))


def test_the_users_own_module_takes_a_pt_file_strictly(trained: tuple[Aside, edgefl.Run], tmp_path: Path) -> None:
    module, run = trained
    run.clients[1].model.save(tmp_path / "one.pt")
    run.clients[1].model.save(tmp_path / "one.safetensors")
    assert main(["export", str(run.directory), str(tmp_path / "same.pt"), "--client", "1"]) == 0
    for name in ("one.pt", "same.pt"):
        other = Aside()
        other.load_state_dict(torch.load(tmp_path / name), strict=True)
        assert torch.equal(other.aux.weight, module.aux.weight)
        np.testing.assert_array_equal(other.a.weight.detach().numpy(), of_client(run)["a.weight"])
        assert not torch.equal(other.a.weight, module.a.weight)
    assert model_files.load(tmp_path / "one.safetensors").unused.keys() == {"aux.weight", "aux.bias"}


def test_unused_parameters_are_not_sent(trained: tuple[Aside, edgefl.Run], tmp_path: Path) -> None:
    _, run = trained
    model = model_files.load(run.directory / "model.safetensors")
    x, y, who = windows()
    plain = run_of(tmp_path / "run", Model(model.graph, model.params), (x.reshape(len(x), -1), y, who))
    assert plain.method.payload_bytes == run.method.payload_bytes


def test_a_trained_model_is_the_same_in_another_process(trained: tuple[Aside, edgefl.Run], tmp_path: Path) -> None:
    _, run = trained
    model, x = run.clients[1].model, windows()[0].reshape(40, -1)
    model.predict(x)  # what it has made to do so stays here
    for each in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(each.predict(x), model.predict(x))
        assert (repr(each), each.classes, each.graph) == (repr(model), model.classes, model.graph)
        each.save(tmp_path / "again.pt")
        Aside().load_state_dict(torch.load(tmp_path / "again.pt"), strict=True)
    (tmp_path / "model.pickle").write_bytes(pickle.dumps(model))
    np.save(tmp_path / "x.npy", x)
    script = "import pickle, numpy; m = pickle.load(open('model.pickle', 'rb')); print(m.labels(numpy.load('x.npy')))"
    found = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert found.stdout == f"{model.labels(x)}\n"


def test_a_models_scaling_goes_with_it(tmp_path: Path) -> None:
    x, y, who = windows()
    data = {"x": x.reshape(len(x), -1), "y": y, "group": who, "scale": 0.5, "shift": 1.0}
    model = run_of(tmp_path / "run", nn.Sequential(nn.Linear(15, 2)), data).clients[1].model
    kept = pickle.loads(pickle.dumps(model))
    (tmp_path / "run").rename(tmp_path / "gone")
    expected = (data["x"][:3] * 0.5 + 1) @ model.params["0.weight"].T + model.params["0.bias"]
    np.testing.assert_allclose(kept.predict(data["x"][:3]), expected, rtol=1e-5)


def test_a_sigmoid_before_a_loss_of_logits_is_named(tmp_path: Path) -> None:
    x, y, who = windows()
    data = (x.reshape(len(x), -1), y, who)
    with pytest.warns(UserWarning, match="the model ends in Sigmoid, and loss=cross-entropy takes logits"):
        run_of(tmp_path / "a", nn.Sequential(nn.Linear(15, 2), nn.Sigmoid()), data)
    both = (data[0], np.eye(2, dtype=np.float32)[y], who)
    torch.manual_seed(1)
    module = nn.Sequential(nn.Linear(15, 2), nn.Sigmoid())
    with pytest.warns(UserWarning, match="the Sigmoid at the end is left to loss=bce: outputs are logits"):
        ended = run_of(tmp_path / "b", module, both, loss=nn.BCEWithLogitsLoss())
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        plain = run_of(tmp_path / "c", module[:1], both, loss="bce")
    np.testing.assert_array_equal(of_client(ended)["0.weight"], of_client(plain)["0.weight"])
