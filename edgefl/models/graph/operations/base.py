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
LARGEST_FLOAT = 3.4028234663852886e38  # of float32
LENGTHS: dict[str, int | None] = {"Pair": 2, "Quad": 4, "Shape": None}  # of tuples of integers; None: any
NUMERALS = {"Pair": "a pair", "Quad": "four", "Shape": "a tuple"}
ZERO_ALLOWED = ("padding", "output_padding", "momentum", "axes", "start", "p", "ones")


class ParamInfo(NamedTuple):
    """Shape and kind of a parameter: "learn" is trained by gradient, "stat" is a running statistic of BatchNorm, and
    "frozen" is a parameter or a statistic that keeps its bits (Graph.frozen).
    """

    shape: Shape
    kind: Kind = "learn"


@dataclass(frozen=True)
class Operation:
    """One operation. Settings are checked on construction; a bad one raises GraphError with its name and value."""

    arity: ClassVar[int | None] = 1  # results that it reads; None: two or more
    main: ClassVar[str] = "weight"  # the parameter whose rows are its neurons, and whose columns its input's
    later: ClassVar[tuple[str, ...]] = ()  # settings that came later: the JSON form leaves out their defaults

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = 0 if field.name in ZERO_ALLOWED else 1
            if not _fits(value, str(field.type), least):
                raise GraphError(f"{self.title}: {field.name}={value!r}; expected {_expected(str(field.type), least)}")

    @property
    def title(self) -> str:
        """The name of the operation, as in the JSON form."""
        return type(self).__name__

    def output(self, *inputs: Shape) -> Shape:
        """Shape of the result for the shapes of the inputs. Raises GraphError if they do not fit."""
        return inputs[0]

    def parameters(self) -> dict[str, ParamInfo]:
        """Parameters in torch's order, by the last part of their name."""
        return {}

    def macs(self, output: Shape) -> int:
        """Multiply-accumulates of one example's forward pass; 0 for what is no product."""
        return sum(self.macs_by_weight(output).values())

    def macs_by_weight(self, output: Shape) -> dict[str, int]:
        """The same by the parameter that is multiplied with, "" for products of results."""
        return {}

    def refuse(self, setting: str, expected: str) -> None:
        """Raise GraphError: `setting` as name=value, and what was expected."""
        raise GraphError(f"{self.title}: {setting}; expected {expected}")


def planes(op: Operation, shape: Shape, channels: int | None = None) -> tuple[int, int, int]:
    """`shape` as [channels, height, width], with the given number of channels if one is given."""
    if len(shape) != 3:
        op.refuse(f"input of shape {shape}", "[channels, height, width]")
    if channels is not None and shape[0] != channels:
        op.refuse(f"input with {shape[0]} channels", str(channels))
    return shape[0], shape[1], shape[2]


def sequence(op: Operation, shape: Shape, channels: int | None = None) -> tuple[int, int]:
    """`shape` as [channels, length], with the given number of channels if one is given."""
    if len(shape) != 2:
        op.refuse(f"input of shape {shape}", "[channels, length]")
    return planes(op, (shape[0], 1, shape[1]), channels)[::2]


def slide(op: Operation, size: Shape, reach: Shape, stride: Shape, padding: Shape, ceil_mode: bool = False) -> Shape:
    """Extents of the result of sliding a window of `reach` cells over `size` cells.

    ceil_mode  rounded up; but a window begins in the cells or in the padding before them
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
    if annotation == "float":
        return isinstance(value, float) and math.isfinite(value) and (value > 0 or value == least)
    return type(value) is int and least <= value <= LARGEST_SETTING


def _expected(annotation: str, least: int) -> str:
    whole = f"{least} <= integer <= {LARGEST_SETTING}"
    real = f"a finite float {'>' if least else '>='} 0"
    tuples = {name: f"{numeral} of {whole}" for name, numeral in NUMERALS.items()}
    return (tuples | {"bool": "True or False", "float": real}).get(annotation, whole)
