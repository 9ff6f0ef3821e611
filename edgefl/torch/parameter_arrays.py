"""The parameters of a torch module as arrays, by the names of a specification. Nothing is computed with them here."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from edgefl.errors import GraphError
from edgefl.models.graph.operations import Shape
from edgefl.models.neurons.block_index import read_only
from edgefl.models.neurons.gather import parameter
from edgefl.models.neurons.model_spec import ModelSpec

Array = NDArray[Any]


class ModuleParameters(Mapping[str, Array]):
    """The parameters of a module that a specification lists, as arrays with the specification's shapes.

    The arrays are views if the module is in this process's memory. Otherwise they are copies, which `store` brings
    back.
    tensors  the module's own parameters and buffers, by name
    Raises   GraphError that names a parameter that the module does not have, or has in another shape.
    """

    def __init__(self, module: nn.Module, spec: ModelSpec) -> None:
        found = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        for name, param in spec.params.items():
            if name not in found:
                raise GraphError(
                    f"{type(module).__name__} has no {name!r}; expected one of {', '.join(found) or 'none'}"
                )
            if _long(found[name].shape) != _long(param.shape):
                raise GraphError(f"{name!r} of shape {tuple(found[name].shape)}; expected {param.shape}")
            if param.kind == "learn" and not isinstance(found[name], nn.Parameter):
                raise GraphError(f"{name!r} is a buffer; expected a parameter, as it is learned")
        self.shapes = {name: param.shape for name, param in spec.params.items()}
        self.tensors: dict[str, Tensor] = {name: found[name] for name in spec.params}
        for tensor in self.tensors.values():
            tensor.data = tensor.data.contiguous()

    def __getitem__(self, name: str) -> Array:
        array: Array = self.tensors[name].detach().cpu().numpy().reshape(self.shapes[name])
        return array

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)

    def whole(self, name: str) -> Tensor:
        """Return a view of a parameter in the specification's shape, detached from autograd."""
        return self.tensors[name].detach().view(self.shapes[name])

    def read(self, names: Collection[str] | None = None) -> dict[str, Array]:
        """Return all or some parameters as read-only arrays. Raises ValueError for a name that is not a parameter."""
        return {name: read_only(parameter(self, name)) for name in (self if names is None else names)}

    def store(self, arrays: Mapping[str, Array]) -> None:
        """Bring arrays back that were taken from here and then written in place."""
        for name, array in arrays.items():
            if self.tensors[name].device.type != "cpu":
                self.set(name, array)

    def set(self, name: str, value: Array) -> None:
        """Set a whole parameter, cast to the module's type."""
        self.whole(name).copy_(torch.tensor(np.asarray(value)))

    @property
    def nbytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.tensors.values())


@contextmanager
def buffers_kept(module: nn.Module) -> Iterator[None]:
    """Give the module's buffers, such as running statistics, after the context the values that they had before it."""
    before = [(buffer, buffer.clone()) for buffer in module.buffers()]
    yield
    for buffer, value in before:
        buffer.copy_(value)


def _long(shape: Collection[int]) -> Shape:
    """Return the extents above 1, because an added parameter may have more axes in torch."""
    return tuple(extent for extent in shape if extent > 1)
