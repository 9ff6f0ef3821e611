"""The function `pack_inputs`: the inputs of a model with several inputs as one array of samples.

A graph has one input. A model that was converted from a module with several inputs reads each of them as neighbouring
values of this input (InputPart in models/graph/operations/packed.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgefl.errors import DataError
from edgefl.models.graph.operations.parameter import LARGEST_ID


def pack_inputs(inputs: Sequence[ArrayLike] | Mapping[str, ArrayLike]) -> NDArray[np.float32]:
    """Return the inputs of a model side by side, float32 [N, values]: the samples x of the converted model.

    inputs  arrays [N, ...] in the order of the example that `from_torch` got, or a dict of arrays in the order of
            the example. Ids are whole numbers, and an array [N] is one value of each sample
    Raises  DataError if the arrays differ in N, or if float32 cannot hold an id
    """
    arrays: list[NDArray[Any]] = [
        np.asarray(each) for each in (inputs.values() if isinstance(inputs, Mapping) else inputs)
    ]
    if not arrays or any(each.ndim < 1 or len(each) != len(arrays[0]) for each in arrays):
        raise DataError(f"inputs of shapes {[each.shape for each in arrays]}; expected arrays [N, ...] of one N")
    for position, each in enumerate(arrays):
        if each.dtype.kind in "iu" and each.size and each.max() > LARGEST_ID:
            raise DataError(f"id {each.max()} in input {position}; expected ids of at most {LARGEST_ID}")
    rows = [each.reshape(len(each), -1).astype(np.float32) for each in arrays]
    return np.ascontiguousarray(np.concatenate(rows, axis=1))
