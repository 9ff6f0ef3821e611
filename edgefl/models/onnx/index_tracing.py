"""The places to which ONNX operators move values, found by moving the values' own indices.

A chain of operators from a source to a target may transpose, reshape, slice and scale by a constant, in any order that
an exporter has. The result says for each value of the target which value of the source it is. It is computed for a
small batch, and nothing is added to a graph.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from edgefl.errors import GraphError
from edgefl.models.onnx.axis_atoms import BATCH, OPEN_BATCH, OnnxResult
from edgefl.models.onnx.onnx_call import ComputationBudget, Constant, OnnxValue
from edgefl.models.onnx.onnx_content import OnnxNode

MOVING = ("Transpose", "Reshape", "Squeeze", "Unsqueeze", "Identity", "Slice", "Gather", "Split", "Flatten", "Cast")
LONGEST = 24  # operators in a chain
MOST_VALUES = 1 << 24  # of a mask
PRIMES = (5, 7, 11, 13, 17, 19, 23)  # batch sizes, of which one does not divide the number of values of a sample


class Traced(NamedTuple):
    """The values of a target: where they come from.

    source   the value from which the chain begins
    indices  for each value of the target, the index of a value of the source, for a batch of batch_of(source) samples
    scale    number by which all values are multiplied on the way
    """

    source: OnnxResult
    indices: np.ndarray
    scale: float


class Tracer:
    """The chains of operators in a file."""

    def __init__(
        self, makers: Mapping[str, OnnxNode], values: Mapping[str, OnnxValue], budget: ComputationBudget
    ) -> None:
        self._makers, self._values, self._budget = makers, values, budget

    def scalar(self, name: str) -> float | None:
        """Return a constant of one value as a number, or None for another value."""
        found = self._values.get(name)
        return float(found.array.reshape(())) if isinstance(found, Constant) and found.array.size == 1 else None

    def constant(self, name: str) -> np.ndarray | None:
        """Return the values of a constant, or None for another value."""
        found = self._values.get(name)
        is_small = isinstance(found, Constant) and found.array.size <= MOST_VALUES
        return found.array if isinstance(found, Constant) and is_small else None

    def scaling(self, node: OnnxNode) -> tuple[str, float] | None:
        """Return the input and the factor of a node that multiplies by one constant number, or None."""
        if node.operator not in ("Mul", "Div") or len(node.inputs) != 2:
            return None
        first, second = (self.scalar(name) for name in node.inputs)
        if second is not None and (node.operator == "Mul" or second):
            return node.inputs[0], second if node.operator == "Mul" else 1 / second
        return (node.inputs[1], first) if first is not None and node.operator == "Mul" else None

    def chain(self, name: str) -> tuple[str, list[tuple[OnnxNode, str]], float]:
        """Return the source of a value, the nodes on the way with their outputs, and the factor on the way."""
        steps, scale = list[tuple[OnnxNode, str]](), 1.0
        while (node := self._makers.get(name)) is not None and len(steps) < LONGEST:
            if (found := self.scaling(node)) is not None:
                name, scale = found[0], scale * found[1]
            elif node.operator in MOVING and not isinstance(self._values.get(node.inputs[0]), Constant):
                steps.append((node, name))
                name = node.inputs[0]
            else:
                break
        return name, steps[::-1], scale

    def traced(self, name: str) -> Traced:
        """Return where the values of a target come from. Raises GraphError for a chain that does more than move."""
        source, steps, scale = self.chain(name)
        value = self._values.get(source)
        if not isinstance(value, OnnxResult):
            raise GraphError(f"{source}; expected a value of the graph")
        batch = batch_of(value)
        extents = [batch if axis == (BATCH,) else size for axis, size in zip(value.axes, value.extents, strict=True)]
        self._budget.spend(math.prod(extents))
        index = np.arange(math.prod(extents), dtype=np.int32).reshape(extents)
        for node, output in steps:
            index = self._moved(node, output, index, batch)
        return Traced(value, index, scale)

    def _integers(self, node: OnnxNode, name: str, at: int, batch: int) -> list[int] | None:
        found = node.attributes.get(name)
        if found is None and len(node.inputs) > at and node.inputs[at]:
            constant = self._values.get(node.inputs[at])
            if not isinstance(constant, Constant):
                raise GraphError(f"{node}: {name} is not constant")
            found = constant.array.ravel().tolist()
        if found is None:
            return None
        return [_small(int(each), batch) for each in (found if isinstance(found, list) else [found])]

    def _moved(self, node: OnnxNode, output: str, index: np.ndarray, batch: int) -> np.ndarray:
        try:
            return self._moved_by(node, output, index, batch)
        except (ValueError, IndexError, TypeError) as error:
            raise GraphError(f"{node}: {error}") from None

    def _moved_by(self, node: OnnxNode, output: str, index: np.ndarray, batch: int) -> np.ndarray:
        axis = int(node.attributes.get("axis", 0))
        if node.operator == "Transpose":
            return index.transpose(node.attributes.get("perm"))
        if node.operator == "Reshape":
            wanted = self._integers(node, "shape", 1, batch) or []
            return index.reshape([index.shape[at] if size == 0 else size for at, size in enumerate(wanted)])
        if node.operator == "Squeeze":
            axes = self._integers(node, "axes", 1, batch)
            return index.squeeze(None if axes is None else tuple(axes))
        if node.operator == "Unsqueeze":
            return np.expand_dims(index, tuple(self._integers(node, "axes", 1, batch) or []))
        if node.operator == "Gather":
            ids = self._values.get(node.inputs[1])
            return np.take(index, ids.array if isinstance(ids, Constant) else [], axis)
        if node.operator == "Split":
            sizes = self._integers(node, "split", 1, batch)
            parts = len(node.outputs) if sizes is None else np.cumsum(sizes)[:-1]
            return np.split(index, parts, axis)[node.outputs.index(output)]
        if node.operator == "Slice":
            return self._sliced(node, index, batch)
        if node.operator == "Flatten":
            at = int(node.attributes.get("axis", 1))
            return index.reshape(math.prod(index.shape[:at]), -1)
        return index

    def _sliced(self, node: OnnxNode, index: np.ndarray, batch: int) -> np.ndarray:
        starts, ends, axes, steps = (
            self._integers(node, name, at, batch) for at, name in enumerate(("starts", "ends", "axes", "steps"), 1)
        )
        where = [slice(None)] * index.ndim
        for i, start in enumerate(starts or []):
            where[axes[i] if axes else i] = slice(start, (ends or [])[i], steps[i] if steps else 1)
        return index[tuple(where)]


def batch_of(value: OnnxResult) -> int:
    """Return the number of samples with which the values of a source are traced."""
    if value.batch == 1:
        return 1
    size = math.prod(value.atoms)
    return next((prime for prime in PRIMES if size % prime), PRIMES[0])


def _small(size: int, batch: int) -> int:
    """Return an extent with the traced batch in place of the number that stands for the batch."""
    return size // OPEN_BATCH * batch if size > 0 and size % OPEN_BATCH == 0 else size
