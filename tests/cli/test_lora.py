"""`edgefl lora`: adapters of a model's file, what it says of them, and what it refuses before a file is written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from edgefl import rng
from edgefl.cli.cli import main
from edgefl.models import adapters_of
from edgefl.models.graph import INPUT, Graph, Model, Node, model_files
from edgefl.models.graph.operations import Linear, ReLU
from tests.models.adapters.adapted_graphs import adapted, base


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    model_files.save(tmp_path / "base.safetensors", base("pictures"))
    model_files.save(tmp_path / "adapted.safetensors", adapted("pictures"))
    return tmp_path


def test_adapters_are_added_trained_part_and_all(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["base.safetensors", "--rank", "1", "--alpha", "4", "--targets", "conv,fc", "--train", "fc.bias"]
    assert main(["lora", *words, "-o", "new.safetensors"]) == 0
    assert capsys.readouterr().out == "new.safetensors: 2 adapters; 47 of 425 values are trained\n"
    graph = model_files.load(here / "new.safetensors").graph
    assert [(each.module, each.scale) for each in adapters_of(graph)] == [("conv", 4.0), ("fc", 4.0)]


def test_adapters_go_to_peft_and_come_back(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lora", "adapted.safetensors", "--save", "files", "--json"]) == 0
    assert [each["module"] for each in json.loads(capsys.readouterr().out)["adapters"]] == ["conv", "wide", "fc"]
    assert main(["lora", "base.safetensors", "--load", "files", "-o", "back.safetensors"]) == 0
    back, expected = (model_files.load(here / f"{name}.safetensors").params for name in ("back", "adapted"))
    assert all(np.array_equal(back[name], expected[name]) for name in expected)


def test_merged_adapters_are_gone(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lora", "adapted.safetensors", "--merge", "-o", "merged.safetensors"]) == 0
    assert "merged.safetensors: 0 adapters" in capsys.readouterr().out
    assert model_files.load(here / "merged.safetensors").graph == base("pictures").graph


def test_frozen_weights_are_quantized_and_merged_again(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wide = ["--rank", "4", "--targets", "fc", "-o"]
    model_files.save(here / "large.safetensors", load_quantizable())
    assert main(["lora", "large.safetensors", *wide, "new.safetensors", "--quantize", "bfloat16"]) == 0
    assert main(["lora", "new.safetensors", "-o", "int8.safetensors", "--quantize", "int8"]) == 0
    assert "int8.safetensors: 1 adapters" in capsys.readouterr().out
    found = {name: model_files.load(here / f"{name}.safetensors") for name in ("new", "int8")}
    assert [{each.precision for each in model.graph.quantized} for model in found.values()] == [{"bfloat16"}, {"int8"}]
    assert main(["lora", "int8.safetensors", "--merge", "-o", "merged.safetensors"]) == 0
    merged = model_files.load(here / "merged.safetensors")
    assert merged.graph == load_quantizable().graph
    expected = np.asarray(found["int8"].params["fc.weight"])
    np.testing.assert_array_equal(merged.params["fc.weight"], expected)  # a new adapter adds nothing


def load_quantizable() -> Model:
    graph = Graph(
        (64,),
        (Node("fc", Linear(64, 32), (INPUT,)), Node("relu", ReLU(), ("fc",)), Node("out", Linear(32, 5), ("relu",))),
    )
    return Model(graph, graph.init(rng.stream(1, rng.INIT)))


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["base.safetensors"], "expected -o FILE.safetensors"),
        (["base.safetensors", "-o", "new.onnx"], "expected a file that ends in .safetensors"),
        (["nowhere.safetensors", "-o", "new.safetensors"], "nowhere.safetensors: no such file"),
        (["base.safetensors", "--merge", "-o", "new.safetensors"], "the model has no adapter"),
        (["base.safetensors", "--merge", "--rank", "3", "-o", "new.safetensors"], "--rank without new adapters"),
        (
            ["adapted.safetensors", "--merge", "--quantize", "int8", "-o", "new.safetensors"],
            "--quantize with --merge or",
        ),
        (["adapted.safetensors", "--quantize", "int8", "-o", "new.safetensors"], "no frozen weight of 1024 values"),
        (["base.safetensors", "--targets", "fcc", "-o", "new.safetensors"], "'fcc' names no layer"),
        (["adapted.safetensors", "--save", "files", "-o", "new.safetensors"], "or --save DIR for the adapters alone"),
    ],
)
def test_strange_requests_write_nothing(
    words: list[str], reason: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(here.iterdir())
    assert main(["lora", *words]) == 2
    assert reason in capsys.readouterr().err
    assert sorted(here.iterdir()) == before
