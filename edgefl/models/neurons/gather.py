"""Blocks gathered out of a model's parameters, and scattered back into them, by the kernels.

update.py says what a block is. Parameters are contiguous numpy arrays here. Parameters in another memory have a Learner
of their own.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from edgefl import kernels
from edgefl.kernels.memory import HOST, BackendMemory, memory_of
from edgefl.models.graph import Params
from edgefl.models.graph.operations import Kind, Shape
from edgefl.models.neurons.block_index import Axes, AxisIds, Flat, Ids, active_axes, block_shape, same_bits, slice_index
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.trainable_parameters import TrainableParameters
from edgefl.models.neurons.trainable_slice import WHOLE, TrainableSlice
from edgefl.models.neurons.update import KINDS, VALUE_TYPES, Array, Block, SquaredChange, Update, flat_index

if TYPE_CHECKING:
    from edgefl.models.neurons.model_spec import AxisSpec, ModelSpec, ParamSpec
    from edgefl.models.neurons.neuron_set import NeuronSet

    Selection = NeuronSet | Mask | TrainableParameters | None


def take(
    params: Mapping[str, Array],
    spec: ModelSpec,
    selection: Selection = None,
    *,
    kinds: Collection[Kind] = KINDS,
    names: Collection[str] | None = None,
    ops: ModuleType | None = None,
    since: Mapping[str, Array] | None = None,
) -> Update:
    """Copy the selected blocks out of `params`, in the order of the specification.

    selection  neurons whose blocks are taken, a mask, or what is trained. None: everything, and the trained slice of a
               parameter. A parameter that a mask does not list is taken whole. What is not trained is left out
    kinds   kinds of the parameters to take: "learn", "stat", "frozen" or several. The default is all kinds but "frozen"
    names   names of the parameters to take among these kinds. None: all
    ops     kernel backend, by default kernels.backend()
    since   earlier values of parameters. The pass that copies a whole parameter of float32 on the host measures its
            squared change from them
    Raises  ValueError naming a parameter that is missing or unfit, SelectionError for another model's selection
    """
    ops = ops or kernels.backend()
    if selection is not None and not isinstance(selection, Mask):
        selection.check(spec)
    trained = _trained(selection, spec) if isinstance(selection, TrainableParameters) else None
    by_axes = selection.neurons if isinstance(selection, TrainableParameters) else selection
    blocks, memory, old = {}, memory_of(ops), since or {}
    made: dict[AxisSpec, AxisIds] = {}
    for name, param in spec.params.items():
        if trained is not None and name not in trained:
            continue
        if param.kind in kinds and (names is None or name in names):
            index = _index(by_axes, name, param, spec, made) if by_axes is not None else None
            if selection is None and "frozen" not in kinds:
                index = slice_index(spec, name)
            if trained is not None and (part := trained[name]) is not None:
                index = None if part == WHOLE else Flat(part.flat(param.shape), math.prod(param.shape))
            whole = _parameter(params, name, param.shape)
            blocks[name] = _gather(whole, param.shape, index, ops, memory, old.get(name))
    return Update(blocks)


def take_flat(
    params: Params, coordinates: Mapping[str, npt.NDArray[np.uint32]], *, ops: ModuleType | None = None
) -> Update:
    """Copy the listed coordinates (sorted, per parameter) out of `params`. Raises ValueError like `take`."""
    ops = ops or kernels.backend()
    blocks, memory = {}, memory_of(ops)
    for name, ids in coordinates.items():
        shape = params[name].shape if name in params else ()
        source = _parameter(params, name, shape)
        blocks[name] = _gather(source, shape, Flat(ids, source.size), ops, memory)
    return Update(blocks)


def put(params: Mapping[str, Array], update: Update, *, ops: ModuleType | None = None) -> None:
    """Write an update's values into `params` in place. Every other coordinate keeps its bits.

    Everything is checked first, and on an error nothing is written.
    Raises  ValueError that names the block that is not a parameter, or differs from its parameter in shape or type.
    """
    ops = ops or kernels.backend()
    targets = []
    for name, block in update.blocks.items():
        target = _parameter(params, name, block.shape)
        if target.dtype != block.values.dtype:
            raise ValueError(f"block {name!r} of type {block.values.dtype}; expected {target.dtype}")
        if not target.flags.writeable:
            raise ValueError(f"parameter {name!r} is read-only; expected a writeable array")
        targets.append((target, block))
    memory = memory_of(ops)
    for target, block in targets:
        _scatter(target, block, ops, memory)


def has_values(params: Mapping[str, Array], name: str, block: Block, *, ops: ModuleType | None = None) -> bool:
    """Return whether a parameter has the values of a block, bit for bit. Raises ValueError like `take`."""
    ops = ops or kernels.backend()
    own = _gather(_parameter(params, name, block.shape), block.shape, block.index, ops, memory_of(ops))
    return same_bits(own.values, block.values)


def parameter(params: Mapping[str, Array], name: str) -> Array:
    """Return the parameter of that name. Raises ValueError if there is no such parameter."""
    try:
        return params[name]
    except KeyError:
        expected = ", ".join(params) or "none"
        raise ValueError(f"block {name!r} is not a parameter; expected one of {expected}") from None


def _trained(trainable: TrainableParameters, spec: ModelSpec) -> dict[str, TrainableSlice | None]:
    """Return for each trained parameter and statistic its slice, or None if its neurons say what is trained of it."""
    found: dict[str, TrainableSlice | None] = dict(trainable.blocks(spec))
    rows = {name: rows for name, rows in trainable.statistics(spec).items() if rows is None or rows.size}
    found |= {name: TrainableSlice(rows) for name, rows in rows.items()}
    sliced = {name.rpartition(".")[0] for name, part in (trainable.slices or {}).items() if part != WHOLE}
    for name in found:
        is_statistic = name in rows and name.rpartition(".")[0] in sliced
        if not is_statistic and (trainable.slices or {}).get(name, WHOLE) == WHOLE:
            found[name] = None
    return found


def _index(
    selection: NeuronSet | Mask, name: str, param: ParamSpec, spec: ModelSpec, made: dict[AxisSpec, AxisIds]
) -> Axes | Flat | None:
    if isinstance(selection, Mask):
        return flat_index(selection, name)
    return active_axes(param, spec, selection.active, selection.keys, made)


def _gather(
    source: Array,
    shape: Shape,
    index: Axes | Flat | None,
    ops: ModuleType,
    memory: BackendMemory,
    since: Array | None = None,
) -> Block:
    if index is None:
        if since is not None and memory is HOST and _are_alike(source, since):
            return _measured(source, since)
        memory.fetch(source)
        return Block(shape, None, source.copy())
    values = np.empty(block_shape(shape, index), source.dtype)
    if isinstance(index, Flat):
        ops.take_flat(source, index.ids, values)
    else:
        ops.take_axes(_planes(source), _expanded(index.rows), _expanded(index.cols), _planes(values))
    return Block(shape, index, values)


def _are_alike(source: Array, old: Array) -> bool:
    """Return whether the kernel that copies and measures can read both."""
    fits = source.shape == old.shape and old.flags.c_contiguous
    return fits and source.dtype == old.dtype == VALUE_TYPES[0]


def _measured(source: Array, old: Array) -> Block:
    """Return a copy of a parameter with its change since `old`, in one pass."""
    values, total = np.empty(source.shape, source.dtype), np.zeros(1)
    kernels.best().sum_squared_changes(source.reshape(-1), old.reshape(-1), total, values.reshape(-1))
    return Block(source.shape, None, values, SquaredChange(old, total.item()))


def _scatter(target: Array, block: Block, ops: ModuleType, memory: BackendMemory) -> None:
    index = block.index
    if index is None:
        target[...] = block.values
        memory.wrote(target)
    elif isinstance(index, Flat):
        ops.put_flat(target, index.ids, block.values)
    else:
        ops.put_axes(_planes(target), _expanded(index.rows), _expanded(index.cols), _planes(block.values))


def _planes(array: Array) -> Array:
    """Return a view of the array as [rows, columns, rest]."""
    rows, cols, *rest = (*array.shape, 1, 1)[: max(array.ndim, 2)]
    return array.reshape(rows, cols, math.prod(rest))


def _expanded(ids: Ids | None) -> npt.NDArray[np.int32] | None:
    return None if ids is None else ids.expanded


def _parameter(params: Mapping[str, Array], name: str, shape: Shape) -> Array:
    value = parameter(params, name)
    if value.shape != shape:
        raise ValueError(f"block {name!r} of a parameter of shape {shape}; expected {value.shape}")
    if not value.flags.c_contiguous:
        raise ValueError(f"parameter {name!r} has strides {value.strides}; expected a C-contiguous array")
    return value
