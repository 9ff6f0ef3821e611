"""Schedule: one training step or forward pass as a list of kernel calls over one arena. Values only: nothing runs here.

The arguments of a call are plain values (sizes, ids), or references that are resolved when the schedule is bound to
memory. A Tensor is a view of an arena buffer, and a Param is a view of a model parameter. Codes and a Scale belong to a
quantized parameter. A Structure lists the coordinates of a sparse parameter. A Companion is an array of the same size
as a trained block, which lives as long as a fit. A Slot is an input, an output or a setting that the learner owns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgefl.kernels.arrays import Index
from edgefl.models.graph.operations import Shape

Existing = NDArray[np.uint8]  # a bit for each coordinate of a flattened parameter, low bits first
BufferKind = Literal["float", "int32", "byte"]
StructureKind = Literal["structure", "order", "structure_t", "order_t"]
CompanionKind = Literal["velocity", "mean", "square", "centre", "linear"]
LOSS = "loss"  # Call.node of the loss and all that belongs to it
SlotName = Literal[
    "x", "y", "scale", "shift", "index", "loss", "correct", "hyper", "total", "total_bits", "clip", "dropout", "adam",
    "adam_steps", "rates", "output_weight", "auxiliary_correct",
]  # fmt: skip


class Buffer(NamedTuple):
    """Memory of `size` elements that holds live values from call `first` to call `last`, both included."""

    kind: BufferKind
    size: int
    first: int
    last: int

    def bytes(self, float_bytes: int) -> int:
        return self.size * {"float": float_bytes, "int32": 4, "byte": 1}[self.kind]


class Tensor(NamedTuple):
    """A view of a whole arena buffer. Several tensors may view one buffer with different shapes.

    lanes  images that lie side by side in memory: [B / lanes, C, H, W, lanes] for a shape [B, C, H, W]
           (batch_layout.py)
    """

    buffer: int
    shape: Shape
    lanes: int = 1

    def view(self, *shape: int) -> Tensor:
        return Tensor(self.buffer, shape)

    @property
    def words(self) -> Tensor:
        """The cells as [B / lanes, C, H, W, lanes], as they lie in memory."""
        batch, *plane = self.shape
        return self.view(batch // self.lanes, *plane, self.lanes)

    @property
    def planes(self) -> Tensor:
        """The cells as [B / lanes, C, H W, lanes]."""
        batch, channels, *plane = self.shape
        return self.view(batch // self.lanes, channels, math.prod(plane), self.lanes)

    @property
    def channels(self) -> Tensor:
        """The shape for work on channels or single values, where images side by side are one image with longer rows."""
        if self.lanes == 1:
            return self
        *outer, width, lanes = self.words.shape
        return self.view(*outer, width * lanes)


class Param(NamedTuple):
    name: str
    shape: Shape

    def view(self, *shape: int) -> Param:
        return Param(self.name, shape)


class Codes(NamedTuple):
    """The codes [rows, columns, bytes] of a quantized parameter."""

    param: str
    shape: Shape


class TapCodes(NamedTuple):
    """The codes [outputs, rows, columns, inputs] of an int8 weight, whose taps lie before its inputs."""

    param: str
    shape: Shape


class Scale(NamedTuple):
    """The scales of a quantized parameter's rows or columns."""

    param: str
    size: int


class Structure(NamedTuple):
    """An array that says which coordinates a sparse parameter has, and in which order its values lie."""

    kind: StructureKind
    param: str


class Companion(NamedTuple):
    """An array for a parameter block, laid out like the block's compact gradient: [rows, cols, inner], or [1, 1,
    values].
    """

    kind: CompanionKind
    param: str
    shape: Shape


class Slot(NamedTuple):
    name: SlotName


class IndexPart(NamedTuple):
    """A part of the slot "index": the rows of `size` examples of the batch, from position `first` on."""

    first: int
    size: int


class AuxiliarySlot(NamedTuple):
    """The targets or the sum of losses of an auxiliary output, by its position among these outputs."""

    name: Literal["y", "loss"]
    position: int


class KernelCall(NamedTuple):
    """A kernel and its arguments. `node` is the node of the graph for which the call is made, or "input" or "loss"."""

    op: str
    args: tuple[Any, ...]
    node: str


class TrainedBlock(NamedTuple):
    """The part of a parameter that is trained: rows of axis 0 and columns of axis 1, each None for all.

    A part with a mask has positions of the flattened parameter in place of rows and columns.
    """

    rows: Index
    cols: Index
    values: Tensor  # gradient of the block, [|rows|, |cols|, ...]
    is_sparse: bool = False  # whether these are the values of a sparse parameter, in their order
    flat: NDArray[np.uint32] | None = None  # positions of the values [|flat|]


@dataclass(frozen=True)
class Schedule:
    """A recorded pass for one batch size, neuron set and set of options.

    offsets    byte offset of each buffer in the arena, a multiple of 64
    output     logits or features, valid after the last call. None in training
    gradients  parameter -> its trained block. The values are valid after the last call in mode "gradient" only
    states     Companion arrays to which the calls refer. They depend on the neuron set and not on the batch
    found      parameter -> coordinates of its largest gradients, valid after the last call in mode "grow"
    """

    batch: int
    calls: tuple[KernelCall, ...]
    buffers: tuple[Buffer, ...]
    offsets: tuple[int, ...]
    arena_bytes: int
    output: Tensor | None
    gradients: dict[str, TrainedBlock]
    states: tuple[Companion, ...]
    found: dict[str, Tensor] = field(default_factory=dict)

    def state_bytes(self, float_bytes: int) -> int:
        return sum(math.prod(state.shape) for state in self.states) * float_bytes

    def id_lists(self) -> list[NDArray[np.int32] | Existing]:
        """Return the id lists of all calls, each list once."""
        return list({id(arg): arg for call in self.calls for arg in call.args if isinstance(arg, np.ndarray)}.values())

    def index_bytes(self) -> int:
        """Return the bytes of the id lists of all calls, each list counted once."""
        return sum(ids.nbytes for ids in self.id_lists())
