"""The model that a user's own code makes: a torch module, or a function that returns a torch module. The command line
finds the code.
"""

from __future__ import annotations

import torch
from torch import nn

from edgefl.errors import GraphError
from edgefl.models.graph import Model
from edgefl.models.graph.operations import Shape
from edgefl.torch.trace import from_torch

EXAMPLES = 2  # that graph and module are compared on


def made_by(factory: object, name: str, input_shape: Shape) -> Model:
    """The graph of the module, and its present weights.

    factory      an nn.Module, or a function without arguments that gives one
    input_shape  of one example
    Raises       GraphError if it gives something else, or what edgefl cannot take; whatever the function raises
    """
    made = module_by(factory, name)
    return from_torch(made, examples(made, input_shape))


def module_by(factory: object, name: str) -> nn.Module:
    """The module itself. Raises GraphError if it is none; whatever the function raises."""
    made = factory if isinstance(factory, nn.Module) or not callable(factory) else factory()
    if not isinstance(made, nn.Module):
        raise GraphError(f"{name} gives {type(made).__name__}; expected a torch.nn.Module")
    return made


def examples(module: nn.Module, input_shape: Shape, count: int = EXAMPLES) -> torch.Tensor:
    """Random numbers, or ids where the module looks up rows of a table."""
    generator = torch.Generator().manual_seed(1)
    rows = [part.num_embeddings for part in module.modules() if isinstance(part, nn.Embedding)]
    if rows:
        return torch.randint(0, min(rows), (count, *input_shape), generator=generator)
    return torch.randn(count, *input_shape, generator=generator)
