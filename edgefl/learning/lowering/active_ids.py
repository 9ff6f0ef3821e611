"""The id lists of a schedule: the rows, columns and channels that its calls read and write, from a graph and neurons.

The structure of a schedule depends only on the graph and on the sizes of these lists (`signature`). So a schedule for
other neurons with the same signature differs only in its ids, and `adopt` turns one schedule into the other in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgefl.errors import SelectionError
from edgefl.learning.fit_options import Delta, Trainable
from edgefl.learning.lowering.channel_sets import NONE, is_empty, owners
from edgefl.learning.lowering.gradient_needs import PRODUCTS, RowsCols, gradient_needs, own_rows
from edgefl.learning.lowering.schedule import Existing, Index
from edgefl.models.graph import Graph, Node
from edgefl.models.graph.operations import Conv2d, ConvTranspose2d, GroupNorm, SelfAttention
from edgefl.models.graph.planar import planar
from edgefl.models.neurons.model_spec import Axis, ModelSpec, layer_of
from edgefl.models.neurons.neuron_set import NeuronSet

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

    blocks   trained parameter -> rows, columns
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

    @staticmethod
    def of(
        graph: Graph,
        spec: ModelSpec,
        trainable: Trainable,
        delta: Delta,
        masks: Mapping[str, Existing] | None = None,
    ) -> ActiveIndices:
        """Return the lists for training `trainable`: neurons, layers, or everything if it is None.

        `masks` gives the coordinates that exist of masked parameters.

        Raises  SelectionError for neurons where there are masks
        """
        if masks and isinstance(trainable, NeuronSet):
            names = ", ".join(masks)
            raise SelectionError(
                f"neurons were chosen for a model with masks of {names}; expected names of layers, or None"
            )
        graph, blocks = planar(graph), trained_blocks(spec, trainable)
        needs = gradient_needs(graph, blocks, delta)
        by_group = [node for node in graph.nodes if isinstance(node.op, GroupNorm | SelfAttention)]
        groups = {node.name: _groups(node, needs) for node in by_group}
        saved = {node.name: saved_channels(node, blocks) for node in graph.nodes if isinstance(node.op, PRODUCTS)}
        neurons = trainable.active if isinstance(trainable, NeuronSet) else {}
        chosen = {group: ids.copy() for group, ids in neurons.items()}
        masked = {name: bits for name, bits in (masks or {}).items() if name in blocks}
        return ActiveIndices(blocks, needs, groups, saved, chosen, masked)

    @staticmethod
    def growing(graph: Graph, spec: ModelSpec, grown: Mapping[str, Growth]) -> ActiveIndices:
        """Return the ids that a search for the largest gradients of these parameters selects."""
        whole = ActiveIndices.of(graph, spec, frozenset(map(layer_of, grown)), "exact")
        return replace(whole, grown=grown)

    @property
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
    """Return for each learnable parameter its active rows and columns. The axes of a group refer to one array.

    A computed parameter with a trained source is there as a whole.
    """
    blocks = _trained_parameters(spec, trainable)
    for name, sources in spec.computed.items():  # a computed parameter needs a gradient if one of its sources does
        if not blocks.keys().isdisjoint(sources):
            blocks[name] = (None, None)
    return blocks


def _trained_parameters(spec: ModelSpec, trainable: Trainable) -> dict[str, RowsCols]:
    learned = {name: param for name, param in spec.params.items() if param.kind == "learn"}
    if not isinstance(trainable, NeuronSet):
        return {name: (None, None) for name in learned if trainable is None or layer_of(name) in trainable}
    expanded: dict[Axis | None, Index] = {None: None}
    for param in spec.params.values():
        for axis, size in zip((param.rows, param.cols), param.shape, strict=False):
            if axis not in expanded:
                expanded[axis] = trainable.ids(axis, size)
    return {name: (expanded[param.rows], expanded[param.cols]) for name, param in learned.items()}


def saved_channels(node: Node, blocks: Mapping[str, RowsCols]) -> Index:
    """Return the input channels (features) that the layer's weight gradient reads, or an empty array without this
    gradient.
    """
    rows, cols = own_rows(node, blocks), blocks.get(node.full_name(node.op.main), (NONE, NONE))[1]
    if isinstance(node.op, ConvTranspose2d):
        rows, cols = blocks.get(node.full_name("weight"), (NONE, NONE))[::-1]
    if is_empty(rows) or is_empty(cols):
        return NONE
    if isinstance(node.op, Conv2d) and node.op.groups == node.op.in_channels > 1:
        return owners(rows, node.op.out_channels // node.op.in_channels, node.op.in_channels)
    return cols


def _groups(node: Node, needs: Mapping[str, Index]) -> Index:
    op, channels = node.op, needs.get(node.name, NONE)
    if isinstance(op, SelfAttention):
        return owners(channels, op.head_dim, op.num_heads)
    assert isinstance(op, GroupNorm)
    return owners(channels, op.num_channels // op.num_groups, op.num_groups)
