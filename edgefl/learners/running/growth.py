"""Which coordinates of a parameter have the largest gradients. Values in, positions out; no gradient is computed here.

Source: ALGORITHMS 8, "Grow": key (-|g|, flat index), so that of equal magnitudes the lower index is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgefl.errors import SelectionError
from edgefl.neurons.mask import Mask
from edgefl.neurons.spec import ModelSpec


def check_counts(spec: ModelSpec, outside: Mask, counts: Mapping[str, int]) -> None:
    """Raises SelectionError for a name that is no learned parameter, or a count that exceeds what is outside."""
    for name, count in counts.items():
        if name not in spec.params or spec.params[name].kind != "learn":
            raise SelectionError(f"coordinates of {name!r} to grow; expected parameters that are learned")
        bits = outside.bits.get(name)
        candidates = 0 if bits is None else bits.size - int(np.count_nonzero(bits))
        if not 0 <= count <= candidates:
            raise SelectionError(f"{count} coordinates of {name!r} to grow; expected 0 to {candidates}, those outside")


def largest(gradient: NDArray[Any], candidates: NDArray[np.bool_], count: int) -> NDArray[np.uint32]:
    """The `count` candidates with the largest |gradient|, sorted; NaN counts as infinite."""
    ids = np.flatnonzero(candidates)
    magnitudes = np.abs(gradient.reshape(-1)[ids])
    magnitudes[np.isnan(magnitudes)] = np.inf
    best = np.lexsort((ids, -magnitudes))[:count]
    return np.sort(ids[best]).astype(np.uint32)
