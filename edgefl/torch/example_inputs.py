"""The example of a conversion: one tensor, or several inputs of forward, which a graph reads packed into one input."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from edgefl.errors import GraphError
from edgefl.learning.packed_inputs import pack_inputs
from edgefl.models.graph.operations import InputPart, Shape

Example = Tensor | Sequence[Tensor] | Mapping[str, Tensor]


class Inputs(NamedTuple):
    """The inputs of a module's forward for one batch.

    tensors   one tensor for each input, in order
    names     names of the arguments of forward
    keywords  whether forward gets the tensors by these names
    packed    whether the graph has one input with all tensors side by side. Otherwise there is one tensor
    """

    tensors: tuple[Tensor, ...]
    names: tuple[str, ...]
    keywords: bool = False
    packed: bool = False

    @property
    def parts(self) -> tuple[InputPart, ...]:
        """Return the part of the graph's input that each tensor is. One tensor alone is no part."""
        found: list[InputPart] = []
        for each in self.tensors if self.packed else ():
            found.append(InputPart(found[-1].stop if found else 0, tuple(each.shape[1:]) or (1,)))
        return tuple(found)

    @property
    def shape(self) -> Shape:
        """Return the shape of the graph's input."""
        return (self.parts[-1].stop,) if self.packed else tuple(self.tensors[0].shape[1:])

    def samples(self) -> Tensor:
        """Return the batch as the graph reads it, float32."""
        if self.packed:
            return torch.from_numpy(pack_inputs([each.detach().cpu().numpy() for each in self.tensors]))
        return self.tensors[0].detach().cpu().to(torch.float32, copy=True)

    def given_to(self, module: nn.Module) -> Any:
        """Return the module's output for copies of the tensors."""
        copies = [each.clone() for each in self.tensors]
        return module(**dict(zip(self.names, copies, strict=True))) if self.keywords else module(*copies)


def inputs_of(module: nn.Module, example: Example) -> Inputs:
    """Return the inputs that an example stands for. Raises GraphError for an example that forward cannot take."""
    if isinstance(example, Tensor):
        return Inputs((_checked(example, "example_input", 2),), ("x",))
    if not isinstance(example, tuple | list | Mapping) or not example:
        raise GraphError(f"example_input is {type(example).__name__}; expected a torch.Tensor, a batch of inputs")
    keywords = isinstance(example, Mapping)
    tensors = tuple(example.values() if isinstance(example, Mapping) else example)
    names = tuple(map(str, example)) if isinstance(example, Mapping) else _argument_names(module, len(tensors))
    for name, each in zip(names, tensors, strict=True):
        if not isinstance(each, Tensor):
            raise GraphError(f"example_input: {name} is {type(each).__name__}; expected a torch.Tensor")
        _checked(each, f"example_input: {name}", 1)
    if len({len(each) for each in tensors}) > 1:
        shapes = ", ".join(f"{name} {tuple(each.shape)}" for name, each in zip(names, tensors, strict=True))
        raise GraphError(f"example_input: {shapes}; expected one batch size for all inputs")
    if deep := [name for name, each in zip(names, tensors, strict=True) if each.dim() > 4]:
        raise GraphError(f"example_input: {deep[0]} has more than 4 axes; expected the batch and at most 3 axes")
    found = Inputs(tensors, names, keywords, len(tensors) > 1 or keywords)
    try:
        arguments = ((), dict.fromkeys(names)) if keywords else (tensors, {})
        inspect.signature(module.forward).bind(*arguments[0], **arguments[1])
    except TypeError as error:
        raise GraphError(f"forward of {type(module).__name__} with the inputs {', '.join(names)}: {error}") from None
    return found


def _checked(tensor: Tensor, what: str, axes: int) -> Tensor:
    if tensor.dtype not in (torch.float32, torch.int64) or tensor.dim() < axes:
        found = f"{tensor.dtype} of {tensor.dim()} axes"
        raise GraphError(f"{what}: {found}; expected float32 batches, or ids in int64")
    return tensor


def _argument_names(module: nn.Module, count: int) -> tuple[str, ...]:
    """Return names for positional inputs: the names of the arguments of forward, or input_0, input_1, ..."""
    names = [each.name for each in inspect.signature(module.forward).parameters.values()
             if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]  # fmt: skip
    return tuple(names[at] if at < len(names) else f"input_{at}" for at in range(count))


def node_name(name: str) -> str:
    """Return a name for the node of an input, which is not the name of the graph's input itself."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return f"{plain}_part" if plain == "input" else plain


def check_ids(inputs: Inputs, ids: Sequence[tuple[int, int, int]]) -> None:
    """Raise GraphError if the example has values that are not ids where the graph looks up rows of tables.

    ids  first value, value after the last, and number of rows of each part of the flattened input
    """
    flat = inputs.samples().double().numpy().reshape(len(inputs.tensors[0]), -1)
    for start, stop, rows in ids:
        found = flat[:, start:stop]
        if (found != np.floor(found)).any() or found.min() < 0 or found.max() >= rows:
            told = f"from {found.min():g} to {found.max():g}"
            raise GraphError(f"example_input {told}; expected ids, whole numbers from 0 to {rows - 1}")
