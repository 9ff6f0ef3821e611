"""The index of a block: the coordinates of its parameter, given by active neurons along the axes or by a list.

None                 every coordinate, with values of the parameter's shape
Axes(rows, cols)     the active neurons' rows (axis 0) and columns (axis 1), with values [|rows|, |cols|, *rest]
Flat(ids, size)      coordinates of the flattened parameter, with values [|ids|]
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from edgefl.errors import SelectionError
from edgefl.models.graph.operations import Shape
from edgefl.models.graph.parameter_slices import SlicedParameter
from edgefl.models.neurons.model_spec import Axis, AxisSpec, JoinedAxis, ModelSpec, ParamSpec, parts_of

Array = npt.NDArray[Any]
COMPARED = 1 << 20  # bytes that same_bits compares at once


@dataclass(frozen=True, eq=False)
class AxisIds:
    """The active neurons of a group along one axis of a parameter. If all neurons are active, None stands in its place.

    neurons  int32, sorted and unique, in [0, size). At least one neuron and fewer than `size` neurons are active
    size     number of neurons in the group
    repeat   number of consecutive indices of the axis that belong to one neuron: the axis has size * repeat indices
    key      key with neurons == rng.sample_ids(key, size, len(neurons)), a short way to write the ids, or None
    Raises   SelectionError that names the value that does not fit.
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
            raise SelectionError(
                f"{self.neurons.size} of {self.size} neurons; expected at least one neuron, or None for all"
            )
        if self.key is not None and not 0 <= self.key < 2**64:
            raise SelectionError(f"key={self.key}; expected 0 <= key < 2^64")
        object.__setattr__(self, "neurons", read_only(self.neurons))

    @property
    def length(self) -> int:
        """Return the number of indices of the axis."""
        return self.size * self.repeat

    @property
    def count(self) -> int:
        """Return the number of active indices."""
        return self.neurons.size * self.repeat

    @property
    def parts(self) -> tuple[AxisIds | int, ...]:
        return (self,)

    @cached_property
    def expanded(self) -> npt.NDArray[np.int32]:
        """Return the active indices of the axis, sorted: neuron n gives n * repeat ... n * repeat + repeat - 1."""
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
class JoinedIds:
    """The active indices along an axis of several parts, one after another.

    parts    ids of each part, or the part's number of indices if all of it is active
    Raises   SelectionError if all parts are whole, because None stands for a whole axis.
    """

    parts: tuple[AxisIds | int, ...]

    def __post_init__(self) -> None:
        if not any(isinstance(part, AxisIds) for part in self.parts):
            raise SelectionError(f"joined parts {self.parts}; expected neurons of one part, or None for all")

    @property
    def length(self) -> int:
        """Return the number of indices of the axis."""
        return sum(part if isinstance(part, int) else part.length for part in self.parts)

    @property
    def count(self) -> int:
        """Return the number of active indices."""
        return sum(part if isinstance(part, int) else part.count for part in self.parts)

    @cached_property
    def expanded(self) -> npt.NDArray[np.int32]:
        """Return the active indices of the axis, sorted."""
        found = [None if isinstance(part, int) else part.expanded for part in self.parts]
        lengths = [part if isinstance(part, int) else part.length for part in self.parts]
        return read_only(joined(found, lengths))


Ids = AxisIds | JoinedIds


def joined(parts: Sequence[npt.NDArray[np.int32] | None], lengths: Sequence[int]) -> npt.NDArray[np.int32]:
    """Return the active indices along an axis of several parts, from the active indices of each part.

    parts    indices within each part. None: the whole part is active
    lengths  number of indices of each part
    """
    firsts = np.cumsum([0, *lengths], dtype=np.int32)
    return np.concatenate(
        [
            np.arange(first, first + length, dtype=np.int32) if ids is None else ids + first
            for ids, length, first in zip(parts, lengths, firsts, strict=False)
        ]
    )


@dataclass(frozen=True)
class Axes:
    """The active rows and columns of a parameter. A whole axis is None, and at most one of the two axes is whole."""

    rows: Ids | None
    cols: Ids | None = None

    def __post_init__(self) -> None:
        if self.rows is None and self.cols is None:
            raise SelectionError("axes with rows=None and cols=None; expected index None for a whole parameter")


@dataclass(frozen=True, eq=False)
class Flat:
    """Coordinates of a flattened parameter of `size` scalars, as sorted and unique uint32."""

    ids: npt.NDArray[np.uint32]
    size: int

    def __post_init__(self) -> None:
        _check_sorted("coordinates", self.ids, np.uint32, self.size)
        object.__setattr__(self, "ids", read_only(self.ids))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Flat):
            return NotImplemented
        return self.size == other.size and np.array_equal(self.ids, other.ids)


def slice_index(spec: ModelSpec, name: str) -> Flat | None:
    """Return the coordinates of a parameter that training moves, or None if it moves all of the parameter."""
    part = spec.slices.get(name)
    return None if part is None else _slice_index(part, spec.params[name].shape)


@lru_cache(maxsize=256)
def _slice_index(part: SlicedParameter, shape: Shape) -> Flat:
    ranges = [(0, size) for size in shape]
    for axis, given in enumerate((part.rows, part.cols)):
        ranges[axis : axis + 1] = [given or ranges[axis]] if axis < len(shape) else []
    axes = np.ix_(*(np.arange(first, end) for first, end in ranges))
    return Flat(np.ravel_multi_index(axes, shape).reshape(-1).astype(np.uint32), math.prod(shape))


def active_axes(
    param: ParamSpec,
    spec: ModelSpec,
    active: Mapping[str, npt.NDArray[np.int32]],
    keys: Mapping[str, int | None],
    made: dict[AxisSpec, AxisIds] | None = None,
) -> Axes | None:
    """Return the index of the block of `param` where `active` lists the neurons of some groups.

    Groups that `active` does not list are whole.
    keys    by group, the key with which its neurons were drawn
    made    axes that were made for earlier parameters with these lists, which are not checked again
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

    def ids(axis: Axis | None) -> Ids | None:
        if not isinstance(axis, JoinedAxis):
            return along(axis)
        parts = tuple(along(part) or length for part, length in axis.parts)
        return JoinedIds(parts) if any(isinstance(part, AxisIds) for part in parts) else None

    rows, cols = ids(param.rows), ids(param.cols)
    return None if rows is None and cols is None else Axes(rows, cols)


def block_shape(shape: Shape, index: Axes | Flat | None) -> Shape:
    """Return the shape of a block's values. Raises SelectionError if the index does not fit the parameter's shape."""
    if index is None:
        return shape
    if isinstance(index, Flat):
        if index.size != math.prod(shape):
            raise SelectionError(f"coordinates of {index.size} scalars in shape {shape}; expected {math.prod(shape)}")
        return (index.ids.size,)
    extents = list(shape)
    for axis, ids in enumerate((index.rows, index.cols)):
        if ids is not None:
            if axis >= len(shape) or shape[axis] != ids.length:
                found = f"ids of an axis of {ids.length} on axis {axis} of shape {shape}"
                raise SelectionError(f"{found}; expected an axis of {ids.length}")
            extents[axis] = ids.count
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
    """Return a view of an array that cannot be written."""
    view = array.view()
    view.setflags(write=False)
    return view


def same_bits(one: Array, other: Array) -> bool:
    """Return whether two C-contiguous arrays have equal types, shapes and bits. Large arrays are compared in pieces."""
    if one is other or (one.dtype, one.shape) != (other.dtype, other.shape):
        return one is other
    a, b = (array.reshape(-1).view(np.uint8) for array in (one, other))
    return all(np.array_equal(a[at : at + COMPARED], b[at : at + COMPARED]) for at in range(0, a.size, COMPARED))


def ids_by_group(axis: Axis | None, ids: Ids | None) -> Iterator[tuple[str, AxisIds]]:
    """Yield the groups along an axis that are not whole, each with its active neurons."""
    found = ids.parts if ids is not None else ()
    for (part, _), listed in zip(parts_of(axis, 0), found, strict=False):
        if part is not None and isinstance(listed, AxisIds):
            yield part.group, listed
