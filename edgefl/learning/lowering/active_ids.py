"""The id lists of a schedule: the rows, columns and channels that its calls read and write, from a graph and neurons.

The structure of a schedule depends only on the graph and on the sizes of these lists (`signature`). So a schedule for
other neurons with the same signature differs only in its ids, and `adopt` turns one schedule into the other in place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgefl.errors import SelectionError
from edgefl.learning.fit_options import Delta
from edgefl.learning.lowering.channel_sets import NONE, is_empty, owners
from edgefl.learning.lowering.gradient_blocks import TakenPart, gradient_blocks
from edgefl.learning.lowering.gradient_needs import PRODUCTS, RowsCols, gradient_needs
from edgefl.learning.lowering.schedule import Existing, Index
from edgefl.models.graph import Graph, Node
from edgefl.models.graph.operations import Attention, Conv2d, ConvTranspose2d, GroupNorm, SelfAttention
from edgefl.models.graph.planar import planar
from edgefl.models.neurons.model_spec import ModelSpec, layer_of
from edgefl.models.neurons.trainable_parameters import Trainable, TrainableParameters
from edgefl.models.neurons.trainable_slice import WHOLE, TrainableSlice

Signature = tuple[tuple[int | None, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...]]


class Growth(NamedTuple):
    """A search in one parameter: the number of coordinates sought, and the coordinates that exist already.

    `exists` has one bit per coordinate, low bits first.
    """

    sought: int
    exists: NDArray[np.uint8]


@dataclass(frozen=True)
class ActiveIndices:
    """The id lists, by what they select. A list that is None selects everything. Without gradients nothing is selected.

    blocks   trained parameter -> rows, columns of the block whose gradient is computed
    taken    trained parameter -> what is trained of this block. A parameter whose block is trained whole is absent
    needs    result -> channels whose gradient is needed. A result that needs no gradient is absent
    groups   GroupNorm -> groups whose gradient is needed. Attention -> heads
    saved    product with a weight -> input channels (features) that its weight gradient reads
    neurons  group -> active neurons. Empty if all are active
    masked   trained parameter that is not whole -> its coordinates. These arrays belong to the caller, who changes them
    grown    parameter -> the search for the largest values of its gradient
    """

    blocks: Mapping[str, RowsCols] = field(default_factory=dict)
    needs: Mapping[str, Index] = field(default_factory=dict)
    groups: Mapping[str, Index] = field(default_factory=dict)
    saved: Mapping[str, Index] = field(default_factory=dict)
    neurons: Mapping[str, Index] = field(default_factory=dict)
    masked: Mapping[str, Existing] = field(default_factory=dict)
    grown: Mapping[str, Growth] = field(default_factory=dict)
    taken: Mapping[str, TakenPart] = field(default_factory=dict)

    @staticmethod
    def of(
        graph: Graph,
        spec: ModelSpec,
        trainable: Trainable,
        delta: Delta,
        masks: Mapping[str, Existing] | None = None,
    ) -> ActiveIndices:
        """Return the lists for training `trainable`, or for training everything if it is None.

        `masks` gives the coordinates that exist of masked parameters.

        Raises  SelectionError for names that the model does not have, and for a masked parameter of which neurons or a
                slice are trained
        """
        graph, part = planar(graph), TrainableParameters.of(spec, trainable)
        blocks, taken = gradient_blocks(graph, spec, part)
        check_masked(part, blocks, masks or {})
        needs = gradient_needs(graph, blocks, delta)
        by_group = [node for node in graph.nodes if isinstance(node.op, GroupNorm | SelfAttention | Attention)]
        groups = {node.name: _groups(node, needs) for node in by_group}
        saved = {node.name: saved_channels(node, blocks) for node in graph.nodes if isinstance(node.op, PRODUCTS)}
        neurons = {} if part.neurons is None else part.neurons.active
        chosen = {group: ids.copy() for group, ids in neurons.items()}
        masked = {name: bits for name, bits in (masks or {}).items() if name in blocks}
        return ActiveIndices(blocks, needs, groups, saved, chosen, masked, taken=taken)

    @staticmethod
    def growing(graph: Graph, spec: ModelSpec, grown: Mapping[str, Growth]) -> ActiveIndices:
        """Return the ids that a search for the largest gradients of these parameters selects."""
        whole = ActiveIndices.of(graph, spec, frozenset(map(layer_of, grown)), "exact")
        return replace(whole, grown=grown)

    @cached_property
    def signature(self) -> Signature:
        """The length of every list, with None for a list that selects everything, and three tuples of names.

        The names are the trained parameters, the results that need a gradient, and the masked parameters.
        """
        lengths = tuple(None if ids is None else ids.size for ids in self._lists())
        return lengths, tuple(self.blocks), tuple(self.needs), tuple(self.masked)

    def adopt(self, other: ActiveIndices) -> None:
        """Overwrite every list with the list of `other`, which has the same signature."""
        for ours, theirs in zip(self._lists(), other._lists(), strict=True):
            if ours is not None and theirs is not None and ours.size:
                ours[:] = theirs

    def _lists(self) -> Iterator[Index]:
        for axes in self.blocks.values():
            yield from axes
        for lists in (self.needs, self.groups, self.saved, self.neurons):
            yield from lists.values()


def trained_blocks(spec: ModelSpec, trainable: Trainable) -> Mapping[str, RowsCols]:
    """Return for each trained parameter its active rows and columns. The axes of a group refer to one array.

    The rows of a mask are the rows in which it has a coordinate. A computed parameter with a trained source is there as
    a whole.
    """
    parts = TrainableParameters.of(spec, trainable).blocks(spec)
    blocks = {name: (_rows(part, spec.params[name].shape[0]), part.cols) for name, part in parts.items()}
    for name, sources in spec.computed.items():  # a computed parameter needs a gradient if one of its sources does
        if not blocks.keys().isdisjoint(sources):
            blocks[name] = (None, None)
    return blocks


def _rows(part: TrainableSlice, size: int) -> Index:
    rows = part.rows if part.bits is None else part.row_ids(size)
    return None if rows is not None and rows.size == size else rows


def check_masked(trainable: TrainableParameters, trained: Collection[str], masked: Collection[str]) -> None:
    """Raise SelectionError if neurons or a slice are trained of a parameter to whose mask the learner keeps."""
    both = [name for name in masked if name in trained]
    if both and trainable.neurons is not None:
        names = ", ".join(both)
        raise SelectionError(
            f"neurons were chosen for a model with masks of {names}; expected names of parameters or layers, or None"
        )
    for name in both:
        if trainable.slices is not None and trainable.slices[name] != WHOLE:
            raise SelectionError(
                f"trainable: a part of {name!r}, to whose mask the learner keeps; expected the whole of {name!r}"
            )


def saved_channels(node: Node, blocks: Mapping[str, RowsCols]) -> Index:
    """Return the input channels (features) that the layer's weight gradient reads, or an empty array without this
    gradient.
    """
    rows, cols = blocks.get(node.full_name(node.op.main), (NONE, NONE))
    if isinstance(node.op, ConvTranspose2d):
        rows, cols = cols, rows
    if is_empty(rows) or is_empty(cols):
        return NONE
    if isinstance(node.op, Conv2d) and node.op.groups == node.op.in_channels > 1:
        return owners(rows, node.op.out_channels // node.op.in_channels, node.op.in_channels)
    return cols


def _groups(node: Node, needs: Mapping[str, Index]) -> Index:
    op, channels = node.op, needs.get(node.name, NONE)
    if isinstance(op, Attention):
        return owners(channels, op.shared, op.kv_heads)
    if isinstance(op, SelfAttention):
        return owners(channels, op.head_dim, op.num_heads)
    assert isinstance(op, GroupNorm)
    return owners(channels, op.num_channels // op.num_groups, op.num_groups)
