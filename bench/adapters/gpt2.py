"""GPT-2 124M with random weights and adapters of rank 8 on its attention, for both sides."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from edgefl.learning import Samples
from edgefl.learning.losses import CrossEntropy
from edgefl.models import add_adapters
from edgefl.models.graph import Model, model_files

LENGTH, BATCH, RANK, WORDS, TARGET = 64, 4, 8, 50257, "c_attn"
WIDTH, LAYERS = 768, 12


def module() -> Any:
    """Return transformers' GPT-2, without dropout."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    ends = {"bos_token_id": None, "eos_token_id": None}
    config = GPT2Config(**ends, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, n_positions=LENGTH, use_cache=False)
    return GPT2LMHeadModel(config)


def with_peft(base: Any) -> Any:
    """Return the module with peft's adapters, ready to train."""
    from peft import LoraConfig, get_peft_model

    settings = LoraConfig(r=RANK, target_modules=[TARGET], lora_alpha=2 * RANK, fan_in_fan_out=True)
    return get_peft_model(base, settings).train()


def model_file(folder: Path) -> Path:
    """Return the file of the model with adapters, which is converted once: that takes a minute."""
    file = folder / "gpt2-adapters.safetensors"
    if not file.exists():
        import torch

        from edgefl.torch import from_torch

        ids = torch.zeros(BATCH, LENGTH, dtype=torch.long)
        base = from_torch(module().eval(), ids, output="logits")
        assert base.graph.nodes[-1].op.__class__.__name__ == "Permute"  # to torch's order, which the loss does not need
        base = base._replace(graph=replace(base.graph, nodes=base.graph.nodes[:-1]))
        model_files.save(file, add_adapters(base, rank=RANK, targets=TARGET))
    return file


def model(folder: Path) -> Model:
    """Return the model with adapters."""
    return model_files.load(model_file(folder))


def samples() -> Samples:
    """Return one batch of random ids, with a label at every place."""
    chance = np.random.default_rng(0)
    x, y = (chance.integers(0, WORDS, (BATCH, LENGTH)) for _ in range(2))
    return Samples(x.astype(np.float32), y.astype(np.int32), loss=CrossEntropy())
