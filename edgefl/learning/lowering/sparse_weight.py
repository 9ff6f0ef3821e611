"""The choice of the masked weights that are multiplied without their zeros, and their memory. Nothing runs here.

Such a weight exists as values alone: a float for each coordinate of its mask, in the order in which its structure lists
the coordinates. The learner that holds the structures builds them. This module computes their lengths.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import ModuleType

from edgefl.kernels import sparse_choice, sparse_layout, weight_structure
from edgefl.models.graph import Graph, Node
from edgefl.models.graph.operations import Conv2d, Linear, Shape
from edgefl.models.graph.planar import planar
from edgefl.models.neurons.model_spec import ModelSpec


@dataclass(frozen=True)
class SparseWeight:
    """A masked weight of a layer of which `count` coordinates exist. The lengths follow from this number alone.

    node   node of the layer, with planes as inputs
    shape  shape of the weight in the model. The weight of a Conv1d has three axes
    size   height and width of a convolution's input. () for a Linear layer
    batch  examples for which a Linear layer's structure is laid out
    lanes  images that the kernels compute side by side
    """

    node: Node
    shape: Shape
    size: tuple[int, ...]
    count: int
    batch: int
    lanes: int = 1

    @property
    def op(self) -> str:
        """The name of the layer's operation in the kernels' families."""
        return "conv2d" if isinstance(self.node.op, Conv2d) else "linear"

    @property
    def planar_shape(self) -> Shape:
        """The shape of the weight as kernels read it."""
        return self.node.op.parameters()["weight"].shape

    @property
    def has_transposed(self) -> bool:
        """Return whether the gradient of the input reads a structure of its own, and values in the order of that
        structure.
        """
        return sparse_choice.keeps_transposed(self.op, self.batch)

    @property
    def words(self) -> tuple[int, int]:
        """The uint32 words of the structure and of the transposed structure. The latter is 0 without a transposed
        structure.
        """
        op = self.node.op
        if isinstance(op, Conv2d):
            forward, transposed = (layout.words for layout in _layouts(op, self.size, self.count))
            return forward, transposed
        rows, columns = self.shape
        forward = weight_structure.plan(rows, columns, self.count, self.batch).words
        transposed = weight_structure.plan(columns, rows, self.count, self.batch).words
        return forward, transposed if self.has_transposed else 0

    @property
    def index_bytes(self) -> int:
        """The bytes of the structures and of the positions of their values."""
        return 4 * (sum(self.words) + self.count * (2 if self.has_transposed else 1))


def sparse_weights(
    graph: Graph, spec: ModelSpec, counts: Mapping[str, int], batch: int, ops: ModuleType
) -> dict[str, SparseWeight]:
    """Return the masked weights that a learner holds as values alone, because they run at least as fast
    without zeros.
    """
    graph = planar(graph)
    found = {name: candidate(graph, spec, name, count, batch) for name, count in counts.items()}
    lanes = sparse_choice.LANES.get(isa_of(ops), 1)
    return {
        name: replace(each, lanes=lanes) for name, each in found.items() if each is not None and runs_sparse(each, ops)
    }


def isa_of(ops: ModuleType) -> str:
    """Return the instruction set of a backend. It is "" for a backend without an instruction set."""
    isa = getattr(ops, "isa", None)
    return isa() if isa is not None else ""


def runs_sparse(weight: SparseWeight, ops: ModuleType) -> bool:
    """Return whether the layer is not slower without its zeros. Kernels without an instruction set skip no zeros."""
    shape = (*weight.planar_shape, *weight.size)
    return sparse_choice.runs_sparse(
        weight.op, shape, weight.batch, weight.count / math.prod(weight.shape), isa_of(ops)
    )


def candidate(graph: Graph, spec: ModelSpec, name: str, count: int, batch: int) -> SparseWeight | None:
    """Return the weight of this name with `count` coordinates, or None if its layer cannot run sparse.

    A shared weight is whole, because a structure belongs to one layer. So is a source of a computed weight.
    """
    if name in graph.collected:
        return None
    node = next((node for node in graph.nodes if node.full_name("weight") == name), None)
    if node is None or not isinstance(node.op, Conv2d | Linear):
        return None
    size = tuple(graph.shapes[node.inputs[0]][1:]) if isinstance(node.op, Conv2d) else ()
    if isinstance(node.op, Conv2d) and (
        node.op.groups > 1 or not all(layout.fits for layout in _layouts(node.op, size, count))
    ):
        return None
    return SparseWeight(node, spec.params[name].shape, size, count, batch)


def _layouts(
    op: Conv2d, size: Shape, count: int
) -> tuple[sparse_layout.SparseConvolutionLayout, sparse_layout.SparseConvolutionLayout]:
    height, width = size
    geometry = (op.kernel_size, op.stride, op.padding, op.dilation)
    layer = sparse_layout.ConvolutionShape(op.in_channels, op.out_channels, (height, width), *geometry)
    return sparse_layout.SparseConvolutionLayout(layer, count, False), sparse_layout.SparseConvolutionLayout(
        layer, count, True
    )


Sparse = Mapping[str, SparseWeight]
