"""`edgefl convert`, `inspect` and `predict`, and what of them is there from Python."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import edgefl
from edgefl.cli.cli import main
from edgefl.errors import DataError, GraphError
from edgefl.learning.losses import BinaryCrossEntropy
from edgefl.learning.memory import TrainingConfiguration, estimate
from edgefl.models.graph import model_files

THEIRS = """
import sys
import torch
from torch import nn

class Odd(nn.Module):
    def forward(self, x):
        return torch.fft.fft(x).real

def small():
    torch.manual_seed(3)
    layers = [nn.Conv2d(1, 4, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(64, 10)]
    return nn.Sequential(*layers)

class Moments(nn.Module):
    def __init__(self):
        super().__init__()
        self.recurrent, self.head = nn.GRU(3, 8, batch_first=True), nn.Linear(8, 4)

    def forward(self, x):
        return self.head(self.recurrent(x)[0][:, -1])

def transferred():
    found = small()
    found[0].requires_grad_(False)
    found[3].bias.requires_grad_(False)
    return found

made, odd, number = small(), Odd, 7

def fails():
    raise OSError("weights.pt is not here")
"""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "apart").mkdir()
    (tmp_path / "theirs_one.py").write_text(THEIRS)
    (tmp_path / "apart" / "theirs_two.py").write_text(THEIRS)
    (tmp_path / "broken_one.py").write_text("def f(:\n")
    return tmp_path


def convert(factory: str, shape: str = "1,8,8") -> int:
    return main(["convert", factory, "--input", shape, "-o", "mine.safetensors"])


def test_a_module_or_what_makes_it_is_converted_with_its_weights(desk: Path) -> None:
    torch = pytest.importorskip("torch")
    expected = runpy.run_path("theirs_one.py")["small"]().eval()
    x = np.random.default_rng(1).standard_normal((5, 1, 8, 8)).astype(np.float32)
    with torch.no_grad():
        logits = expected(torch.from_numpy(x)).numpy()
    for factory in ("theirs_one:small", "theirs_one:made", "apart/theirs_two.py:small"):
        assert convert(factory) == 0
        np.testing.assert_allclose(edgefl.load("mine.safetensors").predict(x), logits, atol=1e-5, err_msg=factory)
        assert list(model_files.load("mine.safetensors").params) == list(expected.state_dict())


REFUSED = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 3), nn.Linear(3, 2)

    def forward(self, x):
        y = torch.erf(self.a(x))
        z = self.b(torch.erf(y)) * 2
        return torch.cumsum(z, 1)
"""


def test_all_operations_that_are_refused_are_listed_at_once(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    Path("refused_one.py").write_text(REFUSED)
    assert main(["convert", "--explain", "refused_one.py:Net", "--input", "4"]) == 1
    erf = "torch.erf: edgefl has no operation for it (the module has 2 such operations)"
    assert capsys.readouterr().out.splitlines() == [
        f"refused_one.py, line 11 (`y = torch.erf(self.a(x))`): {erf}",
        f"refused_one.py, line 12 (`z = self.b(torch.erf(y)) * 2`): {erf}",
        "refused_one.py, line 13 (`return torch.cumsum(z, 1)`): torch.cumsum: edgefl has no operation for it",
    ]
    assert main(["convert", "--explain", "theirs_one:small", "--input", "1,8,8"]) == 0
    assert capsys.readouterr().out == "theirs_one:small: edgefl takes every operation\n"


def test_the_time_of_a_conversion_is_shown(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    assert convert("theirs_one:small") == 0
    assert re.search(r"parameters, converted in \d+\.\d s$", capsys.readouterr().err.strip())


def test_a_model_of_sequences_trains_on_an_npz_file_of_them(desk: Path) -> None:
    """[N, T, D] there is read as grey images are."""
    pytest.importorskip("torch")
    assert convert("theirs_one:Moments", "7,3") == 0
    draw = np.random.default_rng(2)
    y = draw.integers(0, 4, 240).astype(np.int32)
    np.savez("moments.npz", x=(draw.standard_normal((240, 7, 3)) + y[:, None, None]).astype(np.float32), y=y)
    own = ["--data", "moments.npz", "--model", "mine.safetensors"]
    assert main(["simulate", *own, "--clients", "4", "--rounds", "2", "--run-dir", "run", "--set", "lr=0.1"]) == 0
    last = [json.loads(line) for line in Path("run").rglob("metrics.jsonl").__next__().read_text().splitlines()][-1]
    assert last["round"] == 2


def test_what_cannot_be_converted_is_said(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases = [
        ("theirs_one", "1,8,8", 2, "'theirs_one'; expected MODULE:FACTORY"),
        ("nowhere_at_all:small", "1,8,8", 2, f"no module 'nowhere_at_all'; expected one in {desk}"),
        ("gone.py:small", "1,8,8", 2, "gone.py is not a file; expected a Python module"),
        ("broken_one:f", "1,8,8", 2, "broken_one:f ends with SyntaxError: "),
        ("theirs_one:large", "1,8,8", 2, "theirs_one has no 'large'; expected one of its names: sys, torch, nn, Odd"),
        ("theirs_one:number", "1,8,8", 1, "theirs_one:number returns int; expected a torch.nn.Module"),
        ("theirs_one:fails", "1,8,8", 2, "theirs_one:fails ends with OSError: weights.pt is not here"),
        ("theirs_one:odd", "1,8,8", 1, "fft"),
        ("theirs_one:small", "3,8,8", 1, "Conv2d: input with 3 channels; expected 1"),
    ]
    for factory, shape, code, message in cases:
        assert convert(factory, shape) == code, factory
        said = capsys.readouterr().err
        assert message in said, factory
        assert said.count("\n") == 1, factory
    assert main(["convert", "theirs_one:small", "--input", "1,8,8", "-o", "mine.pt"]) == 2
    assert "mine.pt; expected a file that ends in .safetensors" in capsys.readouterr().err
    assert not (desk / "mine.safetensors").exists()


def test_without_torch_the_extra_is_named(desk: Path) -> None:
    arguments = ["convert", "theirs_one:small", "--input", "1,8,8", "-o", "mine.safetensors"]
    script = f"import sys; sys.modules['torch'] = None; from edgefl.cli import cli; sys.exit(cli.main({arguments}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == ("edgefl convert: edgefl.torch needs torch, which is not installed; pip install torch\n")


def test_inspect_shows_what_is_frozen(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """40 parameters of the convolution and 10 of the bias, of 690."""
    assert convert("theirs_one:transferred") == 0
    capsys.readouterr()
    assert main(["inspect", "mine.safetensors", "--batch", "8", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["frozen"] == 50
    assert [each["frozen"] for each in found["operations"]] == [["weight", "bias"], [], [], ["bias"]]
    assert main(["inspect", "mine.safetensors", "--batch", "8"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    for part in ("40 frozen", "50 parameters are frozen", "The other 640 take 2.6 kB"):
        assert part in said, said


def test_inspect_shows_what_edgefl_sees(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert convert("theirs_one:small") == 0
    capsys.readouterr()
    assert main(["inspect", "mine.safetensors", "--batch", "8", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(each["name"], each["operation"], each["groups"]) for each in found["operations"]] == [
        ("0", "Conv2d", ["0"]),
        ("1", "ReLU", ["0"]),
        ("2", "Flatten", ["0"]),
        ("3", "Linear", []),
    ]
    assert (found["groups"], found["parameters"], found["bytes"]) == ({"0": 4}, 690, 2760)
    graph = model_files.load("mine.safetensors").graph
    for step, keep in zip(found["steps"], (1.0, 0.5), strict=True):
        assert (step["keep"], step["batch"]) == (keep, 8)
        assert step["bytes"] == estimate("exact", TrainingConfiguration("", graph, 8, keep=keep)).total
        assert 0 < step["seconds"] < 1
        assert step["calls"] >= 3
    assert main(["inspect", "mine.safetensors"]) == 0
    said = capsys.readouterr().out
    for part in ("takes 1x8x8, gives 10", "kernel_size=3x3", "690 parameters, 2.8 kB", "measured: the median of"):
        assert part in said, said
    assert main(["inspect", "mine.safetensors", "--loss", "bce", "--batch", "8", "--json"]) == 0
    step = json.loads(capsys.readouterr().out)["steps"][0]
    assert step["bytes"] == estimate("exact", TrainingConfiguration("", graph, 8, loss=BinaryCrossEntropy())).total
    assert main(["inspect", "mine.safetensors", "--loss", "bce:pos_weight=2"]) == 2
    assert "1 numbers in pos_weight; expected 10" in capsys.readouterr().err
    assert main(["inspect", "mine.safetensors", "--keep", "0"]) == 2
    assert "keep=0.0" in capsys.readouterr().err


def test_predict_reads_arrays_and_writes_logits_and_labels(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert convert("theirs_one:small") == 0
    model = edgefl.load("mine.safetensors")
    pixels = np.random.default_rng(2).integers(0, 17, (6, 1, 8, 8)).astype(np.uint8)
    x = pixels.astype(np.float32) * np.float32(1 / 16)
    logits = model.predict(x)
    np.save("x.npy", x)
    np.savez("x.npz", x=pixels, y=np.zeros(6, np.int32), scale=1 / 16, shift=0.0)
    for inputs in ("x.npy", "x.npz"):
        assert main(["predict", "mine.safetensors", inputs, "-o", "out.npy"]) == 0
        np.testing.assert_array_equal(np.load("out.npy"), logits, err_msg=inputs)
    assert main(["predict", "mine.safetensors", "x.npy", "--labels", "-o", "out.npz"]) == 0
    with np.load("out.npz") as written:
        np.testing.assert_array_equal(written["logits"], logits)
        np.testing.assert_array_equal(written["labels"], logits.argmax(1))
    capsys.readouterr()
    assert main(["predict", "mine.safetensors", "x.npy", "--labels"]) == 0
    assert capsys.readouterr().out.split() == [str(label) for label in logits.argmax(1)]
    assert main(["predict", "mine.safetensors", "x.npy"]) == 0
    rows = [list(map(float, line.split())) for line in capsys.readouterr().out.splitlines()]
    np.testing.assert_array_equal(np.array(rows, np.float32), logits)
    assert main(["predict", "mine.safetensors", "x.npy", "--decisions"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [[str(int(value > 0)) for value in row] for row in logits]
    assert main(["predict", "mine.safetensors", "x.npy", "--decisions", "-o", "out.npz"]) == 0
    with np.load("out.npz") as written:
        np.testing.assert_array_equal(written["logits"], logits)
        np.testing.assert_array_equal(written["decisions"], model.decisions(x))
    assert model.predict(x[:0]).shape == (0, 10)
    np.testing.assert_array_equal(model.predict(x[::-1]), logits[::-1])


def test_what_cannot_be_predicted_is_said(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert convert("theirs_one:small") == 0
    capsys.readouterr()
    np.save("double.npy", np.zeros((2, 1, 8, 8)))
    np.save("wide.npy", np.zeros((2, 1, 8, 9), np.float32))
    np.save("object.npy", np.array([{}]))
    np.savez("empty.npz", y=np.zeros(3))
    Path("torn.npy").write_bytes(Path("wide.npy").read_bytes()[:-9])
    cases = [
        ("double.npy", "double.npy: x is float64 (2, 1, 8, 8); expected float32 [N, 1, 8, 8]"),
        ("wide.npy", "wide.npy: x is float32 (2, 1, 8, 9); expected float32 [N, 1, 8, 8]"),
        ("object.npy", "pickled objects"),
        ("empty.npz", "no array x or x_test among y"),
        ("torn.npy", "ends after"),
        ("gone.npy", "gone.npy"),
    ]
    for inputs, message in cases:
        assert main(["predict", "mine.safetensors", inputs]) == 2, inputs
        assert message in capsys.readouterr().err, inputs
    np.save("x.npy", np.zeros((2, 1, 8, 8), np.float32))
    assert main(["predict", "mine.safetensors", "x.npy", "-o", "out.txt"]) == 2
    assert "out.txt; expected a file that ends in .npy or .npz" in capsys.readouterr().err
    with pytest.raises(DataError, match="x is list; expected float32"):
        edgefl.load("mine.safetensors").predict([1.0])
    with pytest.raises(GraphError, match=r"x\.npy"):
        edgefl.load("x.npy")


def test_a_list_of_classes_that_fits_no_model_is_refused(desk: Path) -> None:
    assert convert("theirs_one:small") == 0
    model = model_files.load("mine.safetensors")
    for classes in ([1, 2], [*range(9), "nine"], [True] * 10):
        model_files.save("odd.safetensors", model, classes)  # type: ignore[arg-type]
        with pytest.raises(GraphError, match=r"edgefl\.classes is .*; expected a list of 10 integers"):
            edgefl.load("odd.safetensors")


def test_importing_the_package_loads_nothing_that_its_doors_need() -> None:
    heavy = "numpy", "edgefl.kernels", "edgefl.models.graph", "safetensors"
    script = f"import sys, edgefl; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
