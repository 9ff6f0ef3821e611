"""Adapters in the two files of the package peft: adapter_config.json, and adapter_model.safetensors with the weights.

    base_model.model.NAME.lora_A.weight  [r, inputs], and lora_B.weight [outputs, r]
    base_model.model.NAME.lora_embedding_A  [r, ids], and lora_embedding_B [outputs, r]: no ".weight" after them

peft 0.21 was read for the names. Only LoRA with the factor alpha / r is read: no DoRA, no rank-stabilised factor, no
bias that is trained beside the adapters, no weights of whole modules.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from edgefl.errors import GraphError, RequestError
from edgefl.models.adapters.low_rank import LowRankAdapter, adapters_of, add_adapters
from edgefl.models.graph.graph import Model
from edgefl.models.graph.operations import Embedding, Linear
from edgefl.system.durable_files import write_atomically

CONFIG, WEIGHTS, PREFIX = "adapter_config.json", "adapter_model.safetensors", "base_model.model."
WITHOUT: dict[str, tuple[Any, ...]] = {  # entry of peft's configuration -> the values with which the files are read
    "peft_type": ("LORA",),
    "bias": ("none",),
    "use_dora": (False, None),
    "use_rslora": (False, None),
    "modules_to_save": (None, []),
    "rank_pattern": ({}, None),
    "alpha_pattern": ({}, None),
}


def save_adapter(model: Model, directory: Path, base: str = "") -> None:
    """Write the adapters of a model into a directory that peft's PeftModel.from_pretrained reads.

    base    name of the pretrained model for people, which peft keeps as base_model_name_or_path
    Raises  GraphError if the model has no adapter. OSError if the disk refuses.
    """
    adapters = adapters_of(model.graph)
    if not adapters:
        raise GraphError("the model has no adapter; expected one that add_adapters has made")
    directory.mkdir(parents=True, exist_ok=True)
    weights = {}
    for each in adapters:
        for name, value in _theirs(model, each).items():
            weights[PREFIX + name] = np.ascontiguousarray(value)
    write_atomically(directory / WEIGHTS, save(weights, {"format": "pt"}))
    first, ours = adapters[0], {node.name: node for node in model.graph.nodes}
    transposes = {ours[each.node].full_name("weight") != f"{each.module}.weight" for each in adapters}
    config = {
        "peft_type": "LORA", "task_type": None, "base_model_name_or_path": base, "r": first.rank,
        "lora_alpha": first.scale * first.rank, "target_modules": [each.module for each in adapters],
        "lora_dropout": 0.0, "bias": "none", "fan_in_fan_out": transposes == {True}, "inference_mode": True,
    }  # fmt: skip
    write_atomically(directory / CONFIG, (json.dumps(config, indent=2) + "\n").encode())


def load_adapter(model: Model, directory: Path) -> Model:
    """Return the model with the adapters of a directory that peft has written. Only the adapters are trained.

    model   the base model without adapters, converted from the module that peft had wrapped
    Raises  RequestError if a file is missing or has what edgefl cannot take. GraphError if an adapter does not fit.
    """
    config = _config(directory / CONFIG)
    try:
        weights = load_file(directory / WEIGHTS)
    except (OSError, SafetensorError) as error:
        raise RequestError(f"{directory / WEIGHTS}: {error}; expected the weights of an adapter") from None
    modules = list(dict.fromkeys(name.removeprefix(PREFIX).partition(".lora_")[0] for name in weights))
    made = add_adapters(model, rank=config["r"], alpha=float(config["lora_alpha"]), targets=modules)
    params = dict(made.params)
    known = set()
    for each in adapters_of(made.graph):
        names = _theirs(made, each)
        for name, ours in zip(names, (each.down, each.up), strict=True):
            params[ours] = _taken(weights, PREFIX + name, names[name].shape, directory / WEIGHTS)
            if name.endswith("lora_embedding_A"):
                params[ours] = np.ascontiguousarray(params[ours].T)
            known.add(PREFIX + name)
    if strange := sorted(weights.keys() - known):
        raise RequestError(f"{directory / WEIGHTS} has {strange[0]}, which no layer of the model takes")
    made.graph.check(params)
    return made._replace(params=params)


def _theirs(model: Model, adapter: LowRankAdapter) -> dict[str, np.ndarray]:
    """Return the weights A and B of an adapter under peft's names and in peft's shapes."""
    node = next(each for each in model.graph.nodes if each.name == adapter.node)
    down, up = model.params[adapter.down], model.params[adapter.up]
    if isinstance(node.op, Embedding):
        return {f"{adapter.module}.lora_embedding_A": down.T, f"{adapter.module}.lora_embedding_B": up}
    assert isinstance(node.op, Linear) or down.ndim > 2
    return {f"{adapter.module}.lora_A.weight": down, f"{adapter.module}.lora_B.weight": up}


def _taken(weights: Mapping[str, np.ndarray], name: str, shape: tuple[int, ...], file: Path) -> np.ndarray:
    if name not in weights or weights[name].shape != shape:
        found = weights[name].shape if name in weights else "nothing"
        raise RequestError(f"{file} has {found} as {name}; expected values of shape {shape}")
    return np.asarray(weights[name], np.float32)


def _config(file: Path) -> dict[str, Any]:
    """Return peft's configuration. Raises RequestError for a file that is missing, or that says what is not read."""
    try:
        config = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise RequestError(f"{file}: {error}; expected the configuration of an adapter") from None
    for name, values in WITHOUT.items():
        if isinstance(config, dict) and config.get(name, values[0]) not in values:
            raise RequestError(f"{file}: {name}={config[name]!r}; expected {name}={values[0]!r}")
    if not isinstance(config, dict) or not {"r", "lora_alpha"} <= config.keys():
        raise RequestError(f"{file} has no r and lora_alpha; expected the configuration of LoRA")
    return config
