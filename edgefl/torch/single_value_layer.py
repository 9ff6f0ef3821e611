"""The search for a layer that normalises over single values, in a torch module without a graph.

One pass without training shows the layer. For a graph its shapes show it: edgefl/models/graph/single_value_norm.py.
"""

from __future__ import annotations

import numpy as np
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from edgefl.learning.learner import Samples
from edgefl.torch.passes import Passes


def single_value_layer(module: nn.Module, passes: Passes, samples: Samples) -> str:
    """Return the name of the first batch normalisation that sees one value per channel in a sample, or ""."""
    layers = {part: name for name, part in module.named_modules() if isinstance(part, _BatchNorm)}
    if not layers or not len(samples):
        return ""
    found: list[str] = []

    def look(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if inputs[0].numel() == inputs[0].shape[1]:  # the pass has one sample
            found.append(layers[layer])  # type: ignore[index]

    hooks = [layer.register_forward_pre_hook(look) for layer in layers]
    try:
        with passes.predicting():
            module(passes.inputs(samples, np.zeros(1, np.int32)))
    finally:
        for hook in hooks:
            hook.remove()
    return found[0] if found else ""
