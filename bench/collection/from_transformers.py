"""Models of transformers in small configurations, each in a wrapper whose forward takes one tensor and gives logits.

The wrapper passes no cache. A language model gives logits at every position.
"""

from __future__ import annotations

import importlib
from typing import Any

from torch import Tensor, nn

from bench.collection import from_torchvision
from bench.collection.entry import Entry, ids, image, values

VOCABULARY, LENGTH = 97, 12
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
TEXT = {"vocab_size": VOCABULARY, "max_position_embeddings": 32}
LM = {**SMALL, **TEXT, "num_key_value_heads": 2, "use_cache": False, "pad_token_id": None}


def _library() -> Any:
    from_torchvision.models()  # transformers imports torchvision where it is installed
    return importlib.import_module("transformers")


class Logits(nn.Module):
    """A model of transformers as a function of one tensor, named `argument` in the model's forward."""

    def __init__(self, model: nn.Module, argument: str, options: dict[str, Any]) -> None:
        super().__init__()
        self.model, self.argument, self.options = model, argument, options

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.model(**{self.argument: x}, **self.options).logits
        return result


class Pooled(nn.Module):
    """An encoder, the mean of its last states over time, and a Linear head."""

    def __init__(self, encoder: nn.Module, argument: str, width: int) -> None:
        super().__init__()
        self.encoder, self.argument, self.head = encoder, argument, nn.Linear(width, 5)

    def forward(self, x: Tensor) -> Tensor:
        states: Tensor = self.encoder(**{self.argument: x}).last_hidden_state
        result: Tensor = self.head(states.mean(1))
        return result


def _model(model: str, config: str, argument: str, settings: dict[str, Any], **options: Any) -> Entry:
    """Return an entry of a model with logits. `options` has `inputs`, and what forward takes beside its input."""
    name, inputs = options.pop("name"), options.pop("inputs")
    classes = options.pop("classes", 1)

    def make() -> nn.Module:
        library = _library()
        return Logits(getattr(library, model)(getattr(library, config)(**settings)), argument, options)

    return Entry(f"transformers/{name}", make, inputs, classes=classes)


def _encoder(name: str, model: str, config: str, argument: str, settings: dict[str, Any], inputs: Any) -> Entry:
    def make() -> nn.Module:
        library = _library()
        found = importlib.import_module(f"transformers.models.{name}.modeling_{name}")
        return Pooled(getattr(found, model)(getattr(library, config)(**settings)), argument, 32)

    return Entry(f"transformers/{name}", make, inputs)


LANGUAGE = {"inputs": ids(LENGTH, VOCABULARY), "use_cache": False, "classes": 2}
IMAGES = {"argument": "pixel_values", "inputs": image(32)}
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": VOCABULARY, "n_positions": 32, "use_cache": False}
DISTIL = {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "num_labels": 5, **TEXT}
GEMMA = {**LM, "head_dim": 8, "sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]}
VIT = {**SMALL, "image_size": 32, "patch_size": 8, "num_labels": 5}
RESNET = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic", "num_labels": 5}
MOBILEVIT = {
    "hidden_sizes": [16, 24, 32], "neck_hidden_sizes": [8, 12, 16, 16, 24, 32, 40], "num_attention_heads": 4,
    "image_size": 64, "num_labels": 5,
}  # fmt: skip
T5 = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "vocab_size": VOCABULARY}
SPEECH = {
    **SMALL, "conv_dim": (16, 16), "conv_kernel": (10, 3), "conv_stride": (5, 2), "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2, "layerdrop": 0.0, "apply_spec_augment": False,
    "feat_extract_norm": "layer", "classifier_proj_size": 16, "num_labels": 5,
}  # fmt: skip
WHISPER = {
    "d_model": 32, "encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 64, "num_mel_bins": 16,
    "max_source_positions": 16, "vocab_size": VOCABULARY, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 1,
}  # fmt: skip

ENTRIES = (
    _model(
        "BertForSequenceClassification", "BertConfig", "input_ids", {**SMALL, **TEXT, "num_labels": 5},
        name="bert", inputs=ids(LENGTH, VOCABULARY),
    ),
    _model(
        "DistilBertForSequenceClassification", "DistilBertConfig", "input_ids", DISTIL,
        name="distilbert", inputs=ids(LENGTH, VOCABULARY),
    ),
    _model("GPT2LMHeadModel", "GPT2Config", "input_ids", GPT2, name="gpt2", **LANGUAGE),
    _model("LlamaForCausalLM", "LlamaConfig", "input_ids", LM, name="llama", **LANGUAGE),
    _model("Qwen2ForCausalLM", "Qwen2Config", "input_ids", LM, name="qwen2", **LANGUAGE),
    _model("Gemma3ForCausalLM", "Gemma3TextConfig", "input_ids", GEMMA, name="gemma3", **LANGUAGE),
    _model("ViTForImageClassification", "ViTConfig", settings=VIT, name="vit", **IMAGES),
    _model("ResNetForImageClassification", "ResNetConfig", settings=RESNET, name="resnet", **IMAGES),
    _model(
        "MobileViTForImageClassification", "MobileViTConfig", settings=MOBILEVIT, name="mobilevit",
        **{**IMAGES, "inputs": image(64)},
    ),
    _model(
        "Wav2Vec2ForSequenceClassification", "Wav2Vec2Config", "input_values", SPEECH,
        name="wav2vec2", inputs=values(320),
    ),
    _encoder("t5", "T5EncoderModel", "T5Config", "input_ids", T5, ids(LENGTH, VOCABULARY)),
    _encoder("whisper", "WhisperEncoder", "WhisperConfig", "input_features", WHISPER, values(16, 32)),
)  # fmt: skip
