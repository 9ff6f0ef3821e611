"""The valid requests for a search of the coordinates with the largest gradients. No search runs here.

The key of the order is (-|g|, flat index), so among equal magnitudes the lower index is taken.

Source  ALGORITHMS 8, "Grow"
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from edgefl.errors import SelectionError
from edgefl.learning.lowering.active_ids import Growth
from edgefl.models.neurons.mask import Bits, Mask
from edgefl.models.neurons.model_spec import ModelSpec


def check_counts(spec: ModelSpec, outside: Mask, counts: Mapping[str, int]) -> None:
    """Raise SelectionError for a name that is not a learned parameter, or a count above the number of coordinates
    outside.
    """
    for name, count in counts.items():
        if name not in spec.params or spec.params[name].kind != "learn":
            raise SelectionError(f"coordinates of {name!r} to grow; expected learned parameters")
        bits = outside.bits.get(name)
        candidates = 0 if bits is None else bits.size - int(np.count_nonzero(bits))
        if not 0 <= count <= candidates:
            raise SelectionError(
                f"{count} coordinates of {name!r} to grow; expected 0 to {candidates}, the coordinates outside the mask"
            )


def growth_of(exists: Bits, count: int) -> Growth:
    """Return the search for `count` coordinates in addition to the coordinates that exist."""
    return Growth(count, np.packbits(exists.reshape(-1), bitorder="little"))
