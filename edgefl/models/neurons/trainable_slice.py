"""The class TrainableSlice: the part of one parameter that is trained. It does not know the name of the parameter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgefl.errors import SelectionError
from edgefl.models.graph.narrower import IdArray
from edgefl.models.graph.operations import Shape
from edgefl.models.neurons.mask import Bits

Ids = Sequence[int] | np.ndarray | None
RowsAndColumns = tuple[Ids, Ids]


@dataclass(frozen=True, eq=False)
class TrainableSlice:
    """Rows (axis 0), columns (axis 1) and a mask of one parameter. A coordinate that is in all three is trained.

    rows, cols  sorted unique int32 ids. None is the whole axis
    bits        booleans of the parameter's shape. None is every coordinate
    """

    rows: IdArray | None = None
    cols: IdArray | None = None
    bits: Bits | None = None

    @staticmethod
    def of(name: str, shape: Shape, rows: Ids = None, cols: Ids = None) -> TrainableSlice:
        """Return the slice of a parameter. Raises SelectionError naming the ids that do not fit its shape."""
        if cols is not None and len(shape) < 2:
            raise SelectionError(f"trainable: columns of {name!r} of shape {shape}; expected rows only")
        return TrainableSlice(
            _checked(f"rows of {name!r}", rows, shape[0]),
            _checked(f"columns of {name!r}", cols, shape[1] if len(shape) > 1 else 1),
        )

    def check(self, name: str, shape: Shape) -> None:
        """Raise SelectionError unless a parameter of this shape has the slice's coordinates."""
        for what, ids, axis in (("row", self.rows, 0), ("column", self.cols, 1)):
            if ids is not None and ids.size and (axis >= len(shape) or ids[-1] >= shape[axis]):
                raise SelectionError(f"trainable: {what} {ids[-1]} of {name!r}; the shape of {name!r} is {shape}")
        if self.bits is not None and self.bits.shape != shape:
            raise SelectionError(f"trainable: mask of {name!r} of shape {self.bits.shape}; expected {shape}")

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is trained."""
        axes = any(ids is not None and not ids.size for ids in (self.rows, self.cols))
        return axes or (self.bits is not None and not self._chosen().any())

    @property
    def content(self) -> bytes:
        """Return bytes that are equal for two slices if and only if they have equal rows, columns and masks."""
        mask = None if self.bits is None else np.packbits(self.bits)
        lists = (b"all" if ids is None else b"ids" + ids.tobytes() for ids in (self.rows, self.cols, mask))
        return b"".join(f"{len(each)} ".encode() + each for each in lists)

    def flat(self, shape: Shape) -> np.ndarray:
        """Return the trained coordinates of a parameter of this shape, as sorted uint32 positions when flattened."""
        chosen = np.ones(shape, np.bool_) if self.bits is None else self.bits.copy()
        for axis, ids in enumerate((self.rows, self.cols)):
            if ids is not None:
                outside = np.ones(shape[axis], np.bool_)
                outside[ids] = False
                chosen[(slice(None),) * axis + (outside,)] = False
        return np.flatnonzero(chosen).astype(np.uint32)

    def row_ids(self, size: int) -> IdArray:
        """Return the rows, of `size` rows, that have a trained coordinate."""
        if self.bits is None:
            return np.arange(size, dtype=np.int32) if self.rows is None else self.rows
        return np.flatnonzero(self._chosen().reshape(size, -1).any(1)).astype(np.int32)

    def __and__(self, other: TrainableSlice) -> TrainableSlice:
        """Return the coordinates that are in both."""
        bits = self.bits if other.bits is None else other.bits
        if self.bits is not None and other.bits is not None:
            bits = self.bits & other.bits
        return TrainableSlice(_both(self.rows, other.rows), _both(self.cols, other.cols), bits)

    def __eq__(self, other: object) -> bool:
        return self.content == other.content if isinstance(other, TrainableSlice) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.content)

    def _chosen(self) -> Bits:
        """Return the mask with False outside the rows and columns."""
        assert self.bits is not None
        found = np.zeros(self.bits.size, np.bool_)
        found[self.flat(self.bits.shape)] = True
        return found.reshape(self.bits.shape)


WHOLE = TrainableSlice()


def _both(first: IdArray | None, second: IdArray | None) -> IdArray | None:
    if first is None or second is None:
        return second if first is None else first
    return np.intersect1d(first, second).astype(np.int32)


def _checked(what: str, ids: Ids, size: int) -> IdArray | None:
    """Return the ids as int32, or None if they are the whole axis of `size` indices."""
    if ids is None:
        return None
    given = np.asarray(ids)
    if given.size == 0:
        return np.zeros(0, np.int32)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise SelectionError(f"trainable: {what} of shape {given.shape} and type {given.dtype}; expected integers")
    if given.min() < 0 or given.max() >= size:
        raise SelectionError(f"trainable: {what} from {given.min()} to {given.max()}; expected 0 to {size - 1}")
    if (given[1:] <= given[:-1]).any():
        raise SelectionError(f"trainable: {what} are not sorted and unique: {given[:8].tolist()}")
    return None if given.size == size else given.astype(np.int32)
