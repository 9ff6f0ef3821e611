"""Restriction: a Mask as a learner keeps to it. Which coordinates exist, and what may be written. It trains nothing.

Source: FedSpa, w~ = m . w (ALGORITHMS 3).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgefl.errors import SelectionError
from edgefl.neurons.mask import Bits, Mask
from edgefl.neurons.spec import ModelSpec
from edgefl.neurons.update import Block, Flat, Update

Array = NDArray[Any]


class Restriction:
    """The mask that a learner's parameters keep to; without one, they are whole.

    Raises  SelectionError if the mask does not fit the model, or lists a running statistic.
    """

    def __init__(self, spec: ModelSpec, mask: Mask | None = None) -> None:
        self.mask = Mask.of(spec, mask.bits if mask else {})
        for name in self.mask.bits:
            if spec.params[name].kind != "learn":
                raise SelectionError(f"mask of {name!r}, a running statistic; expected parameters that are learned")

    def __bool__(self) -> bool:
        """Whether a parameter is not whole."""
        return bool(self.mask.bits)

    def check(self, update: Update) -> None:
        """Raises SelectionError naming the block that lists a coordinate outside; a whole parameter's lists none."""
        for name, block in update.blocks.items():
            bits = self.mask.bits.get(name)
            if bits is not None and block.index is not None and block.shape == bits.shape:
                outside = int(np.count_nonzero(~_listed(bits, block)))
                if outside:
                    raise SelectionError(f"block {name!r} with {outside} coordinates outside the mask; expected none")

    def clear(self, params: Mapping[str, Array], names: Collection[str] | None = None) -> None:
        """Set to 0.0 what does not exist of these parameters (None: all)."""
        for name, bits in self.mask.bits.items():
            if names is None or name in names:
                params[name][~bits] = 0.0


def _listed(bits: Bits, block: Block) -> Bits:
    """The bits of a block's coordinates."""
    if isinstance(block.index, Flat):
        return bits.reshape(-1)[block.index.ids]
    assert block.index is not None
    axes = (block.index.rows, block.index.cols)
    for axis, ids in enumerate(axes):
        bits = bits if ids is None else bits.take(ids.expanded, axis)
    return bits
