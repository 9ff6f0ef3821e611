"""A call of an ONNX operator while a file is read: its inputs as values, constants or values that cannot be had.

The files of operators take a call and return what the operator gives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from edgefl.errors import GraphError
from edgefl.models.onnx.axis_atoms import OnnxResult

MOST_VALUES = 1 << 28  # of one constant
MOST_LISTED = 64  # integers in a setting

if TYPE_CHECKING:
    from edgefl.models.onnx.graph_assembly import Assembly
    from edgefl.models.onnx.onnx_content import OnnxNode


@dataclass(frozen=True)
class Constant:
    """A value that does not depend on the input.

    origin   name of the constant of the file that holds these values, perhaps in another shape. "" for a computed value
    lineage  name of the only constant of the file from which these values were computed, or ""
    """

    array: np.ndarray
    origin: str = ""
    lineage: str = ""

    @property
    def is_trained(self) -> bool:
        """Return whether an addition or a product with this constant is a parameter that training moves."""
        return bool(self.origin) and self.array.size > 1


@dataclass(frozen=True, eq=False)
class Cause:
    """One node that cannot be read, and what is wrong with it."""

    node: OnnxNode
    problem: str


@dataclass(frozen=True)
class Unavailable:
    """A value that the graph cannot have. Only the output may not depend on it."""

    causes: tuple[Cause, ...]


@dataclass
class ComputationBudget:
    """The number of values that computations with the constants of one file may still make."""

    left: int = 1 << 27

    def spend(self, count: int) -> None:
        """Take a number of values. Raises GraphError if there are not so many left."""
        if count > self.left:
            raise GraphError(f"{count} more values computed from constants; the limit for a file leaves {self.left}")
        self.left -= max(count, 0)


OnnxValue = OnnxResult | Constant | Unavailable


class OnnxCall(NamedTuple):
    """One node with the values of its inputs. An input that is left out is None.

    uses      number of nodes that read each value of the file, by its name
    aliases   names of the file's values that are one result of the graph, by the name of this result
    """

    node: OnnxNode
    inputs: tuple[OnnxValue | None, ...]
    opset: int
    assembly: Assembly
    batch: int
    uses: dict[str, int]
    aliases: dict[str, list[str]]
    budget: ComputationBudget

    def value(self, index: int = 0) -> OnnxResult:
        """Return an input that follows from the input of the model. Raises GraphError for another value."""
        found = self._input(index)
        if not isinstance(found, OnnxResult):
            raise GraphError(f"input {index} is a constant; expected a value that follows from the model's input")
        return found

    def constant(self, index: int) -> Constant:
        """Return an input that is a constant. Raises GraphError for a value that follows from the model's input."""
        found = self._input(index)
        if not isinstance(found, Constant):
            raise GraphError(f"input {index} follows from the model's input; expected a constant")
        if found.array.size > MOST_VALUES:
            raise GraphError(f"{named(found)} of {found.array.size} values; the limit is {MOST_VALUES}")
        return found

    def has(self, index: int) -> bool:
        return len(self.inputs) > index and self.inputs[index] is not None

    def _input(self, index: int) -> OnnxValue:
        found = self.inputs[index] if len(self.inputs) > index else None
        if found is None or isinstance(found, Unavailable):
            raise GraphError(f"{len(self.inputs)} inputs; expected input {index} as well")
        return found

    def attribute(self, name: str, default: Any) -> Any:
        """Return an attribute of the type of its default. Raises GraphError for another type."""
        found = self.node.attributes.get(name, default)
        wanted = type(default) if default is not None else type(found)
        if not isinstance(found, wanted) or (isinstance(found, list) and not all(_is_number(each) for each in found)):
            raise GraphError(f"{name}={found!r:.80}; expected {wanted.__name__}")
        return found

    def integers(self, name: str, index: int | None = None) -> list[int] | None:
        """Return integers that are an attribute, or in later opsets an input. Return None if they are left out."""
        if name in self.node.attributes:
            found = self.node.attributes[name]
            listed = found if isinstance(found, list) else [found]
        elif index is not None and self.has(index):
            array = self.constant(index).array
            if array.size > MOST_LISTED:
                raise GraphError(f"{name} of {array.size} values; expected at most {MOST_LISTED} integers")
            listed = array.ravel().tolist()
        else:
            return None
        if not all(type(each) is int for each in listed) or len(listed) > MOST_LISTED:
            raise GraphError(f"{name}={listed!r:.80}; expected at most {MOST_LISTED} integers")
        return listed

    def number(self, name: str, index: int | None, default: float) -> float:
        """Return a number that is an attribute, or in later opsets an input."""
        if index is not None and self.has(index):
            array = self.constant(index).array
            if array.size != 1:
                raise GraphError(f"{name} of shape {array.shape}; expected one number")
            return float(array.reshape(()))
        return float(self.attribute(name, default))

    def expect(self, name: str, found: object, *allowed: object) -> None:
        """Raise GraphError unless a setting has one of the allowed values."""
        if found not in allowed:
            raise GraphError(f"{name}={found!r:.80}; expected {' or '.join(map(repr, allowed))}")

    def window(self, name: str, default: int, count: int) -> list[int]:
        """Return a list of one positive integer for each of `count` axes."""
        found = self.integers(name) or [default] * count
        if len(found) != count or min(found) < 1:
            raise GraphError(f"{name}={found!r:.80}; expected {count} positive integers")
        return found

    def is_sole_use(self, name: str) -> bool:
        """Return whether this node alone reads a result of the graph, under whatever names the file has for it."""
        names = self.aliases.get(name, [])
        return sum(self.uses.get(each, 0) for each in names) == len(names)


def parameter(constant: Constant, shape: Sequence[int] | None = None) -> np.ndarray:
    """Return a constant as the float32 values of a parameter. Raises GraphError for values that are not float32."""
    array = constant.array
    if array.dtype != np.float32:
        raise GraphError(f"{named(constant)} is {array.dtype}; expected float32: export the model in float32")
    if shape is not None and array.size != math.prod(shape):
        raise GraphError(f"{named(constant)} has the shape {array.shape}; expected {tuple(shape)}")
    return array if shape is None else array.reshape(tuple(shape))


def widened(array: np.ndarray, rank: int) -> np.ndarray:
    """Return an array with further axes of extent 1 in front, as it is combined with a value of more axes."""
    return array.reshape((1,) * (rank - array.ndim) + array.shape)


def long_axes(array: np.ndarray) -> list[int]:
    """Return the indices of the axes that are longer than 1."""
    return [at for at in range(array.ndim) if array.shape[at] > 1]


def named(constant: Constant) -> str:
    return f"constant {constant.origin[:200]!r}" if constant.origin else "a computed constant"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)
