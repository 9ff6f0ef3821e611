"""The state that a lowering shares while it walks a graph: recorded calls, the buffers that they touch, and saved
values.

forward.py, backward.py and updates.py record through this module. lower.py turns the result into a Schedule. Lifetimes
follow from the calls: a buffer lives from the first call that names it to the last.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from edgefl.kernels.table import TABLE
from edgefl.learning.lowering.active_ids import ActiveIndices
from edgefl.learning.lowering.batch_layout import keeps, lanes_of
from edgefl.learning.lowering.channel_sets import NONE, is_empty
from edgefl.learning.lowering.fusion import FusedNormReLU
from edgefl.learning.lowering.gradient_needs import own_rows
from edgefl.learning.lowering.quantized_weights import widened_call
from edgefl.learning.lowering.schedule import Buffer, BufferKind, Index, KernelCall, Param, Tensor
from edgefl.learning.lowering.sparse_weight import SparseWeight
from edgefl.models.graph import INPUT, Graph, Node
from edgefl.models.graph.expression_gradient import gradient
from edgefl.models.graph.operations import (
    VIEWS,
    AnyDropout,
    Attention,
    Conv2d,
    Elementwise,
    Embedding,
    GroupNorm,
    Mul,
    MulParameter,
    PReLU,
    Recurrent,
    Reduce,
    RMSNorm,
    Shape,
    Sigmoid,
    Smooth,
    Tanh,
)
from edgefl.models.graph.quantized_parameters import QuantizedParameter
from edgefl.models.neurons.model_spec import ModelSpec


class Scope(NamedTuple):
    """The scope of a lowering: the graph, one batch size, and what is trained. A forward pass trains nothing."""

    graph: Graph
    spec: ModelSpec
    batch: int
    active: ActiveIndices  # the id lists of what is trained
    in_place: bool  # whether weight gradients of Linear layers go into the weights without being stored
    trains: bool  # whether there are batch statistics, and values saved for a backward pass
    sparse: Mapping[str, SparseWeight] = MappingProxyType({})  # weights that exist as values alone
    side_by_side: frozenset[str] = frozenset()  # results whose images lie side by side
    copies: bool = True  # whether active inputs are copied, so that the other inputs can be freed
    drops: bool = False  # whether dropout acts
    int8_activations: bool = False  # whether products with int8 weights round their inputs to int8
    kept: frozenset[str] = frozenset()  # results from which parts of the forward pass are computed again

    def lanes(self, name: str) -> int:
        """Return the number of images of a result that lie side by side."""
        return lanes_of(self.sparse) if name in self.side_by_side else 1

    def defers(self, weight: str) -> bool:
        """Return whether the gradient of a Linear layer's weight goes into the weight without being stored.

        The gradient of a shared or computed weight is stored, because it is added to others or passed on. The gradient
        of a weight of which a part is trained is stored, too.
        """
        is_stored = weight in self.sparse or weight in self.active.taken or weight in self.graph.collected
        return self.in_place and not is_stored

    def drops_at(self, node: Node) -> bool:
        """Return whether the result of a dropout differs from its input."""
        return self.drops and node.op.drops

    def is_view(self, node: Node) -> bool:
        """Return whether a node's result is its input, with another shape or with its own."""
        return isinstance(node.op, VIEWS) or (isinstance(node.op, AnyDropout) and not self.drops_at(node))


class SavedInput(NamedTuple):
    """A layer's input as the weight gradient reads it. `ids` are its active planes within `values`."""

    values: Tensor
    ids: Index


@dataclass
class Recorder:
    """A record of calls and buffers (see the module's docstring).

    node    node for which calls are made until it changes: a node's name, "input" or "loss"
    values  result -> the tensor that holds it
    inputs  layer -> its saved input
    copies  result -> copies of its active channels, with these channels
    extras  (node, what) -> other saved tensors: ReLU bits, pooling codes, normalised values
    found   parameter -> the coordinates of its largest gradients
    computed  computed parameter -> its value
    rewrite   function of a call's name and arguments that returns other arguments, for a part of the batch
    repeats   whether calls are made again. Then memory that nothing reads takes the place of a parameter that changes
    """

    scope: Scope
    node: str = INPUT
    calls: list[KernelCall] = field(default_factory=list)
    values: dict[str, Tensor] = field(default_factory=dict)
    inputs: dict[str, SavedInput] = field(default_factory=dict)
    copies: dict[str, list[SavedInput]] = field(default_factory=dict)
    extras: dict[tuple[str, str], Tensor] = field(default_factory=dict)
    found: dict[str, Tensor] = field(default_factory=dict)
    computed: dict[str, Param | Tensor] = field(default_factory=dict)
    repeats: bool = False
    rewrite: Callable[[str, tuple[Any, ...]], tuple[Any, ...]] | None = None
    _buffers: list[tuple[BufferKind, int]] = field(default_factory=list)
    _first: dict[int, int] = field(default_factory=dict)
    _last: dict[int, int] = field(default_factory=dict)
    _kept: set[int] = field(default_factory=set)

    @property
    def int8_activations(self) -> bool:
        return self.scope.int8_activations

    @property
    def quantized(self) -> Mapping[str, QuantizedParameter]:
        return self.scope.graph.quantized_by_name

    def rows(self, name: str) -> int:
        """Return the extent of a parameter's first axis."""
        return self.scope.spec.params[name].shape[0]

    def new(self, shape: Shape, kind: BufferKind = "float", lanes: int = 1) -> Tensor:
        """Return a tensor in a new buffer."""
        self._buffers.append((kind, math.prod(shape)))
        return Tensor(len(self._buffers) - 1, shape, lanes)

    def like(self, tensor: Tensor) -> Tensor:
        """Return a tensor in a new buffer, with the shape and the layout of this tensor."""
        return self.new(tensor.shape, lanes=tensor.lanes)

    def result(self, node: Node) -> Tensor:
        """Return a tensor in a new buffer for the node's result."""
        shape = (self.scope.batch, *self.scope.graph.shapes[node.name])
        return self.new(shape, lanes=self.scope.lanes(node.name))

    def laid(self, tensor: Tensor, lanes: int) -> Tensor:
        """Return the same values with `lanes` images side by side.

        They are turned into a new buffer unless they have this layout already.
        """
        if tensor.lanes == lanes:
            return tensor
        turned = self.new(tensor.shape, lanes=lanes)
        op = "to_lanes" if lanes > 1 else "from_lanes"
        self.call(op, tensor, max(lanes, tensor.lanes), turned)
        return turned

    def call(self, op: str, *args: Any) -> None:
        if self.repeats:
            args = tuple(self._unread(arg) if is_changed else arg for arg, is_changed in changed_parameters(op, args))
        if self.scope.graph.quantized:
            op, args = widened_call(self, op, args)
        args = args if self.rewrite is None else self.rewrite(op, args)
        position = len(self.calls)
        for arg in args:
            if isinstance(arg, Tensor):
                self._first.setdefault(arg.buffer, position)
                self._last[arg.buffer] = position
        self.calls.append(KernelCall(op, args, self.node))

    def _unread(self, param: Param) -> Tensor:
        """Return zeros that take the place of a parameter which a call changes."""
        zeros = self.new(param.shape)
        position = len(self.calls)
        self._first[zeros.buffer] = self._last[zeros.buffer] = position
        self.calls.append(KernelCall("fill_zero", (zeros,), self.node))
        return zeros

    def keep(self, tensor: Tensor) -> None:
        """Let the tensor's values live to the end of the pass."""
        self._kept.add(tensor.buffer)

    def is_kept(self, buffer: int) -> bool:
        """Return whether the buffer's values live to the end of the pass."""
        return buffer in self._kept

    def begin_part(self, scope: Scope, rewrite: Callable[[str, tuple[Any, ...]], tuple[Any, ...]]) -> None:
        """Forget the values of the graph, to record the pass of the next part of the batch."""
        self.scope, self.rewrite = scope, rewrite
        for known in (self.values, self.inputs, self.copies, self.extras):
            known.clear()

    def again(self) -> Recorder:
        """Return a recorder with the same buffers and without calls, to record a changed pass."""
        return Recorder(self.scope, found=self.found, _buffers=list(self._buffers), _kept=set(self._kept))

    def buffers(self) -> tuple[Buffer, ...]:
        """Return all buffers with their lifetimes. A buffer that no call names lives at call 0 only."""
        end = len(self.calls)
        return tuple(
            Buffer(kind, size, self._first.get(i, 0), end if i in self._kept else self._last.get(i, 0))
            for i, (kind, size) in enumerate(self._buffers)
        )

    def source(self, node: Node) -> Tensor:
        """Return the node's first input in the layout in which the node reads it."""
        return self.read(node.inputs[0], node)

    def read(self, name: str, node: Node) -> Tensor:
        """Return a result in the layout in which a node reads it. Sparse convolutions read any layout."""
        value = self.values[name]
        if node.full_name("weight") in self.scope.sparse and isinstance(node.op, Conv2d):
            return value
        lanes = self.scope.lanes(node.name) if keeps(node) else 1
        if value.lanes == lanes:
            return value
        if (name, "turned") not in self.extras:
            self.extras[name, "turned"] = self.laid(value, lanes)
        return self.extras[name, "turned"]

    def param(self, node: Node, name: str) -> Param | Tensor:
        """Return a parameter, or the tensor of a computed parameter, in the shape in which the node reads it."""
        full, shape = node.full_name(name), node.op.parameters()[name].shape
        return self.computed.get(full, Param(full, shape)).view(*shape)

    def needed(self, name: str) -> bool:
        """Return whether the gradient of a result is needed."""
        return name in self.scope.active.needs

    def channels_needed(self, name: str) -> Index:
        return self.scope.active.needs.get(name, NONE)


def changed_parameters(op: str, args: tuple[Any, ...]) -> Iterator[tuple[Any, bool]]:
    """Yield each argument of a call, and whether it is a parameter that the call changes."""
    for row, arg in zip(TABLE[op].arguments, args, strict=False):
        yield arg, isinstance(arg, Param) and bool(row.access)


def _kept_by(node: Node, scope: Scope) -> tuple[str, ...]:
    """Return the results that the node's backward pass reads in addition to the saved inputs of layers."""
    active = scope.active
    if scope.graph.keeps_statistics(node):
        return node.inputs if node.full_name("weight") in active.blocks else ()
    if isinstance(node.op, Sigmoid | Tanh):
        return (node.name,) if node.inputs[0] in active.needs else ()
    if isinstance(node.op, Smooth):
        return node.inputs if node.inputs[0] in active.needs else ()
    if isinstance(node.op, MulParameter):
        return () if is_empty(own_rows(node, active.blocks)) else node.inputs
    if isinstance(node.op, PReLU | Embedding | Attention | RMSNorm):
        return node.inputs if node.name in active.needs else ()
    if isinstance(node.op, Elementwise):
        needed = [number for number, name in enumerate(node.inputs) if name in active.needs]
        programs = [gradient(node.op.expression, number) for number in needed]
        return tuple(name for at, name in enumerate(node.inputs) if any(at in program.reads for program in programs))
    if isinstance(node.op, Reduce) and node.op.kind in ("max", "min"):
        return (*node.inputs, node.name) if node.inputs[0] in active.needs else ()
    if isinstance(node.op, Mul):
        first, second = node.inputs
        return tuple(name for name, other in ((second, first), (first, second)) if other in active.needs)
    return ()


class Readers:
    """The readers that a result still has while the forward pass runs. They tell when a node may overwrite its input.

    Results that share memory (VIEWS, and dropout that does not act) are followed under one name.
    """

    def __init__(self, nodes: tuple[Node, ...], scope: Scope) -> None:
        active = scope.active
        self._root: dict[str, str] = {}
        self._last: dict[str, str] = {}
        self._saved: set[str] = set()
        self._count: Counter[str] = Counter()
        for node in nodes:
            self._root[node.name] = self.root(node.inputs[0]) if scope.is_view(node) else node.name
            for name in () if scope.is_view(node) else node.inputs:
                self._last[self.root(name)] = node.name
                self._count[self.root(name)] += 1
            if _is_saved_whole(node, scope):
                self._saved.add(self.root(node.inputs[0]))
            is_lanes = isinstance(node.op, GroupNorm) and node.name in scope.side_by_side
            is_fused = isinstance(node.op, FusedNormReLU) and not scope.graph.keeps_statistics(node.op.norm)
            if (is_fused or is_lanes) and active.blocks:
                self._saved.add(self.root(node.inputs[0]))
            kept = _kept_by(node, scope)
            self._saved.update(self.root(name) for name in kept)
            self._count.update(self.root(name) for name in kept if name == node.name)
        self._saved.update(self.root(name) for name in scope.kept)
        self._stays = {self.root(name) for name in scope.kept}
        kept_to_the_end = [each.result for each in scope.graph.auxiliary] if scope.trains else []
        for name in (*kept_to_the_end, *(node.name for node in nodes[-1:])):
            self._last[self.root(name)] = "output"
            self._count[self.root(name)] += name in kept_to_the_end

    def root(self, name: str) -> str:
        return self._root.get(name, name)

    def is_saved(self, name: str) -> bool:
        """Return whether a layer keeps the whole result for its backward pass."""
        return self.root(name) in self._saved

    def is_sole(self, name: str) -> bool:
        """Return whether one node alone reads the result, and the node that made it does not read it in its backward
        pass.
        """
        return self._count[self.root(name)] == 1 and self.root(name) not in self._stays

    def is_free(self, name: str, node: Node) -> bool:
        """Return whether nothing reads the result after `node`, which may then overwrite it."""
        return self._last[self.root(name)] == node.name and not self.is_saved(name)


def _is_saved_whole(node: Node, scope: Scope) -> bool:
    """Return whether the layer's input stays unchanged for its weight gradient. A recurrent layer keeps a
    turned copy.
    """
    if isinstance(node.op, Recurrent):
        return False
    ids = scope.active.saved.get(node.name, NONE)
    return ids is None or not (scope.copies or is_empty(ids))
