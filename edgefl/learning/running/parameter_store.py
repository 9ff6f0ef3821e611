"""ParameterStore: the memory of a learner's parameters, and the mask that they keep to. No pass runs here.

A parameter lies whole in one block with others, or it is a sparse weight and lies as the values at its mask
(weight_arrays.py). lowering/sparse_weight.py decides which weights are sparse. A quantized parameter stays the
QuantizedArray that it was given, and its codes are never written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from edgefl.kernels.memory import HOST, BackendMemory, memory_of
from edgefl.learning.learner import Array
from edgefl.learning.lowering.active_ids import ActiveIndices
from edgefl.learning.lowering.arena import aligned
from edgefl.learning.lowering.gradients import rows_cols_inner
from edgefl.learning.lowering.sparse_weight import Sparse
from edgefl.learning.running.mask_restriction import Restriction
from edgefl.learning.running.weight_arrays import Compact, Weights
from edgefl.models.graph.quantized_array import QuantizedArray
from edgefl.models.neurons.block_index import read_only
from edgefl.models.neurons.model_spec import ModelSpec


class ParameterStore:
    """The parameters of one learner by torch's name.

    params       array of each parameter to which schedules refer: the whole parameter, the values of a sparse weight,
                 or a QuantizedArray
    sparse       sparse weights by name
    weights      mapping of each name to an array of the parameter's shape
    restriction  mask that the parameters keep to
    dtype        type of parameters, and of the activations and gradients of passes
    home         memory in which the backend's kernels work
    model_bytes  bytes of all parameters
    own_bytes    bytes of the parameters that are not shared with a relative
    in_place     names of the parameters that lie in arrays of the caller, which nobody changes
    int8_activations  whether evaluations and predictions round the inputs of int8 weights to int8
    """

    def __init__(
        self,
        spec: ModelSpec,
        params: Mapping[str, Array],
        shared: Mapping[str, Array],
        backend: ModuleType,
        dtype: np.dtype[Any],
        in_place: Collection[str] = (),
        int8_activations: bool = False,
    ) -> None:
        """Make a store of these parameters. A parameter that is the very same array in `shared` is not copied.

        in_place  names of the parameters that need no copy, because nobody changes their arrays
        """
        own = own_params(params, shared)
        self.int8_activations = int8_activations
        self.model_bytes, self.own_bytes = self._bytes(params, dtype), self._bytes(own, dtype)
        self.dtype, self.home, self._backend = dtype, memory_of(backend), backend
        self.in_place = frozenset(name for name in in_place if name in own and self._is_usable(params[name]))
        views = {name: read_only(value) if name in self.in_place else value for name, value in params.items()}
        views |= _flat_views({name: each for name, each in own.items() if name not in self.in_place}, dtype, self.home)
        self.params: dict[str, Array] = {name: views[name] for name in params}
        self.sparse: dict[str, Compact] = {}
        self.weights = Weights(self.params, self.sparse, self.home)
        self.restriction = Restriction(spec)
        self._has_quantized = any(isinstance(value, QuantizedArray) for value in params.values())

    def _bytes(self, params: Mapping[str, Array], dtype: np.dtype[Any]) -> int:
        """Return the bytes of these parameters, with the second copy of codes that products of codes read."""
        quantized: list[Any] = [value for value in params.values() if isinstance(value, QuantizedArray)]
        turned = sum(value.turned_bytes for value in quantized) if self.int8_activations else 0
        return padded_bytes(params.values(), dtype) + turned

    def _is_usable(self, value: Array) -> bool:
        """Return whether the kernels can read a caller's array where it lies. Quantized arrays are never copied."""
        if self.home is not HOST or isinstance(value, QuantizedArray):
            return False
        return value.dtype == self.dtype and value.flags.c_contiguous and value.flags.aligned

    @property
    def plans(self) -> Sparse:
        """The layout plan of each sparse weight."""
        return {name: each.plan for name, each in self.sparse.items()}

    @property
    def mask_bytes(self) -> int:
        """The bytes of the mask: its bits, and the structures of sparse weights."""
        return self.restriction.nbytes + sum(each.index_bytes for each in self.sparse.values())

    @property
    def is_plain(self) -> bool:
        """Return whether every parameter lies whole in this store, without a mask, and may be written."""
        return not (self.sparse or self.restriction or self.in_place or self._has_quantized)

    def restrict(self, restriction: Restriction, sparse: Sparse) -> None:
        """Keep the parameters to another mask, with these weights as sparse weights. Coordinates outside the mask
        become 0.0.
        """
        if self.plans == dict(sparse):
            for name, each in self.sparse.items():
                each.move(restriction.bits(name), self._backend)
        else:
            self._lay_out(sparse, restriction)
        self.restriction = restriction
        for name in restriction:
            self.clear(name)

    def clear(self, name: str) -> None:
        """Set to 0.0 what the mask leaves out of a parameter that lies whole."""
        if name not in self.sparse:
            self._clear(name, self.params[name])

    def gather(self, active: ActiveIndices, name: str, whole: Array, values: Array) -> None:
        """Copy the trained coordinates of `whole`, of the parameter's shape, into `values`, the state of the
        parameter's steps.

        Coordinates outside the mask become 0.0.
        """
        if name in self.sparse:
            values[...] = self.sparse[name].at(whole)
            self.home.wrote(values)
        elif (part := active.taken.get(name)) is not None and part.flat is not None:
            self._backend.take_flat(whole.reshape(-1), part.flat, values.reshape(-1))
        else:
            block = active.blocks[name] if part is None else (part.rows, part.cols)
            self._backend.take_axes(whole.reshape(rows_cols_inner(whole.shape)), *block, values)
        if name in active.masked:
            self._clear(name, values.reshape(whole.shape))

    def _clear(self, name: str, whole: Array) -> None:
        if name in self.restriction:
            self.home.fetch(whole)
            self.restriction.clear(name, whole)
            self.home.wrote(whole)

    def _lay_out(self, sparse: Sparse, restriction: Restriction) -> None:
        """Move the parameters into new memory: these weights as values at the mask, and the others into one block."""
        before = Weights(dict(self.params), dict(self.sparse), self.home)
        still = {name: self.params[name] for name in self.in_place}
        whole = {name: before.held(name) for name in before if name not in sparse and name not in still}
        self.sparse.clear()
        for name, plan in sparse.items():
            self.sparse[name] = compact = Compact(plan, self.dtype, self.home)
            compact.build(restriction.bits(name), self._backend)
            compact.set(before.read(name))
        views = {
            **still,
            **_flat_views(whole, self.dtype, self.home),
            **{name: each.values for name, each in self.sparse.items()},
        }
        for name in before:
            self.params[name] = views[name]
        self.model_bytes = self.own_bytes = padded_bytes(views.values(), self.dtype)


def own_params(params: Mapping[str, Array], shared: Mapping[str, Array]) -> dict[str, Array]:
    """Return the parameters that are not the very arrays of `shared`."""
    return {name: value for name, value in params.items() if value is not shared.get(name)}


def padded_bytes(arrays: Iterable[Array], dtype: np.dtype[Any]) -> int:
    """Return the bytes of these arrays in this type, where each array begins on a cache line."""
    return sum(
        array.nbytes if isinstance(array, QuantizedArray) else aligned(array.size * dtype.itemsize) for array in arrays
    )


def _flat_views(params: Mapping[str, Array], dtype: np.dtype[Any], home: BackendMemory) -> dict[str, Array]:
    """Copy the parameters into one new block, each on a cache line, and return views of them.

    Quantized parameters are returned as they are.
    """
    whole = {name: value for name, value in params.items() if not isinstance(value, QuantizedArray)}
    flat = home.block(padded_bytes(whole.values(), dtype))
    views, start = dict(params), 0
    for name, value in whole.items():
        size = value.size * dtype.itemsize
        views[name] = flat[start : start + size].view(dtype).reshape(value.shape)
        views[name][...] = value
        start += aligned(size)
    home.wrote(flat)
    return views
