"""`edgefl convert FILE.onnx`: a file for --model, that is trained, exported and converted again, all without torch."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import edgefl
from edgefl.cli.cli import main
from edgefl.models.graph import model_files
from tests.models.onnx.onnx_models import by_onnxruntime, file_of, node

NODES = [
    node("Conv", "x conv.weight conv.bias", "c", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    node("BatchNormalization", "c bn.weight bn.bias bn.running_mean bn.running_var", "n"),
    node("Relu", "n", "r"),
    node("GlobalAveragePool", "r", "g"),
    node("Flatten", "g", "f"),
    node("Gemm", "f fc.weight fc.bias", "y", transB=1),
]


def written(path: Path, shape: tuple[int | str, ...] = (1, 8, 8)) -> bytes:
    draw = np.random.default_rng(3)
    shapes = {"conv.weight": (6, 1, 3, 3), "conv.bias": (6,), "fc.weight": (10, 6), "fc.bias": (10,)}
    values = {name: draw.standard_normal(size) for name, size in shapes.items()}
    values |= {f"bn.{part}": np.full(6, 1.0) for part in ("weight", "bias", "running_mean", "running_var")}
    content = file_of(NODES, shape, values)
    path.write_bytes(content)
    return content


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_file_is_converted_trained_and_exported(desk: Path) -> None:
    content = written(desk / "net.onnx")
    assert main(["convert", "net.onnx", "-o", "net.safetensors"]) == 0
    x = np.random.default_rng(1).standard_normal((4, 1, 8, 8)).astype(np.float32)
    np.testing.assert_allclose(edgefl.load("net.safetensors").predict(x), by_onnxruntime(content, x), atol=1e-5)
    began = model_files.load("net.safetensors")
    assert list(began.params)[:2] == ["conv.weight", "conv.bias"]
    run = ["simulate", "--model", "net.safetensors", "--clients", "4", "--rounds", "2", "--per-round", "4"]
    assert main([*run, "--method", "fedavg", "--run-dir", "run"]) == 0
    assert main(["export", "run", "trained.onnx"]) == 0
    assert main(["convert", "trained.onnx", "-o", "trained.safetensors"]) == 0
    trained = model_files.load("trained.safetensors")
    assert trained.graph == began.graph
    moved = {name for name, value in began.params.items() if not np.array_equal(value, trained.params[name])}
    assert moved == set(began.params) - {"conv.bias"}  # the batch norm takes the mean away, and its statistics move


def test_what_the_file_has_is_said(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(desk / "net.onnx")
    assert main(["convert", "net.onnx", "-o", "net.safetensors", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert 0 <= said.pop("seconds") < 60
    assert said == {
        "file": "net.safetensors", "operations": 6, "parameters": 154, "input_shape": [1, 8, 8], "output_shape": [10],
    }  # fmt: skip


def test_a_head_whose_bias_alone_is_trained_is_hinted_at(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(desk / "net.onnx")
    assert main(["convert", "net.onnx", "--train", "*.bias", "-o", "net.safetensors"]) == 0
    found = re.findall(r"edgefl convert: train=\*\.bias leaves (\S+) as it is: .*", capsys.readouterr().err)
    assert len(found) == 1 and found[0] in model_files.load("net.safetensors").graph.frozen


def test_an_open_shape_is_given_by_an_option(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(desk / "net.onnx", (1, "height", "width"))
    assert main(["convert", "net.onnx", "-o", "net.safetensors"]) == 1
    assert "input 'x' leaves open: height, width; expected the shape of one example" in capsys.readouterr().err
    assert main(["convert", "net.onnx", "--input", "1,8,8", "-o", "net.safetensors"]) == 0
    assert model_files.load("net.safetensors").graph.input_shape == (1, 8, 8)


def test_what_is_refused_is_explained(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [node("LRN", "x", "a"), node("Selu", "a", "y")]
    (desk / "net.onnx").write_bytes(file_of(nodes, (2,), opset=18))
    lrn = "LRN 'a': edgefl has no operation for it; use BatchNormalization"
    selu = "Selu 'y': edgefl has no operation for it; use Elu or Relu"
    assert main(["convert", "net.onnx", "-o", "net.safetensors"]) == 1
    more = "1 more kinds of nodes are refused, and --explain lists them"
    assert capsys.readouterr().err == f"edgefl convert: net.onnx: {lrn}; {more}\n"
    assert main(["convert", "net.onnx", "--explain"]) == 1
    assert capsys.readouterr().out == f"{lrn}\n{selu}\n"
    assert main(["convert", "net.onnx", "--explain", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {"file": "net.onnx", "refused": [lrn, selu]}
    written(desk / "net.onnx")
    assert main(["convert", "net.onnx", "--explain"]) == 0
    assert not (desk / "net.safetensors").exists()


def test_mistakes_on_the_command_line_are_said(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(desk / "net.onnx")
    cases = [
        (["gone.onnx", "-o", "m.safetensors"], "gone.onnx is not a file; expected an ONNX file"),
        (["net.onnx"], "convert without -o; expected -o FILE.safetensors, the file for the model"),
        (["net.onnx", "-o", "m.onnx"], "m.onnx; expected a file that ends in .safetensors"),
        (["mine:net", "-o", "m.safetensors"], "convert mine:net without --input; expected --input C,H,W"),
        (["mine:net", "--explain"], "convert mine:net without --input; expected --input C,H,W"),
    ]
    for arguments, message in cases:
        assert main(["convert", *arguments]) == 2, arguments
        said = capsys.readouterr().err
        assert message in said, arguments
        assert said.count("\n") == 1, arguments
    assert main(["simulate", "--model", "net.onnx"]) != 0
    assert "an ONNX file is converted first: `edgefl convert FILE.onnx" in capsys.readouterr().err


def test_it_needs_onnx_and_not_torch(desk: Path) -> None:
    written(desk / "net.onnx")
    arguments = ["convert", "net.onnx", "-o", "net.safetensors"]
    for lacking, code, said in (
        ("torch", 0, r"net.safetensors: 6 operations, 154 parameters, converted in \d+\.\d s\n"),
        ("onnx", 2, "edgefl convert: reading ONNX needs onnx, which is not installed; pip install onnx\n"),
    ):
        script = (
            f"import sys; sys.modules[{lacking!r}] = None; from edgefl.cli import cli; sys.exit(cli.main({arguments}))"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        assert done.returncode == code
        assert re.search(f"{said}$", done.stderr)  # a slow machine says before that what takes long
