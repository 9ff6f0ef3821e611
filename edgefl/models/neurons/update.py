"""The class Update: the part of a model's parameters that a message carries.

An Update is not a format: codec/ writes it as bytes. It holds no arithmetic: methods average Updates in their own
files. gather.py reads its values from a model and writes them into one.
A block's index (block_index.py) says for which coordinates of its parameter the values are.

Equality of blocks and updates compares values bit by bit, so that NaN equals itself and 0.0 differs from -0.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from edgefl.models.graph.operations import Kind, Shape
from edgefl.models.neurons.block_index import Axes, Flat, block_shape, read_only
from edgefl.models.neurons.mask import Mask

Array = npt.NDArray[Any]
KINDS: tuple[Kind, ...] = ("learn", "stat")  # kinds of parameters that a round exchanges
EVERY_KIND: tuple[Kind, ...] = (*KINDS, "frozen")
VALUE_TYPES = np.dtype(np.float32), np.dtype(np.float64)  # of blocks


class SquaredChange(NamedTuple):
    """The sum of (values - since)^2 over a whole parameter, in float64.

    since  earlier values of the parameter
    """

    since: Array
    sum: float


@dataclass(frozen=True, eq=False)
class Block:
    """Values of one parameter at an index.

    shape   shape of the whole parameter
    index   coordinates of the values: Axes, Flat, or None for all (block_index.py)
    values  float32 or float64 (sums), C-contiguous, of the shape that `shape` and `index` give. They are kept as a
            read-only view
    change  squared change of the values, if it was measured when they were copied. It stays in this process
    Raises  SelectionError if the index does not fit a parameter of this shape, ValueError if the values do not fit it.
    """

    shape: Shape
    index: Axes | Flat | None
    values: Array
    change: SquaredChange | None = None

    def __post_init__(self) -> None:
        if self.values.dtype not in VALUE_TYPES:
            raise ValueError(f"values of type {self.values.dtype}; expected float32 or float64")
        expected = block_shape(self.shape, self.index)
        if self.values.shape != expected:
            raise ValueError(f"values of shape {self.values.shape}; expected {expected}")
        if not self.values.flags.c_contiguous:
            raise ValueError(f"values with strides {self.values.strides}; expected a C-contiguous array")
        object.__setattr__(self, "values", read_only(self.values))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "change": None}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Block):
            return NotImplemented
        same_position = self.shape == other.shape and self.index == other.index
        return same_position and _same_bits(self.values, other.values)


@dataclass(frozen=True)
class Update:
    """Blocks of several parameters, by parameter name."""

    blocks: Mapping[str, Block]

    @property
    def count(self) -> int:
        """Return the number of scalars."""
        return sum(block.values.size for block in self.blocks.values())

    @property
    def nbytes(self) -> int:
        """Return the number of bytes of the values in memory."""
        return sum(block.values.nbytes for block in self.blocks.values())


def flat_index(mask: Mask, name: str) -> Flat | None:
    """Return the index of a parameter at a mask, or None if the mask leaves the parameter whole."""
    return Flat(mask.ids[name], mask.bits[name].size) if name in mask.bits else None


def mask_of(update: Update) -> Mask:
    """Return the mask at which an update's values are: the coordinates of its flat blocks."""
    found = {}
    for name, block in update.blocks.items():
        if isinstance(block.index, Flat) and block.index.ids.size < block.index.size:
            bits = np.zeros(block.shape, np.bool_)
            bits.reshape(-1)[block.index.ids] = True
            found[name] = bits
    return Mask(found)


def at_mask(update: Update, mask: Mask) -> Update:
    """Return the update without the coordinates that `mask` does not have.

    The update has whole parameters, or is at another mask.
    """
    return Update({name: _at(block, mask.bits.get(name)) for name, block in update.blocks.items()})


def _at(block: Block, bits: Array | None) -> Block:
    if bits is None:
        return block
    flat = bits.reshape(-1)
    ids = block.index.ids if isinstance(block.index, Flat) else np.arange(flat.size, dtype=np.uint32)
    left = flat[ids]
    return Block(block.shape, Flat(ids[left], flat.size), block.values.reshape(-1)[left])


def changed_by(before: Update, after: Update) -> Update:
    """Return before - after, for two updates at equal coordinates."""
    return Update(
        {
            name: Block(block.shape, block.index, block.values - after.blocks[name].values)
            for name, block in before.blocks.items()
        }
    )


def values(update: Update) -> dict[str, Array]:
    """Return the values of an update by parameter. They are whole parameters only if the blocks are whole."""
    return {name: block.values for name, block in update.blocks.items()}


def _same_bits(a: Array, b: Array) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    bits = np.uint32 if a.dtype == np.float32 else np.uint64
    return bool(np.array_equal(a.view(bits), b.view(bits)))
