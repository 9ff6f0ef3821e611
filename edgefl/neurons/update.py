"""Update: the part of a model's parameters that a message carries.

It is not a format (codec/ writes it as bytes), holds no arithmetic (methods average Updates in their own files), and
does not say how its values are read and written (gather.py).
A block's index says which coordinates of its parameter the values are for:

    None                 every coordinate; values have the parameter's shape
    Axes(rows, cols)     the active neurons' rows (axis 0) and columns (axis 1); values [|rows|, |cols|, *rest]
    Flat(ids, size)      coordinates of the flattened parameter; values [|ids|]

Equality of blocks and updates compares values bit by bit, so that NaN equals itself and 0.0 differs from -0.0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from edgefl.errors import SelectionError
from edgefl.graph.operations import Kind, Shape
from edgefl.neurons.mask import Mask

if TYPE_CHECKING:
    from edgefl.neurons.spec import AxisSpec, ModelSpec, ParamSpec

Array = npt.NDArray[Any]
KINDS: tuple[Kind, ...] = ("learn", "stat")


@dataclass(frozen=True, eq=False)
class AxisIds:
    """The active neurons of a group, along one axis of a parameter. All of a group is written None, not AxisIds.

    neurons  int32, sorted and unique, in [0, size); at least one, fewer than size
    size     neurons in the group
    repeat   consecutive indices of the axis that belong to one neuron: the axis has size * repeat indices
    key      where not None, neurons == rng.sample_ids(key, size, len(neurons)); a short way to write the same ids
    Raises   SelectionError naming the value that does not fit.
    """

    neurons: npt.NDArray[np.int32]
    size: int
    repeat: int = 1
    key: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.size < 1 or self.repeat < 1:
            raise SelectionError(f"size={self.size}, repeat={self.repeat}; expected positive integers")
        _check_sorted("neurons", self.neurons, np.int32, self.size)
        if not 0 < self.neurons.size < self.size:
            raise SelectionError(f"{self.neurons.size} of {self.size} neurons; expected some, or None for all")
        if self.key is not None and not 0 <= self.key < 2**64:
            raise SelectionError(f"key={self.key}; expected 0 <= key < 2^64")
        object.__setattr__(self, "neurons", read_only(self.neurons))

    @cached_property
    def expanded(self) -> npt.NDArray[np.int32]:
        """The indices of the axis, sorted: neuron n gives n * repeat ... n * repeat + repeat - 1."""
        if self.repeat == 1:
            return self.neurons
        first = self.neurons[:, None] * np.int32(self.repeat)
        return read_only((first + np.arange(self.repeat, dtype=np.int32)).reshape(-1))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AxisIds):
            return NotImplemented
        same_axis = (self.size, self.repeat) == (other.size, other.repeat)
        return same_axis and np.array_equal(self.neurons, other.neurons)


@dataclass(frozen=True)
class Axes:
    """Active rows and columns of a parameter; None is a whole axis, and at least one of the two is not None."""

    rows: AxisIds | None
    cols: AxisIds | None = None

    def __post_init__(self) -> None:
        if self.rows is None and self.cols is None:
            raise SelectionError("axes with rows=None and cols=None; expected index None for a whole parameter")


@dataclass(frozen=True, eq=False)
class Flat:
    """Coordinates of a flattened parameter of `size` scalars: uint32, sorted and unique."""

    ids: npt.NDArray[np.uint32]
    size: int

    def __post_init__(self) -> None:
        _check_sorted("coordinates", self.ids, np.uint32, self.size)
        object.__setattr__(self, "ids", read_only(self.ids))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Flat):
            return NotImplemented
        return self.size == other.size and np.array_equal(self.ids, other.ids)


@dataclass(frozen=True, eq=False)
class Block:
    """Values of one parameter at an index.

    shape   of the whole parameter
    index   see the file's docstring
    values  float32 or float64 (sums), C-contiguous, of the shape that `shape` and `index` give; kept as read-only view
    Raises  SelectionError if the index is not one of a parameter of this shape, ValueError if the values do not fit it.
    """

    shape: Shape
    index: Axes | Flat | None
    values: Array

    def __post_init__(self) -> None:
        if self.values.dtype not in (np.float32, np.float64):
            raise ValueError(f"values of type {self.values.dtype}; expected float32 or float64")
        expected = block_shape(self.shape, self.index)
        if self.values.shape != expected:
            raise ValueError(f"values of shape {self.values.shape}; expected {expected}")
        if not self.values.flags.c_contiguous:
            raise ValueError(f"values with strides {self.values.strides}; expected a C-contiguous array")
        object.__setattr__(self, "values", read_only(self.values))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Block):
            return NotImplemented
        same_place = self.shape == other.shape and self.index == other.index
        return same_place and _same_bits(self.values, other.values)


@dataclass(frozen=True)
class Update:
    """Blocks by parameter name."""

    blocks: Mapping[str, Block]

    @property
    def count(self) -> int:
        """Number of scalars."""
        return sum(block.values.size for block in self.blocks.values())

    @property
    def nbytes(self) -> int:
        """Bytes of the values in memory."""
        return sum(block.values.nbytes for block in self.blocks.values())


def flat_index(mask: Mask, name: str) -> Flat | None:
    """The index of a parameter at a mask; None if the mask leaves it whole."""
    return Flat(mask.ids[name], mask.bits[name].size) if name in mask.bits else None


def mask_of(update: Update) -> Mask:
    """The mask that an update's values are at: the coordinates of its flat blocks."""
    found = {}
    for name, block in update.blocks.items():
        if isinstance(block.index, Flat) and block.index.ids.size < block.index.size:
            bits = np.zeros(block.shape, np.bool_)
            bits.reshape(-1)[block.index.ids] = True
            found[name] = bits
    return Mask(found)


def at_mask(update: Update, mask: Mask) -> Update:
    """Of an update of whole parameters, or at another mask, the values at those coordinates that this mask has, too."""
    return Update({name: _at(block, mask.bits.get(name)) for name, block in update.blocks.items()})


def _at(block: Block, bits: Array | None) -> Block:
    if bits is None:
        return block
    flat = bits.reshape(-1)
    ids = block.index.ids if isinstance(block.index, Flat) else np.arange(flat.size, dtype=np.uint32)
    left = flat[ids]
    return Block(block.shape, Flat(ids[left], flat.size), block.values.reshape(-1)[left])


def changed_by(before: Update, after: Update) -> Update:
    """before - after, of updates at the same coordinates."""
    return Update(
        {
            name: Block(block.shape, block.index, block.values - after.blocks[name].values)
            for name, block in before.blocks.items()
        }
    )


def values(update: Update) -> dict[str, Array]:
    """The values of an update of whole parameters, by parameter; of others their blocks."""
    return {name: block.values for name, block in update.blocks.items()}


def active_axes(
    param: ParamSpec,
    spec: ModelSpec,
    active: Mapping[str, npt.NDArray[np.int32]],
    keys: Mapping[str, int | None],
    made: dict[AxisSpec, AxisIds] | None = None,
) -> Axes | None:
    """The index of `param` where `active` lists the neurons of some groups; the other groups are whole.

    made    the axes of parameters before, under the same lists: what is in it is not checked again
    Raises  SelectionError if a list does not fit its group.
    """
    made = {} if made is None else made

    def along(axis: AxisSpec | None) -> AxisIds | None:
        if axis is None or axis.group not in active:
            return None
        neurons, size = active[axis.group], spec.groups[axis.group]
        if neurons.size == size:
            return None
        if axis not in made:
            made[axis] = AxisIds(neurons, size, axis.repeat, keys.get(axis.group))
        return made[axis]

    rows, cols = along(param.rows), along(param.cols)
    return None if rows is None and cols is None else Axes(rows, cols)


def block_shape(shape: Shape, index: Axes | Flat | None) -> Shape:
    """Shape of a block's values. Raises SelectionError if a parameter of this shape has no such index."""
    if index is None:
        return shape
    if isinstance(index, Flat):
        if index.size != math.prod(shape):
            raise SelectionError(f"coordinates of {index.size} scalars in shape {shape}; expected {math.prod(shape)}")
        return (index.ids.size,)
    extents = list(shape)
    for axis, ids in enumerate((index.rows, index.cols)):
        if ids is not None:
            if axis >= len(shape) or shape[axis] != ids.size * ids.repeat:
                found = f"{ids.size} neurons x {ids.repeat} on axis {axis} of shape {shape}"
                raise SelectionError(f"{found}; expected an axis of {ids.size * ids.repeat}")
            extents[axis] = ids.neurons.size * ids.repeat
    return tuple(extents)


def _check_sorted(what: str, ids: Array, dtype: type[np.generic], size: int) -> None:
    if ids.dtype != dtype or ids.ndim != 1:
        raise SelectionError(f"{what} of type {ids.dtype} and shape {ids.shape}; expected a list of {np.dtype(dtype)}")
    falls = ids[1:] <= ids[:-1]
    if falls.any():
        first = int(falls.argmax())
        raise SelectionError(f"{what} have {ids[first + 1]} after {ids[first]}; expected sorted and unique")
    if ids.size and not 0 <= ids[0] <= ids[-1] < size:
        wrong = ids[-1] if ids[0] >= 0 else ids[0]
        raise SelectionError(f"{what} contain {wrong}; expected values in [0, {size})")


def read_only(array: Array) -> Array:
    """A view that cannot be written."""
    view = array.view()
    view.flags.writeable = False
    return view


def _same_bits(a: Array, b: Array) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    bits = np.uint32 if a.dtype == np.float32 else np.uint64
    return bool(np.array_equal(a.view(bits), b.view(bits)))
