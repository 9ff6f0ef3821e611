"""The parameters of a learner as arrays of their shapes, whether they lie whole in its memory or as values at a mask.

lowering/sparse_weight.py decides which weights lie as values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgefl.kernels.memory import HOST, BackendMemory, zeros
from edgefl.learning.lowering.schedule import Structure, StructureKind
from edgefl.learning.lowering.sparse_weight import SparseWeight
from edgefl.models.graph.operations import Conv2d
from edgefl.models.graph.quantized_array import QuantizedArray
from edgefl.models.neurons.block_index import read_only
from edgefl.models.neurons.mask import Bits

Array = NDArray[Any]


class Compact:
    """One sparse weight: its values, and the arrays that say which coordinates have these values.

    arrays  structure, order (the position of each value in the flattened weight), and for some weights structure_t and
            order_t
    """

    def __init__(self, plan: SparseWeight, dtype: np.dtype[Any], home: BackendMemory) -> None:
        lengths: dict[StructureKind, int] = {"structure": plan.words[0], "order": plan.count}
        if plan.has_transposed:
            lengths |= {"structure_t": plan.words[1], "order_t": plan.count}
        self.plan, self.values, self._home = plan, zeros(home, (plan.count,), dtype), home
        self.arrays = {  # only the host reads order
            kind: zeros(HOST if kind == "order" else home, (length,), np.uint32) for kind, length in lengths.items()
        }

    def build(self, bits: Bits, ops: ModuleType) -> None:
        """List the coordinates of a mask with as many coordinates. The values have to be set afterwards."""
        op = self.plan.node.op
        lists = (self.arrays.get(kind) for kind in ("structure", "order", "structure_t", "order_t"))
        ones = bits.view(np.uint8).reshape(self.plan.planar_shape)
        if isinstance(op, Conv2d):
            geometry = (op.stride, op.padding, op.dilation)
            ops.sparse_conv2d_build(ones, *lists, self.plan.size, *geometry)
        else:
            ops.sparse_linear_build(ones, *lists, self.plan.batch)

    def whole(self, values: Array | None = None) -> Array:
        """Return a new array of the weight's shape with these values (None: its own) at the mask, and 0 elsewhere."""
        found = np.zeros(self.plan.shape, self.values.dtype)
        if values is None:
            self._home.fetch(self.values)
        found.reshape(-1)[self.arrays["order"]] = self.values if values is None else values
        return found

    def at(self, whole: Array) -> Array:
        """Return the values of a whole array at the mask, in the order of the values."""
        found: Array = whole.reshape(-1)[self.arrays["order"]]
        return found

    def set(self, whole: Array) -> None:
        """Take the values from a whole array."""
        self.values[:] = self.at(whole)
        self._home.wrote(self.values)

    def move(self, bits: Bits, ops: ModuleType) -> None:
        """Move to another mask with as many coordinates. Values at common coordinates stay, and new
        coordinates are 0.
        """
        whole = self.whole()
        self.build(bits, ops)
        self.set(whole)

    @property
    def index_bytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values())


class Weights(Mapping[str, Array]):
    """The parameters by name, for kernels. Whole parameters are the very arrays. Sparse and quantized ones are made
    when asked for.

    The host reads parameters by `read`.
    """

    def __init__(self, params: Mapping[str, Array], sparse: Mapping[str, Compact], home: BackendMemory) -> None:
        self._params, self._sparse, self._home = params, sparse, home

    def __getitem__(self, name: str) -> Array:
        if name in self._sparse:
            return self._sparse[name].whole()
        found = self._params[name]
        return np.asarray(found) if isinstance(found, QuantizedArray) else found

    def __iter__(self) -> Iterator[str]:
        return iter(self._params)

    def __len__(self) -> int:
        return len(self._params)

    def __contains__(self, name: object) -> bool:
        return name in self._params

    def is_sparse(self, name: str) -> bool:
        return name in self._sparse

    def read(self, name: str) -> Array:
        """Return a parameter as it is now."""
        found = self[name]
        self._home.fetch(found)
        return found

    def held(self, name: str) -> Array:
        """Return a parameter as it is now. A quantized parameter is the QuantizedArray."""
        return self._params[name] if self.is_quantized(name) else self.read(name)

    def is_quantized(self, name: str) -> bool:
        return isinstance(self._params[name], QuantizedArray)

    def set(self, name: str, whole: Array) -> None:
        """Write a whole parameter. For a sparse weight only the values at its mask are written.

        Raises  ValueError for other values of a quantized parameter, which are never written.
        """
        if name in self._sparse:
            self._sparse[name].set(whole)
        elif self.is_quantized(name):
            if whole is not self._params[name] and not np.array_equal(np.asarray(whole), self[name]):
                raise ValueError(f"{name!r} is quantized and frozen; expected its own values")
        else:
            self._params[name][...] = whole
            self._home.wrote(self._params[name])


class Readable(Mapping[str, Array]):
    """The parameters by name, read-only."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights

    def __getitem__(self, name: str) -> Array:
        return read_only(self._weights.read(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)


class WritableWeights(Mapping[str, Array]):
    """The parameters for writing in place. A sparse weight is made once as a whole array, and `close`
    writes it back.
    """

    def __init__(self, weights: Weights) -> None:
        self._weights, self._made = weights, dict[str, Array]()

    def __getitem__(self, name: str) -> Array:
        if name not in self._made:
            self._made[name] = self._weights[name]
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)

    def close(self) -> None:
        for name, whole in self._made.items():
            if self._weights.is_sparse(name) or self._weights.is_quantized(name):
                self._weights.set(name, whole)


def structures(sparse: Mapping[str, Compact]) -> dict[Structure, Array]:
    """Return the arrays of sparse weights to which schedules refer."""
    return {Structure(kind, name): array for name, each in sparse.items() for kind, array in each.arrays.items()}
