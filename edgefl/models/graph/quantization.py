"""Models whose frozen weights are held in bfloat16 or in int8, as a base under adapters may be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from edgefl.errors import GraphError
from edgefl.models.graph.computed_parameters import TransposedMatrix
from edgefl.models.graph.graph import Graph, Model, Params
from edgefl.models.graph.quantized_array import PRECISIONS, Precision, QuantizedArray, quantize
from edgefl.models.graph.quantized_parameters import QuantizedParameter
from edgefl.models.graph.shared_parameters import other_names

LEAST = 1 << 10  # values of a parameter from which fewer bits are worth it


def quantize_frozen(model: Model, precision: Precision) -> Model:
    """Return the model with its frozen weights rounded to a precision, in which they are held, sent and stored.

    Every frozen parameter of two axes or more with at least 1,024 values is quantized. Constants, biases and norms stay
    float32, as do all trained parameters. int8 has a scale for each output channel, which is the first axis, or the
    second axis where the model reads the parameter transposed. Arithmetic stays float32.

    A second name of a tied weight is not kept for .pt files.

    precision  "bfloat16" (half of float32's bytes) or "int8" (a quarter)
    Raises     GraphError if no parameter is frozen or if a weight is not finite, ValueError for another precision
    """
    if precision not in PRECISIONS:
        raise ValueError(f"precision={precision!r}; expected one of {PRECISIONS}")
    graph, turned = model.graph, _turned(model.graph)
    large = [
        name
        for name, info in graph.parameters().items()
        if info.kind == "frozen" and name not in graph.constants and len(info.shape) > 1
        if np.prod(info.shape) >= LEAST
    ]
    if not large:
        raise GraphError(
            f"no frozen weight of {LEAST} values or more; expected a model with adapters (`edgefl lora`), or other "
            "frozen parameters"
        )
    params, found = dict(model.params), list[QuantizedParameter]()
    for name in sorted(large):
        axis = int(precision == "int8" and name in turned)
        try:
            params[name] = quantize(np.asarray(params[name]), precision, axis)  # type: ignore[assignment]
        except ValueError as error:
            raise GraphError(f"{name}: {error}") from None
        found.append(QuantizedParameter(name, precision, axis))
    unused = {name: value for name, value in model.unused.items() if not _is_second_name(model, name, large)}
    return model._replace(graph=replace(graph, quantized=tuple(found)), params=params, unused=unused)


def quantize_model(model: Model, precision: Precision = "int8") -> Model:
    """Return a model that evaluates and predicts with its weights rounded to a precision, and is not trained.

    Every parameter is frozen, and then weights are rounded as `quantize_frozen` does.

    Raises  GraphError if no weight has 1,024 values or if a weight is not finite, ValueError for another precision
    """
    graph = replace(model.graph, frozen=frozenset(model.graph.parameters()), slices=())
    return quantize_frozen(model._replace(graph=graph), precision)


def requantized(graph: Graph, params: Mapping[str, np.ndarray]) -> Params:
    """Return the parameters as a graph holds them: float32 values of its quantized parameters have codes again.

    params  parameters of the graph. Values that were quantized before keep their bits
    """
    found = {name: params[name] for name in graph.parameters()}
    for each in graph.quantized:
        value = found[each.name]
        if not isinstance(value, QuantizedArray):
            found[each.name] = quantize(value, each.precision, each.axis)  # type: ignore[assignment]
    return found


def _is_second_name(model: Model, name: str, quantized: list[str]) -> bool:
    """Return whether an unused value is a quantized parameter under another name, as a tied weight has."""
    if other_names(model.graph.nodes).get(name) in quantized:
        return True
    value = model.unused[name]
    return any(
        value is model.params[each]
        or (value.shape == model.params[each].shape and np.array_equal(value, model.params[each]))
        for each in quantized
    )


def dequantize(model: Model) -> Model:
    """Return the model with every parameter in float32. The values stay."""
    params = {name: np.asarray(value) for name, value in model.params.items()}
    return model._replace(graph=replace(model.graph, quantized=()), params=params)


def _turned(graph: Graph) -> set[str]:
    """Return the parameters that are read through a transpose alone."""
    turned = {each.sources[0] for each in graph.computed if isinstance(each.op, TransposedMatrix)}
    others = {source for each in graph.computed if not isinstance(each.op, TransposedMatrix) for source in each.sources}
    direct = {node.full_name(part) for node in graph.nodes for part in node.op.parameters()}
    return turned - others - direct
