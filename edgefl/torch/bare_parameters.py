"""Parameters that a module's forward uses outside a layer, such as learned positions.

This module gives the operation that adds or multiplies such a parameter. graph_converter.py walks the trace, and
module_table.py reads parameters within layers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from edgefl.errors import GraphError
from edgefl.models.graph.operations import WithParameter
from edgefl.torch.axis_order import BATCH, Value

VIEWING = frozenset(
    ("view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "permute", "transpose", "swapaxes", "movedim",
     "contiguous", "expand", "to", "type_as", "float")
)  # fmt: skip
"""The names of the methods that leave a tensor's values as they are."""


def viewed(method: str, tensor: Tensor, *args: Any, **settings: Any) -> Tensor:
    """Return the result of a method on a known tensor.

    Raises  GraphError if the method does more than view the tensor in another way.
    """
    if method not in VIEWING:
        raise GraphError("of a parameter or buffer used outside its module; edgefl has no operation for it")
    whole = [-1 if argument == BATCH and method == "expand" else argument for argument in args]
    found: Tensor = getattr(tensor, method)(*whole, **settings)
    return found


def positions(embedding: nn.Embedding, ids: Tensor) -> Tensor:
    """Return the rows of a table that is looked up at the constant ids 0, 1, 2, ...: the whole table.

    Raises  GraphError if the ids are not all rows in order.
    """
    rows = torch.arange(embedding.num_embeddings)
    if ids.shape[-1:] != rows.shape or not torch.equal(ids, rows.expand(ids.shape)):
        raise GraphError(f"rows {ids.flatten().tolist()[:8]}...; expected all {embedding.num_embeddings}, in order")
    return embedding.weight.detach().view(*ids.shape, embedding.embedding_dim)


def combined(kind: Callable[..., WithParameter], parameter: Tensor, seen: Tensor, value: Value) -> WithParameter:
    """Return the operation that combines a parameter with a value.

    kind    AddParameter or MulParameter
    seen    the view of the parameter that forward broadcasts over the value
    Raises  GraphError unless the parameter has a value for each channel, or for each value of a sample.
    """
    shape = tuple(parameter.shape)
    ones = next((at for at, size in enumerate(shape) if size > 1), len(shape) - 1)
    order = _order(parameter, seen, value)
    places = [axis for axis, size in enumerate(value.shape, start=1) if size > 1]
    is_last = len(order) > 1 and order[-1] == 1
    if order not in ([1], [], places, [*places[1:], 1]):
        found = f"a parameter of shape {shape} with a result of {_shown(value)}"
        raise GraphError(f"{found}; expected a value for each channel, or for each value of an example")
    return kind(shape[ones:], is_last, ones)


def _order(parameter: Tensor, seen: Tensor, value: Value) -> list[int]:
    """Return the value's graph axis for each axis of the parameter that is longer than 1."""
    axes = dict(zip(range(-1, -len(value.axes) - 1, -1), value.axes[::-1], strict=True))
    at: dict[int, int] = {}
    for dim in range(-1, -seen.dim() - 1, -1):
        size, stride = seen.shape[dim], seen.stride(dim)
        if size == 1:
            continue
        if dim not in axes or value.extents[dim] != size:
            found = f"a parameter seen as {tuple(seen.shape)} with a result of {_shown(value)}"
            raise GraphError(f"{found}; expected equal extents, or 1")
        at[_axis_of(parameter, size, stride)] = axes[dim]
    return [at[axis] for axis, size in enumerate(parameter.shape) if size > 1]


def _axis_of(parameter: Tensor, size: int, stride: int) -> int:
    for axis, (own, step) in enumerate(zip(parameter.shape, parameter.stride(), strict=True)):
        if (own, step) == (size, stride):
            return axis
    raise GraphError(f"a parameter of shape {tuple(parameter.shape)} inside another parameter; expected its own axes")


def _shown(value: Value) -> str:
    return f"[{', '.join('batch' if extent == BATCH else str(extent) for extent in value.extents)}]"
