"""A model in a directory of Hugging Face: config.json and weights. Nothing is downloaded, and no code of it is run."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from edgefl.errors import GraphError

HEADS = ("ForImageClassification", "ForSequenceClassification", "ForCausalLM", "LMHeadModel", "ForMaskedLM")


def model_in(directory: str) -> nn.Module:
    """Return the model of a directory, whose forward takes one tensor and returns logits.

    Its parameters keep their names. Token models keep no cache.
    Raises  GraphError without transformers, for a directory without config.json, and for a model without logits
    """
    try:
        import transformers
    except ModuleNotFoundError:
        raise GraphError(
            f"{directory} is a directory of Hugging Face, and transformers is not installed; expected "
            "pip install 'edgefl[transformers]'"
        ) from None
    try:
        config = transformers.AutoConfig.from_pretrained(directory, local_files_only=True)
    except (OSError, ValueError) as error:
        told = str(error).splitlines()[0][:200]
        raise GraphError(f"{directory}: {told}; expected a directory that save_pretrained wrote") from None
    name = next(iter(config.architectures or []), "")
    if not name.endswith(HEADS) or not hasattr(transformers, name):
        raise GraphError(f"{directory} holds {name or 'no architecture'}; expected one that ends in {', '.join(HEADS)}")
    config.use_cache = False
    found: nn.Module = getattr(transformers, name).from_pretrained(directory, config=config, local_files_only=True)
    found.__class__ = _with_logits(type(found))
    return found


def _with_logits(kind: type[nn.Module]) -> type[nn.Module]:
    """Return the class with a forward from its main input to its logits. Names of parameters stay."""

    class WithLogits(kind):  # type: ignore[misc, valid-type]
        def forward(self, x: Tensor) -> Tensor:
            output: Any = super().forward(**{self.main_input_name: x}, return_dict=True)
            logits: Tensor = output.logits
            return logits

    WithLogits.__name__ = kind.__name__
    return WithLogits
