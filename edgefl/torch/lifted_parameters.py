"""Parameters that forward computes from parameters, as computed parameters of a graph, and rows of a table.

aten_lifting.py lifts the nodes that read them. models/graph/computed_parameters.py says what each operation computes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx

from edgefl.errors import GraphError
from edgefl.models.graph.computed_parameters import (
    ComputedParameter,
    MatrixProduct,
    ParameterOperation,
    ParameterProduct,
    ParameterRows,
    ParameterSum,
    ReshapedParameter,
    ScaledParameter,
    StackedParameters,
    TransposedMatrix,
    WeightNorm,
)
from edgefl.torch.code_lines import packet
from edgefl.torch.parameter_chains import CHAINS, reshaped

Known = Callable[[Any], Any]
RESHAPING = frozenset(("view", "_unsafe_view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze"))


class LiftedParameters:
    """The parameters of an exported graph, and the values that follow from parameters.

    names     full names of parameters, by node. Nodes of computed values are among them once a call needs their names
    computed  computed parameters so far, in topological order
    values    values of parameters and computed parameters, by name
    known     function that returns the value of a constant node or of a number
    constant  function that publishes a constant as a frozen parameter, and returns its name
    """

    def __init__(self, known: Known, constant: Callable[[Tensor], str]) -> None:
        self.names: dict[fx.Node, str] = {}
        self.computed: list[ComputedParameter] = []
        self.values: dict[str, Tensor] = {}
        self._known, self._publish = known, constant
        self._nodes: set[fx.Node] = set()

    def __contains__(self, node: object) -> bool:
        return node in self._nodes

    def add(self, node: fx.Node, name: str, value: Tensor) -> None:
        """Add a parameter of the module."""
        self._nodes.add(node)
        self.names[node], self.values[name] = name, value

    def follow(self, node: fx.Node) -> None:
        """Add a node that reads parameters and constants alone."""
        self._nodes.add(node)

    def name_of(self, node: fx.Node) -> str:
        """Return the name of a parameter, or of the computed parameter that a node becomes.

        Raises  GraphError for a computation that edgefl does not have
        """
        if node not in self.names:
            if packet(node) == "embedding" and (row := self._repeated_row(node)):
                return row
            found = self._operation(node)
            if found is None:
                self.names[node] = reshaped(self, CHAINS[packet(node)](self, node), _shape(node))
                return self.names[node]
            op, sources = found
            names = tuple(self.name_of(each) for each in sources)
            self._append(node, f"computed-{len(self.computed)}", op, names)
        return self.names[node]

    def apply(self, op: ParameterOperation, *names: str) -> str:
        """Append a computed parameter, and return its name."""
        arrays = [self.values[each].reshape(shape).numpy() for each, shape in zip(names, op.sources, strict=True)]
        name = f"computed-{len(self.computed)}"
        self.computed.append(ComputedParameter(name, op, names))
        self.values[name] = torch.from_numpy(op.value(*arrays)).clone().reshape(op.result)
        return name

    def constant(self, value: Tensor) -> str:
        """Return the name of a constant, which is a frozen parameter."""
        name = self._publish(value)
        self.values[name] = value
        return name

    def shape_of(self, name: str) -> tuple[int, ...]:
        """Return the shape of a parameter."""
        return tuple(self.values[name].shape)

    def known(self, argument: object) -> Tensor:
        """Return the value of a constant."""
        found = self._known(argument)
        assert isinstance(found, Tensor)
        return found

    def stacked(self, sources: list[fx.Node]) -> str:
        """Return the name of the rows of several parameters below each other."""
        name = f"computed-{len(self.computed)}"
        names = tuple(self.name_of(each) for each in sources)
        values = [self.values[each] for each in names]
        op = StackedParameters(tuple(len(each) for each in values), tuple(values[0].shape[1:]))
        self.computed.append(ComputedParameter(name, op, names))
        self.values[name] = torch.cat(values)
        return name

    def transposed(self, source: fx.Node) -> str:
        """Return the name of a transposed matrix."""
        name, value = f"computed-{len(self.computed)}", self.values[self.name_of(source)]
        self.computed.append(ComputedParameter(name, TransposedMatrix(*value.shape), (self.name_of(source),)))
        self.values[name] = value.t().contiguous()
        return name

    def _append(self, node: fx.Node, name: str, op: ParameterOperation, names: tuple[str, ...]) -> None:
        arrays = [self.values[each].reshape(shape).numpy() for each, shape in zip(names, op.sources, strict=True)]
        self.computed.append(ComputedParameter(name, op, names))
        self.names[node], self.values[name] = name, torch.from_numpy(op.value(*arrays)).clone().reshape(_shape(node))

    def _operation(self, node: fx.Node) -> tuple[ParameterOperation, list[fx.Node]] | None:
        """Return the operation that computes a node, and the nodes of its sources.

        A chain of operations has no single operation, and gives None.
        Raises  GraphError for a computation that edgefl does not have
        """
        name, sources = packet(node), [each for each in node.all_input_nodes if each in self._nodes]
        shape, before = _shape(node), _shape(sources[0])
        same = len(sources) == 2 and _shape(sources[1]) == before == shape
        if name in RESHAPING or (name in ("to", "_to_copy", "clone", "contiguous", "alias") and shape == before):
            return ReshapedParameter(before, shape), sources
        if name in ("t", "transpose", "permute") and len(shape) == 2 and shape == before[::-1]:
            return TransposedMatrix(*before), sources
        if name in ("mm", "matmul") and len(sources) == 2 and len(shape) == 2:
            return MatrixProduct(before[0], before[1], shape[1]), sources
        if name == "_weight_norm" and node.args[2:] in ((), (0,)):
            return WeightNorm(shape), sources[::-1]
        if name in ("add", "mul") and same and not node.kwargs:
            return (ParameterSum if name == "add" else ParameterProduct)(shape), sources
        if name in ("mul", "div") and len(sources) == 1 and shape == before and node.args[0] is sources[0]:
            factor = torch.as_tensor(self._known(node.args[1]))
            if factor.numel() == 1 and float(factor) > 0:
                return ScaledParameter(shape, float(factor) if name == "mul" else 1 / float(factor)), sources
        if name == "slice" and _step(node) == 1 and math.prod(before[: _dim(node)]) == 1:
            rows = before[_dim(node) :]
            start: Any = (node.args[2] or 0) if len(node.args) > 2 else 0
            return ParameterRows(rows, start % rows[0] if start < 0 else start, shape[_dim(node)]), sources
        if name == "embedding" and (neighbours := self._rows(node)) is not None:
            return neighbours, sources
        if name in CHAINS:
            return None
        raise GraphError("a value that forward computes from parameters; expected parameters as they are")

    def _repeated_row(self, node: fx.Node) -> str:
        """Return the name of one row of a table that constant ids repeat, such as a token type, or an empty text."""
        ids, source = self._known(node.args[1]).flatten(), node.all_input_nodes[0]
        table = _shape(source)
        if len(ids) < 2 or bool((ids != ids[0]).any()):
            return ""
        row, name = f"computed-{len(self.computed)}", f"computed-{len(self.computed) + 1}"
        rows = ParameterRows(table, int(ids[0]), 1)
        self.computed.append(ComputedParameter(row, rows, (self.name_of(source),)))
        self.computed.append(ComputedParameter(name, ReshapedParameter(rows.result, table[1:]), (row,)))
        self.values[row] = self.values[self.name_of(source)][int(ids[0])][None].clone()
        self.values[name] = self.values[row].clone().view(*(1 for _ in node.meta["val"].shape[1:]), table[1])
        self.names[node] = name
        return name

    def _rows(self, node: fx.Node) -> ParameterRows | None:
        """Return the operation for neighbouring rows of a table at constant ids, or None for other rows."""
        ids, table = self._known(node.args[1]).flatten(), _shape(node.all_input_nodes[0])
        start = int(ids[0])
        if not torch.equal(ids, torch.arange(start, start + len(ids))):
            return None
        return ParameterRows(table, start, len(ids))


def _shape(node: fx.Node) -> tuple[int, ...]:
    """Return the shape of a node, in which an axis of the batch has extent 1."""
    return tuple(1 if isinstance(size, torch.SymInt) else int(size) for size in node.meta["val"].shape)


def _dim(node: fx.Node) -> int:
    found = node.args[1] if len(node.args) > 1 else 0
    assert isinstance(found, int)
    return found % len(node.meta["val"].shape)


def _step(node: fx.Node) -> Any:
    return node.args[4] if len(node.args) > 4 else 1
