"""The blocks of parameters whose gradients the kernels compute, and the trained part of each block.

Kernels compute rows and columns of most parameters. A mask, the rows of an Embedding, the columns of a grouped
convolution, and rows that a normalisation's weight and bias do not have in common are taken out of a block that was
computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgefl.learning.lowering.channel_sets import NONE, union
from edgefl.learning.lowering.gradient_needs import RowsCols
from edgefl.learning.lowering.schedule import Index
from edgefl.models.graph import Graph, Node
from edgefl.models.graph.operations import (
    BatchNorm,
    Conv2d,
    ConvTranspose2d,
    Embedding,
    GroupNorm,
    LayerNorm,
    Linear,
    PReLU,
    Recurrent,
    RMSNorm,
    SelfAttention,
    Shape,
)
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.trainable_parameters import TrainableParameters
from edgefl.models.neurons.trainable_slice import WHOLE, TrainableSlice

NORMS = (BatchNorm, GroupNorm, LayerNorm, RMSNorm)


class TakenPart(NamedTuple):
    """The trained part of a computed block.

    rows, cols  trained rows and columns of the parameter. None: all
    flat        trained positions of the flattened parameter. None: the rows and columns
    within      the rows and columns, or the positions, counted within the computed block
    """

    rows: Index
    cols: Index
    flat: NDArray[np.uint32] | None
    within: tuple[Index, Index] | NDArray[np.uint32]


def gradient_blocks(
    graph: Graph, spec: ModelSpec, trainable: TrainableParameters
) -> tuple[dict[str, RowsCols], dict[str, TakenPart]]:
    """Return the block of each trained parameter whose gradient is computed, and what is taken out of these blocks.

    graph  graph on planes. A block that is trained as it is computed is absent from the second mapping. A computed
           parameter with a trained source is there as a whole
    """
    trained = trainable.blocks(spec)
    whole = TrainableParameters(trainable.neurons).blocks(spec) if trainable.has_slices else trained
    blocks = {name: (part.rows, part.cols) for name, part in trained.items()}
    for name, sources in spec.computed.items():  # a computed parameter needs a gradient if one of its sources does
        if not trained.keys().isdisjoint(sources):
            blocks[name] = (None, None)
    if not trainable.has_slices:
        return blocks, {}
    sliced = {name for name, part in (trainable.slices or {}).items() if part != WHOLE}
    for node in graph.nodes:
        own = {name: node.full_name(name) for name in node.op.parameters() if node.full_name(name) in trained}
        if not sliced.isdisjoint(own.values()):
            blocks |= _of_node(node, own, trained, whole, spec)
    for name in sliced & trained.keys() & graph.collected.keys():  # gradients of several uses are added before
        blocks[name] = (whole[name].rows, whole[name].cols)
    taken = {name: _taken(spec.params[name].shape, blocks[name], part) for name, part in trained.items()}
    return blocks, {name: part for name, part in taken.items() if part is not None}


def _of_node(
    node: Node,
    own: Mapping[str, str],
    trained: Mapping[str, TrainableSlice],
    whole: Mapping[str, TrainableSlice],
    spec: ModelSpec,
) -> dict[str, RowsCols]:
    """Return the computed blocks of one node's trained parameters, which are at least the trained parts."""
    found = {}
    for name, full in own.items():
        part, most, size = trained[full], whole[full], spec.params[full].shape[0]
        has_rows, has_cols = _kernel_axes(node, name)
        rows = part.row_ids(size) if part.bits is not None else part.rows
        rows = None if rows is not None and rows.size == size else rows
        found[full] = rows if has_rows else most.rows, part.cols if has_cols else most.cols
    if isinstance(node.op, NORMS):  # one call writes the gradients of weight and bias, for the same rows
        rows = NONE
        for full in found:
            rows = union(rows, found[full][0], spec.params[full].shape[0])
        found = {full: (rows, cols) for full, (_, cols) in found.items()}
    return {full: (_own_copy(rows), _own_copy(cols)) for full, (rows, cols) in found.items()}


def _kernel_axes(node: Node, name: str) -> tuple[bool, bool]:
    """Return whether the kernels compute some rows, and some columns, of a parameter's gradient."""
    op, is_weight = node.op, name == node.op.main
    if isinstance(op, Conv2d):
        return True, is_weight and op.groups == 1
    if isinstance(op, ConvTranspose2d):
        return not is_weight or op.groups == 1, is_weight and op.groups == 1
    if isinstance(op, Linear | Recurrent | SelfAttention):
        return True, True
    if isinstance(op, Embedding):
        return False, True
    return isinstance(op, (*NORMS, PReLU)), False


def _own_copy(ids: Index) -> Index:
    """Return ids that a session may overwrite (ActiveIndices.adopt)."""
    return None if ids is None else ids.copy()


def _taken(shape: Shape, block: RowsCols, part: TrainableSlice) -> TakenPart | None:
    """Return the trained part of a computed block, or None if it is the block."""
    if part.bits is None:
        rows, cols = _within(part.rows, block[0]), _within(part.cols, block[1])
        return None if rows is None and cols is None else TakenPart(part.rows, part.cols, None, (rows, cols))
    flat = part.flat(shape)
    chosen = np.zeros(shape, np.bool_)
    chosen.reshape(-1)[flat] = True
    for axis, ids in enumerate(block):
        chosen = chosen if ids is None else chosen.take(ids, axis)
    return TakenPart(None, None, flat, np.flatnonzero(chosen).astype(np.uint32))


def _within(ids: Index, block: Index) -> Index:
    """Return the positions of ids within the ids of a block, or None if they are the block's ids."""
    if ids is None or (block is not None and ids.size == block.size):
        return None
    return ids if block is None else np.searchsorted(block, ids).astype(np.int32)
