"""The computed parameters of a graph in torch, where autograd follows them back to their sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from edgefl.models.graph import Graph
from edgefl.models.graph.computed_parameters import (
    ExchangedAxes,
    MatrixProduct,
    ParameterExpression,
    ParameterOperation,
    ParameterProduct,
    ParameterRows,
    ParameterSum,
    ReshapedParameter,
    RowsAtPlaces,
    ScaledParameter,
    StackedParameters,
    TransposedMatrix,
    WeightNorm,
)
from edgefl.torch.expression_module import Expression


def computed_tensors(graph: Graph, source: Callable[[str], Tensor]) -> dict[str, Tensor]:
    """Return the computed parameters of a graph by name. `source` returns a parameter by its name."""
    found: dict[str, Tensor] = {}
    for each in graph.computed:
        values = [found[name] if name in found else source(name) for name in each.sources]
        shaped = [value.reshape(shape) for value, shape in zip(values, each.op.sources, strict=True)]
        found[each.name] = _TABLE[type(each.op)](each.op, *shaped)
    return found


def _weight_norm(op: WeightNorm, g: Tensor, v: Tensor) -> Tensor:
    return g * (v / v.square().sum(tuple(range(1, v.dim())), keepdim=True).sqrt())


_TABLE: Mapping[type[ParameterOperation], Callable[..., Any]] = {
    WeightNorm: _weight_norm,
    MatrixProduct: lambda op, a, b: a @ b,
    ParameterSum: lambda op, a, b: a + b,
    ParameterProduct: lambda op, a, b: a * b,
    ScaledParameter: lambda op, a: a * op.factor,
    TransposedMatrix: lambda op, a: a.t(),
    ExchangedAxes: lambda op, a: a.transpose(1, 2),
    ReshapedParameter: lambda op, a: a.reshape(op.shape),
    ParameterRows: lambda op, a: a[op.start : op.start + op.length],
    RowsAtPlaces: lambda op, table, places: table[places.long()].t(),
    StackedParameters: lambda op, *parts: torch.cat(parts),
    ParameterExpression: lambda op, *parts: Expression(op)(*parts),
}
