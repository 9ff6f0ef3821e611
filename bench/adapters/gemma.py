"""A model of Gemma 3 270M's shape with random weights, and adapters of rank 8 on its attention."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

from edgefl.models import add_adapters
from edgefl.models.graph import model_files

LENGTH, RANK, WORDS, TARGETS = 64, 8, 262144, "q_proj,v_proj"
KINDS = (*("sliding_attention",) * 5, "full_attention") * 3


def model_file(folder: Path) -> Path:
    """Return the file of the model with adapters, which is converted once: that takes some minutes."""
    file = folder / "gemma3-270m-adapters.safetensors"
    if file.exists():
        return file
    import torch
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    from edgefl.torch import from_torch

    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    sizes = {"hidden_size": 640, "intermediate_size": 2048, "num_hidden_layers": len(KINDS), "head_dim": 256}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 1, "query_pre_attn_scalar": 256, "sliding_window": 512}
    rest = {"max_position_embeddings": LENGTH, "layer_types": list(KINDS), "use_cache": False}
    module = Gemma3ForCausalLM(Gemma3TextConfig(vocab_size=WORDS, **sizes, **heads, **rest)).eval()
    base = from_torch(module, torch.zeros(4, LENGTH, dtype=torch.long), output="logits")
    nodes = base.graph.nodes
    nodes = nodes[:-1] if nodes[-1].op.title == "Permute" else nodes  # to torch's order, which the loss does not need
    model_files.save(file, add_adapters(base._replace(graph=replace(base.graph, nodes=nodes)), RANK, targets=TARGETS))
    return file
