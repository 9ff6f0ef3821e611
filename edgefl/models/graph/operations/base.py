"""The common part of all operations: checked settings, shapes, parameters and cost. No operation is defined here."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import ClassVar, Literal, NamedTuple

from edgefl.errors import GraphError

Shape = tuple[int, ...]
Pair = tuple[int, int]
Quad = tuple[int, int, int, int]
Kind = Literal["learn", "stat", "frozen"]

LARGEST_SETTING = 2**31 - 1  # ids, extents and strides travel as int32
LARGEST_FLOAT = 3.4028234663852886e38  # largest finite float32
LENGTHS: dict[str, int | None] = {"Pair": 2, "Quad": 4, "Shape": None}  # number of integers, where None is any
NUMERALS = {"Pair": "a pair", "Quad": "four", "Shape": "a tuple"}
ZERO_ALLOWED = ("padding", "output_padding", "momentum", "axes", "start", "p", "ones", "window", "offset")


class ParamInfo(NamedTuple):
    """The shape and the kind of a parameter.

    A "learn" parameter is trained by gradient. A "stat" is a running statistic of BatchNorm. A "frozen" parameter or
    statistic keeps its bits (Graph.frozen).
    """

    shape: Shape
    kind: Kind = "learn"


@dataclass(frozen=True)
class Operation:
    """The base class of operations. Settings are checked on construction.

    Raises  GraphError with the name and the value of a setting that does not fit.
    """

    arity: ClassVar[int | None] = 1  # number of results that it reads, where None is two or more
    main: ClassVar[str] = "weight"  # the parameter with a row for each neuron and a column for each input neuron
    later: ClassVar[tuple[str, ...]] = ()  # later settings, which the JSON form leaves out at their defaults

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = 0 if field.name in ZERO_ALLOWED else 1
            if not _fits(value, str(field.type), least):
                raise GraphError(f"{self.title}: {field.name}={value!r}; expected {_expected(str(field.type), least)}")

    @property
    def title(self) -> str:
        """Return the name of the operation, as in the JSON form."""
        return type(self).__name__

    @property
    def drops(self) -> bool:
        """Return whether training drops values at random."""
        return False

    def output(self, *inputs: Shape) -> Shape:
        """Return the shape of the result for the shapes of the inputs. Raises GraphError if the shapes do not fit."""
        return inputs[0]

    def parameters(self) -> dict[str, ParamInfo]:
        """Return the parameters in torch's order, by the last part of their names."""
        return {}

    def macs(self, output: Shape) -> int:
        """Return the multiply-accumulates of one sample's forward pass: 0 if the operation is not a product."""
        return sum(self.macs_by_weight(output).values())

    def macs_by_weight(self, output: Shape) -> dict[str, int]:
        """Return the multiply-accumulates by the parameter that multiplies. For products of two results it is ""."""
        return {}

    def refuse(self, setting: str, expected: str) -> None:
        """Raise GraphError with `setting`, written as name=value, and with what was expected."""
        raise GraphError(f"{self.title}: {setting}; expected {expected}")


def planes(op: Operation, shape: Shape, channels: int | None = None) -> tuple[int, int, int]:
    """Return `shape` as [channels, height, width].

    Raises  GraphError for another number of extents, or of channels if `channels` is given.
    """
    if len(shape) != 3:
        op.refuse(f"input of shape {shape}", "[channels, height, width]")
    if channels is not None and shape[0] != channels:
        op.refuse(f"input with {shape[0]} channels", str(channels))
    return shape[0], shape[1], shape[2]


def sequence(op: Operation, shape: Shape, channels: int | None = None) -> tuple[int, int]:
    """Return `shape` as [channels, length].

    Raises  GraphError for another number of extents, or of channels if `channels` is given.
    """
    if len(shape) != 2:
        op.refuse(f"input of shape {shape}", "[channels, length]")
    return planes(op, (shape[0], 1, shape[1]), channels)[::2]


def slide(op: Operation, size: Shape, reach: Shape, stride: Shape, padding: Shape, ceil_mode: bool = False) -> Shape:
    """Return the extents of the result of sliding a window of `reach` cells over `size` cells.

    ceil_mode  whether the number of positions is rounded up, where each window begins in the cells or the padding
               before them
    Raises  GraphError if the result would have no cell.
    """
    axes = zip(size, reach, stride, padding, strict=True)
    positions = _positions_rounded_up if ceil_mode else _positions
    result = tuple(positions(*axis) for axis in axes)
    if min(result) < 1:
        op.refuse(f"a window of {reach} over {size} cells with padding {padding}", "at least one output cell")
    return result


def _positions(cells: int, window: int, step: int, pad: int) -> int:
    return (cells + 2 * pad - window) // step + 1


def _positions_rounded_up(cells: int, window: int, step: int, pad: int) -> int:
    count = -(-(cells + 2 * pad - window) // step) + 1
    return count - 1 if (count - 1) * step >= cells + pad else count


def _fits(value: object, annotation: str, least: int) -> bool:
    if annotation in LENGTHS:
        if not isinstance(value, tuple) or LENGTHS[annotation] not in (None, len(value)):
            return False
        return all(_fits(v, "int", least) for v in value)
    if annotation == "bool":
        return isinstance(value, bool)
    if annotation == "str":
        return isinstance(value, str)
    if annotation == "float":
        return isinstance(value, float) and math.isfinite(value) and (value > 0 or value == least)
    return type(value) is int and least <= value <= LARGEST_SETTING


def _expected(annotation: str, least: int) -> str:
    whole = f"{least} <= integer <= {LARGEST_SETTING}"
    real = f"a finite float {'>' if least else '>='} 0"
    tuples = {name: f"{numeral} of {whole}" for name, numeral in NUMERALS.items()}
    return (tuples | {"bool": "True or False", "float": real, "str": "text"}).get(annotation, whole)
