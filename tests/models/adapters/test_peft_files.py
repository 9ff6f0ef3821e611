"""Adapters in peft's files: names and shapes by hand, back again, what is refused, and peft itself if it is there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from edgefl.errors import EdgeflError
from edgefl.models import add_adapters
from edgefl.models.adapters.peft_files import CONFIG, WEIGHTS, load_adapter, save_adapter

from .adapted_graphs import GRAPHS, adapted, base


@pytest.mark.parametrize("name", GRAPHS)
def test_saved_adapters_come_back_with_their_bits(name: str, tmp_path: Path) -> None:
    model = adapted(name)
    save_adapter(model, tmp_path, "a name")
    found = load_adapter(base(name), tmp_path)
    assert found.graph == model.graph
    assert {each: value.tobytes() for each, value in found.params.items()} == {
        each: value.tobytes() for each, value in model.params.items()
    }


def test_names_and_shapes_are_those_of_peft(tmp_path: Path) -> None:
    model = adapted("sentences")
    save_adapter(model, tmp_path, "a name")
    shapes = {
        name.removeprefix("base_model.model."): value.shape for name, value in load_file(tmp_path / WEIGHTS).items()
    }
    assert shapes == {
        "words.lora_embedding_A": (2, 11), "words.lora_embedding_B": (6, 2),
        "mixed.lora_A.weight": (2, 6, 3), "mixed.lora_B.weight": (7, 2, 1),
        "block.proj.lora_A.weight": (2, 7), "block.proj.lora_B.weight": (4, 2),
        "fc.lora_A.weight": (2, 20), "fc.lora_B.weight": (5, 2),
    }  # fmt: skip
    config = json.loads((tmp_path / CONFIG).read_text())
    expected = {"peft_type": "LORA", "r": 2, "lora_alpha": 3.0, "base_model_name_or_path": "a name"}
    assert {name: config[name] for name in expected} == expected
    assert config["target_modules"] == ["words", "mixed", "block.proj", "fc"]


def _without(config: dict[str, Any], weights: dict[str, np.ndarray]) -> None:
    del weights["base_model.model.fc.lora_B.weight"]


def _strange(config: dict[str, Any], weights: dict[str, np.ndarray]) -> None:
    weights["base_model.model.fc.lora_C.weight"] = np.zeros(1, np.float32)


def _wide(config: dict[str, Any], weights: dict[str, np.ndarray]) -> None:
    weights["base_model.model.fc.lora_A.weight"] = np.zeros((3, 20), np.float32)


def _other_layer(config: dict[str, Any], weights: dict[str, np.ndarray]) -> None:
    weights["base_model.model.head.lora_A.weight"] = np.zeros((2, 20), np.float32)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda config, weights: config.update(use_dora=True), "use_dora=True; expected use_dora=False"),
        (lambda config, weights: config.update(peft_type="IA3"), "peft_type='IA3'; expected peft_type='LORA'"),
        (lambda config, weights: config.update(rank_pattern={"fc": 4}), "rank_pattern="),
        (lambda config, weights: config.pop("r"), "has no r and lora_alpha"),
        (_without, r"has nothing as base_model.model.fc.lora_B.weight; expected values of shape \(5, 2\)"),
        (_wide, r"has \(3, 20\) as base_model.model.fc.lora_A.weight; expected values of shape \(2, 20\)"),
        (_strange, "has base_model.model.fc.lora_C.weight, which no layer of the model takes"),
        (_other_layer, "targets='head' names no layer"),
    ],
)
def test_what_edgefl_cannot_take_is_named(change: Any, reason: str, tmp_path: Path) -> None:
    save_adapter(adapted("sentences"), tmp_path)
    config, weights = json.loads((tmp_path / CONFIG).read_text()), load_file(tmp_path / WEIGHTS)
    change(config, weights)
    (tmp_path / CONFIG).write_text(json.dumps(config))
    save_file(weights, tmp_path / WEIGHTS)
    with pytest.raises(EdgeflError, match=reason):
        load_adapter(base("sentences"), tmp_path)


@pytest.mark.parametrize("file", [CONFIG, WEIGHTS])
@pytest.mark.parametrize("content", [None, b"{", b"\x00" * 40])
def test_a_missing_or_damaged_file_is_named(file: str, content: bytes | None, tmp_path: Path) -> None:
    save_adapter(adapted("sentences"), tmp_path)
    if content is None:
        (tmp_path / file).unlink()
    else:
        (tmp_path / file).write_bytes(content)
    with pytest.raises(EdgeflError, match=file):
        load_adapter(base("sentences"), tmp_path)


def test_peft_reads_and_writes_the_files(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft", reason="peft is not installed")
    torch = pytest.importorskip("torch")
    from edgefl.torch import from_torch, to_torch

    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 5)).eval()
    x = torch.randn(4, 6)
    ours = add_adapters(from_torch(module, x), rank=2, targets="0,2")
    ours.params["0.lora_B.weight"][:] = 0.5
    save_adapter(ours, tmp_path / "ours")
    read = peft.PeftModel.from_pretrained(module, tmp_path / "ours").eval()
    torch.testing.assert_close(read(x), to_torch(ours).eval()(x))
    for name, value in read.named_parameters():
        if "lora" in name:
            torch.nn.init.normal_(value)
    read.save_pretrained(tmp_path / "theirs")
    back = load_adapter(from_torch(read.unload().eval(), x), tmp_path / "theirs")
    fresh = peft.PeftModel.from_pretrained(module, tmp_path / "theirs").eval()
    torch.testing.assert_close(fresh(x), to_torch(back).eval()(x))
