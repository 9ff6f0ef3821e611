"""Properties of a torch module that the trace does not show: hooks, parametrizations, a mode, and unused parameters.

Each property is refused, named in a warning, or kept for export.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from edgefl.errors import GraphError
from edgefl.models.graph import Model, Params
from edgefl.torch.graph_module import to_torch
from edgefl.torch.module_table import MODULES
from edgefl.torch.sequence_table import SEQUENCES

DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d)
MOST_NAMES = 6  # names that one sentence lists
REMEDIES = {  # by class that computes a weight: the call of torch that makes it a plain parameter again
    "WeightNorm": "torch.nn.utils.remove_weight_norm(module, {name!r})",
    "SpectralNorm": "torch.nn.utils.remove_spectral_norm(module, {name!r})",
}
PRUNING = "torch.nn.utils.prune.remove(module, {name!r})"


def check_wishes(module: nn.Module) -> None:
    """Raise GraphError for properties that would change the training and cannot be represented in a Graph.

    These are computed weights and gradient hooks.
    """
    for name, part in module.named_modules():
        where = f"module {name!r} ({type(part).__name__})" if name else type(part).__name__
        for weight, how, remedy in _computed_weights(part):
            if how.split(", ") == ["WeightNorm"]:
                continue  # a graph computes it (models/graph/computed_parameters.py)
            raise GraphError(
                f"{where}: {weight} is computed by {how}, and training would change only the result; "
                f"expected a plain parameter: {remedy} keeps the present values"
            )
        if part._backward_hooks or part._backward_pre_hooks:
            raise GraphError(f"{where}: a backward hook, which may change gradients; expected no hook: remove it first")
    for name, parameter in module.named_parameters():
        if parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None):
            raise GraphError(f"parameter {name!r}: a gradient hook; expected no hook: remove it first")


def check_inputs(module: nn.Module) -> None:
    """Raise GraphError if forward needs more than one input. Arguments with a default keep the default."""
    needed = [
        name
        for name, found in inspect.signature(module.forward).parameters.items()
        if found.default is found.empty and found.kind in (found.POSITIONAL_ONLY, found.POSITIONAL_OR_KEYWORD)
    ]
    if len(needed) > 1:
        raise GraphError(
            f"forward of {type(module).__name__} takes {', '.join(needed)}; expected one input: a model has one tensor "
            "of samples, and other arguments of forward need defaults"
        )


def _computed_weights(part: nn.Module) -> Iterator[tuple[str, str, str]]:
    """Yield the weights that torch computes: their name, what computes them, and how to remove the computation."""
    if parametrize.is_parametrized(part):
        for name, found in part.parametrizations.items():  # type: ignore[operator,union-attr]
            kinds = ", ".join(type(each).__name__.lstrip("_") for each in found)
            yield name, kinds, f"torch.nn.utils.parametrize.remove_parametrizations(module, {name!r})"
    for hook in part._forward_pre_hooks.values():
        if type(hook).__module__.startswith("torch.nn.utils"):
            name = str(getattr(hook, "name", None) or getattr(hook, "_tensor_name", "weight"))
            yield name, type(hook).__name__, REMEDIES.get(type(hook).__name__, PRUNING).format(name=name)


def unheard_hooks(module: nn.Module) -> list[str]:
    """Return the forward hooks that a trace does not show, on single layers and on the whole module, in words."""
    return [
        f"forward hooks of {repr(name) if name else 'the module itself'} ({type(part).__name__})"
        for name, part in module.named_modules()
        if (part._forward_hooks or part._forward_pre_hooks) and (not name or type(part) in (*MODULES, *SEQUENCES))
    ]


def unused_values(module: nn.Module, model: Model) -> Params:
    """Return the entries of the module's state_dict that are not parameters of the graph, by name."""
    used = to_torch(model).state_dict().keys()
    state = {name: value for name, value in module.state_dict().items() if isinstance(value, Tensor)}
    return {name: _as_array(value) for name, value in state.items() if name not in used}


def _as_array(value: Tensor) -> np.ndarray:
    plain = value.detach().cpu()
    plain = plain.float() if plain.dtype == torch.bfloat16 else plain  # a module that loads it casts it back
    return np.array(plain.numpy(), order="C")


def say_unheard(module: nn.Module, model: Model, lost_hooks: list[str]) -> None:
    """Warn of each property that is not followed: hooks, parameters that no operation uses, and evaluation mode."""
    for hooks in lost_hooks:
        warnings.warn(f"{hooks} are not run in training", stacklevel=4)
    if idle := [name for name, _ in module.named_parameters() if name in model.unused]:
        more = f" and {len(idle) - MOST_NAMES} more" if len(idle) > MOST_NAMES else ""
        names = ", ".join(idle[:MOST_NAMES]) + more
        warnings.warn(f"forward does not use {names}: neither trained nor sent, and kept for .pt files", stacklevel=4)
    dropping = [name for name, part in module.named_modules() if isinstance(part, DROPOUTS) and part.p]
    if dropping and not module.training:
        layer = f"Dropout {dropping[0]!r}"
        warnings.warn(
            f"the whole module is in evaluation mode, and edgefl trains it in training mode, in which {layer} is at "
            "work; a layer that alone is in evaluation mode stays in it",
            stacklevel=4,
        )
