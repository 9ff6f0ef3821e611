"""Restriction: a Mask as a learner keeps to it: which coordinates exist, and what may be written. It trains nothing.

Source  FedSpa, w~ = m . w (ALGORITHMS 3)
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgefl.errors import SelectionError
from edgefl.models.graph.operations import Shape
from edgefl.models.neurons.block_index import Flat
from edgefl.models.neurons.mask import Bits, Mask
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.update import Block, Update

Array = NDArray[Any]


class Restriction:
    """The mask that a learner's parameters keep to, one bit per coordinate. Without a mask the parameters are whole.

    Raises  SelectionError if the mask does not fit the model, or lists a parameter that is not learned
    """

    def __init__(self, spec: ModelSpec, mask: Mask | None = None) -> None:
        bits = Mask.of(spec, mask.bits if mask else {}).bits
        for name in bits:
            if spec.params[name].kind != "learn":
                what = "frozen" if spec.params[name].kind == "frozen" else "a running statistic"
                raise SelectionError(f"mask of {name!r}, {what}; expected parameters that are learned")
        self._shapes: dict[str, Shape] = {name: each.shape for name, each in bits.items()}
        self._packed = {name: np.packbits(each.reshape(-1), bitorder="little") for name, each in bits.items()}
        self.counts = {name: int(np.count_nonzero(each)) for name, each in bits.items()}

    def __bool__(self) -> bool:
        """Return whether any parameter is not whole."""
        return bool(self._shapes)

    def __contains__(self, name: str) -> bool:
        """Return whether this parameter is not whole."""
        return name in self._shapes

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the parameters that are not whole."""
        return iter(self._shapes)

    def check_whole(self, request: str) -> None:
        """Raise SelectionError, naming the request, if any parameter is not whole."""
        if self:
            names = ", ".join(self)
            raise SelectionError(
                f"{request} of a model with masks of {names}; expected whole parameters: restrict(None)"
            )

    def bits(self, name: str) -> Bits:
        """Return the coordinates that a parameter has, as a new array."""
        shape = self._shapes[name]
        found = np.unpackbits(self._packed[name], count=math.prod(shape), bitorder="little")
        return found.view(np.bool_).reshape(shape)

    def packed(self, name: str) -> NDArray[np.uint8]:
        """Return the coordinates that a parameter has, one bit each, low bits first."""
        return self._packed[name]

    def only(self, names: Collection[str]) -> Mask:
        """Return the mask of these parameters."""
        return Mask({name: self.bits(name) for name in self if name in names})

    @property
    def nbytes(self) -> int:
        return sum(each.nbytes for each in self._packed.values())

    def check(self, update: Update) -> None:
        """Raise SelectionError naming the block that lists a coordinate outside the mask. A whole parameter lists none
        of them.
        """
        for name, block in update.blocks.items():
            if name in self and block.index is not None and block.shape == self._shapes[name]:
                outside = int(np.count_nonzero(~_listed(self.bits(name), block)))
                if outside:
                    raise SelectionError(
                        f"block {name!r} with {outside} coordinates outside the mask; expected only coordinates inside"
                    )

    def clear(self, name: str, whole: Array) -> None:
        """Set the coordinates of a parameter that do not exist to 0.0."""
        if name in self:
            whole[~self.bits(name)] = 0.0


def bits_bytes(sizes: Mapping[str, int]) -> int:
    """Return the bytes that the bits of masked parameters of these sizes take."""
    return sum(-(-size // 8) for size in sizes.values())


def _listed(bits: Bits, block: Block) -> Bits:
    """Return the mask's bits at the coordinates of a block."""
    if isinstance(block.index, Flat):
        return bits.reshape(-1)[block.index.ids]
    assert block.index is not None
    axes = (block.index.rows, block.index.cols)
    for axis, ids in enumerate(axes):
        bits = bits if ids is None else bits.take(ids.expanded, axis)
    return bits
