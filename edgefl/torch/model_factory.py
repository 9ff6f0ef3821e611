"""The model that a user's own code makes: a torch module, or a function that returns a torch module.

The command line finds the code.
"""

from __future__ import annotations

import torch
from torch import nn

from edgefl.errors import GraphError
from edgefl.models.graph import Model
from edgefl.models.graph.operations import Shape
from edgefl.torch.export_front_end import refusals
from edgefl.torch.exported_program import NotExportedError
from edgefl.torch.trace import from_torch

EXAMPLES = 2  # samples on which graph and module are compared


def made_by(factory: object, name: str, input_shape: Shape) -> Model:
    """Return the graph of the module that a factory makes, with the present weights.

    factory      an nn.Module, or a function without arguments that returns one
    name         name of the factory, for error messages
    input_shape  shape of one sample
    Raises       GraphError if the factory makes something else or a module that edgefl cannot take, and errors of the
                 function
    """
    made = module_by(factory, name)
    return from_torch(made, examples(made, input_shape))


def refusals_of(factory: object, name: str, input_shape: Shape) -> list[str]:
    """Return a sentence for each operation that edgefl cannot take, or no sentence for a module that is taken.

    The function has the arguments of `made_by`. If no operation is refused, but the module, the sentence says why.
    """
    made = module_by(factory, name)
    try:
        from_torch(made, examples(made, input_shape))
    except GraphError as error:
        found = refusals(made, examples(made, input_shape)) if not isinstance(error, NotExportedError) else []
        return [str(each) for each in found] or [str(error)]
    return []


def module_by(factory: object, name: str) -> nn.Module:
    """Return the module that a factory makes. Raises GraphError if it is not a module, and errors of the function."""
    made = factory if isinstance(factory, nn.Module) or not callable(factory) else factory()
    if not isinstance(made, nn.Module):
        raise GraphError(f"{name} returns {type(made).__name__}; expected a torch.nn.Module")
    return made


def examples(module: nn.Module, input_shape: Shape, count: int = EXAMPLES) -> torch.Tensor:
    """Return `count` samples of random numbers, or of ids if the module looks up rows of a table."""
    generator = torch.Generator().manual_seed(1)
    rows = [part.num_embeddings for part in module.modules() if isinstance(part, nn.Embedding)]
    if rows:
        return torch.randint(0, min(rows), (count, *input_shape), generator=generator)
    return torch.randn(count, *input_shape, generator=generator)
