"""A graph under construction: operations that are added one after another, and values that are moved into the order of
axes in which an operation reads them. Operations that the output does not need are left out at the end.

node_names.py finds the names of the nodes. The files of operators choose the operations.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import permutations

import numpy as np

from edgefl.errors import GraphError
from edgefl.models.graph.graph import INPUT, Graph, Model, Node
from edgefl.models.graph.json import Limits, dumps, loads
from edgefl.models.graph.operations import Flatten, FlattenPlaces, Operation, Permute, Reshape, Shape
from edgefl.models.onnx.axis_atoms import OnnxResult
from edgefl.models.onnx.node_names import Naming

MOST_EXTENTS = 3  # extents of a result of a graph, without the batch
LIMITS = Limits()  # the limits that hold for every stored graph


@dataclass
class NodeDraft:
    """A node under construction. The output of the file decides whether it becomes a node of the graph.

    values   its parameters by the last part of their names
    origins  name of the constant in the file that each parameter comes from, or ""
    label    name of the ONNX node
    module   path of the torch module that the ONNX node was exported from, or ""
    frozen   whether its parameters are constants that nobody trains, such as a scale of 1 / 255
    """

    op: Operation
    inputs: tuple[str, ...]
    shape: Shape
    label: str
    values: dict[str, np.ndarray] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    frozen: bool = False
    module: str = ""


Join = Callable[[dict[str, NodeDraft], list[str], str], tuple[dict[str, NodeDraft], list[str]]]


class Assembly:
    """The nodes so far. The names of results are numbers as text until the end."""

    def __init__(self, input_shape: Shape) -> None:
        self.drafts: dict[str, NodeDraft] = {}
        self.label, self.module = "", ""  # of the ONNX node whose operations are added
        self._input_shape = input_shape
        self._views: dict[tuple[str, Operation], str] = {}

    def shape(self, name: str) -> Shape:
        return self._input_shape if name == INPUT else self.drafts[name].shape

    def add(
        self,
        op: Operation,
        inputs: Sequence[str],
        values: dict[str, np.ndarray] | None = None,
        origins: dict[str, str] | None = None,
        frozen: bool = False,
    ) -> str:
        """Add an operation and return the name of its result. Raises GraphError if its inputs do not fit."""
        view = (inputs[0], op) if isinstance(op, Permute | Reshape | Flatten | FlattenPlaces) else None
        if view in self._views:
            return self._views[view]
        inputs = [self._distinct(name) if name in inputs[:at] else name for at, name in enumerate(inputs)]
        shape = op.output(*(self.shape(name) for name in inputs))
        name = str(len(self.drafts))
        label, module = ("", "") if view else (self.label, self.module)
        held = values or {}, origins or {}
        self.drafts[name] = NodeDraft(op, tuple(inputs), shape, label, *held, frozen, module)
        if view:
            self._views[view] = name
        return name

    def _distinct(self, name: str) -> str:
        """Return a second result with the values of a result, because an operation reads different results."""
        shape, copy = self.shape(name), str(len(self.drafts))
        op = Flatten() if len(shape) == 1 else Reshape(shape[1:])
        self.drafts[copy] = NodeDraft(op, (name,), shape, "")
        return copy

    def placed(self, value: OnnxResult, extents: Sequence[Sequence[int]]) -> str:
        """Return the name of a result with these extents, given as atoms of the value. Values are moved if they must.

        Raises  GraphError if that takes more than one exchange of three parts
        """
        order = [atom for extent in extents for atom in extent]
        shape = tuple(math.prod(value.size(atom) for atom in extent) for extent in extents)
        if sorted(order) != list(range(len(value.atoms))) or not 1 <= len(shape) <= MOST_EXTENTS:
            raise GraphError(f"{value}, of which {shape} would be needed; expected 1 to {MOST_EXTENTS} extents")
        if order == list(range(len(order))):
            return self.viewed(value.name, shape)
        return self._moved(value, order, shape)

    def viewed(self, name: str, shape: Shape) -> str:
        """Return a result with its values in unchanged order in another shape."""
        if self.shape(name) == shape:
            return name
        return self.add(Flatten() if len(shape) == 1 else Reshape(shape[1:]), (name,))

    def _moved(self, value: OnnxResult, order: list[int], shape: Shape) -> str:
        if (direct := _permutation(value, order, shape)) is not None:
            turned = tuple(value.shape[axis] for axis in direct)
            if turned != shape and len(shape) == 1 and direct == (*range(1, len(direct)), 0):
                return self.add(FlattenPlaces(), (value.name,))
            return self.viewed(self.add(Permute(direct), (value.name,)), shape)
        runs = _runs(order)
        if len(runs) > MOST_EXTENTS:
            raise GraphError(f"{value} with its axes in another order; expected an exchange of at most 3 parts")
        blocks = sorted(runs)
        sizes = tuple(math.prod(value.atoms[first:end]) for first, end in blocks)
        whole = self.viewed(value.name, sizes)
        return self.viewed(self.add(Permute(tuple(blocks.index(run) for run in runs)), (whole,)), shape)

    def model(self, output: str, naming: Naming, join: Join) -> Model:
        """Return the model whose output is a result. Raises GraphError for a graph that contradicts itself.

        join  joins operations, from the drafts, the names of those that are kept, and the name of the output
        """
        wanted, kept = {output}, []
        for name, draft in reversed(self.drafts.items()):
            if name in wanted:
                wanted |= set(draft.inputs)
                kept.append(name)
        kept.reverse()
        if not kept:
            return self.model(self._distinct(output), naming, join)
        if len(kept) > LIMITS.nodes:
            raise GraphError(f"{len(kept)} operations; the limit is {LIMITS.nodes}")
        drafts, kept = join(self.drafts, kept, output)
        names = {INPUT: INPUT} | naming.names({name: drafts[name] for name in kept})
        _warn_of_copies([drafts[name] for name in kept])
        nodes, params, frozen = [], dict[str, np.ndarray](), set[str]()
        for name in kept:
            draft = drafts[name]
            node = Node(names[name], draft.op, tuple(names[each] for each in draft.inputs))
            nodes.append(node)
            own = {node.full_name(part): draft.values[part] for part in draft.op.parameters()}
            params |= own
            frozen |= own.keys() if draft.frozen else set()
        graph = Graph(self._input_shape, tuple(nodes), frozenset(frozen), constants=frozenset(frozen))
        loads(dumps(graph), LIMITS)  # before values are copied
        return Model(graph, {name: np.ascontiguousarray(params[name]) for name in graph.parameters()})


def _warn_of_copies(drafts: Sequence[NodeDraft]) -> None:
    """Warn of constants of the file that several nodes have as a parameter. A graph has no shared weights."""
    counts = Counter(origin for draft in drafts for origin in set(draft.origins.values()) if origin)
    shared = [(name, count) for name, count in counts.items() if count > 1]
    if shared:
        name, count = shared[0]
        more = f", and so are {len(shared) - 1} other constants" if len(shared) > 1 else ""
        text = f"{name[:200]!r} is used by {count} layers{more}; each layer gets a copy of its own"
        warnings.warn(text, stacklevel=3)


def _permutation(value: OnnxResult, order: list[int], shape: Shape) -> tuple[int, ...] | None:
    """Return the order of the axes of the value's own result that gives the wanted order of atoms, or None.

    Where several orders do, it is one that gives the wanted shape.
    """
    if len(value.shape) < 2:
        return None
    members, at = list[list[int]](), 0
    for size in value.shape:
        own = list[int]()
        while size > 1 and at < len(value.atoms) and size % value.atoms[at] == 0:
            size //= value.atoms[at]
            own.append(at)
            at += 1
        if size > 1:
            return None  # an atom reaches over two axes
        members.append(own)
    fitting = [
        each for each in permutations(range(len(members))) if [atom for axis in each for atom in members[axis]] == order
    ]
    exact = [each for each in fitting if tuple(value.shape[axis] for axis in each) == shape]
    return next(iter(exact or fitting), None)


def _runs(order: list[int]) -> list[tuple[int, int]]:
    """Return the runs of consecutive atoms in an order, as (first, end)."""
    runs: list[tuple[int, int]] = []
    for atom in order:
        if runs and runs[-1][1] == atom:
            runs[-1] = (runs[-1][0], atom + 1)
        else:
            runs.append((atom, atom + 1))
    return runs
