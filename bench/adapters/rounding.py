"""Weights rounded to so few bits that a comparison has to see it. The library has no such precision."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgefl.models import quantize_frozen
from edgefl.models.graph import Model


def rounded(model: Model, bits: int) -> Model:
    """Return the model in float32, with the weights that `quantize_frozen` would round rounded to `bits` bits.

    A row of a weight gets 2^bits - 1 equally spaced values, and the largest is the row's largest magnitude.
    """
    names = [each.name for each in quantize_frozen(model, "int8").graph.quantized]
    return model._replace(params={**model.params, **{name: _rounded(model.params[name], bits) for name in names}})


def _rounded(values: NDArray[np.float32], bits: int) -> NDArray[np.float32]:
    table = values.reshape(len(values), -1)
    step = np.abs(table).max(axis=1, keepdims=True) / (2 ** (bits - 1) - 1)
    step = np.where(step > 0, step, 1)
    return (np.rint(table / step) * step).astype(np.float32).reshape(values.shape)
