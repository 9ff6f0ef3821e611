"""The losses that a model's outputs are trained for, with their settings, as values. The kernels compute them.

A loss says what its targets are. Labels are int32 [N], one per example, or int32 [N, *places], one per place of an
output [classes, *places], such as a token or a pixel. Values are float [N, outputs], or [N, *shape] for an output of
any shape. The loss of a batch is the mean over its examples, as in torch. The loss of an example is the mean over its
outputs. With a label per place the loss of a batch is the mean over the places that count. The text of a loss has its
name and its settings, such as huber:delta=0.5. The command line, run.json and messages use this text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from edgefl.errors import DataError

Targets = NDArray[Any]
Rows = NDArray[np.int32]
Weights = tuple[float, ...] | None


@dataclass(frozen=True)
class Loss(ABC):
    """Base class of the losses.

    name        name of the loss in text
    has_labels  whether the targets are labels, one for an example
    """

    name: ClassVar[str]
    has_labels: ClassVar[bool] = False

    @staticmethod
    def parse(text: str) -> Loss:
        """Return the loss that a text names. Raises ValueError naming what is unknown or out of range."""
        name, *settings = text.split(":")
        if name not in LOSSES:
            raise ValueError(f"loss={text}; expected one of {', '.join(LOSSES)}, and settings as huber:delta=0.5")
        known = [each.name for each in fields(LOSSES[name])]
        given: dict[str, Any] = {}
        for setting in settings:
            key, _, value = setting.partition("=")
            if key not in known or key in given:
                raise ValueError(f"loss={text}: {setting}; expected each of {', '.join(known) or 'no setting'} once")
            given[key] = _numbers(text, value) if key.endswith("weight") else _number(text, value)
            given[key] = _whole(text, value) if key in WHOLE else given[key]
        return LOSSES[name](**given)

    def __str__(self) -> str:
        """Return the text from which `parse` makes this loss."""
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        defaults = {each.name: each.default for each in fields(self)}
        settings = [f"{name}={_as_text(value)}" for name, value in given.items() if value != defaults[name]]
        return ":".join([self.name, *settings])

    def check_targets(self, y: Targets, rows: int) -> None:
        """Raise DataError if the targets of `rows` examples do not fit this loss. The error names the misfit."""
        if y.dtype.kind != "f" or y.ndim < 2 or len(y) != rows or not y.flags.c_contiguous:
            raise DataError(f"y: {y.dtype} of shape {y.shape}; expected float32 of shape ({rows}, outputs) for {self}")
        if y.size and not (np.isfinite(y.min()) and np.isfinite(y.max())):
            raise DataError(f"y contains {y[~np.isfinite(y)][0]}; expected finite targets")

    def check_outputs(self, outputs: int) -> None:
        """Raise DataError if the settings are for another number of outputs, which are the channels of the output."""
        for name in ("weight", "pos_weight"):
            weights = getattr(self, name, None)
            if weights is not None and len(weights) != outputs:
                raise DataError(f"loss={self} has {len(weights)} numbers in {name}; expected {outputs}, one per output")

    @abstractmethod
    def decisions(self, outputs: int, places: int = 1) -> int:
        """Return the number of decisions of an example that are right or wrong. It is 0 where a loss has no
        decisions.

        outputs  channels of the model's output
        places   places of the model's output, such as tokens or pixels
        """

    def split(self, output: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        """Return the number of channels of a model's output of this shape, and the extents of its places."""
        return output[0], output[1:]

    def counted(self, y: Targets) -> NDArray[np.bool_] | None:
        """Return which labels per place count, or None where every target counts."""
        return None

    def divisor(self, y: Targets, rows: Rows) -> float:
        """Return the number by which the sum of the losses of these rows is divided for their mean.

        `rows` may have any shape.
        """
        return rows.size

    def of_classes(self, classes: Sequence[int]) -> Loss:
        """Return the loss of a model whose outputs are these classes."""
        return self


@dataclass(frozen=True)
class CrossEntropy(Loss):
    """The cross-entropy of labels, torch.nn.CrossEntropyLoss.

    weight           weight of each class, above 0, or None for 1. The mean of a batch divides by the sum of its labels'
                     weights
    label_smoothing  share of a label that all classes share
    ignore_index     label of the places that do not count, where each place has a label
    class_axis       axis of the classes in outputs with places: 1 as in torch's cross_entropy, or -1 for the last axis
    Raises           ValueError if a value is out of range
    """

    name: ClassVar[str] = "cross-entropy"
    has_labels: ClassVar[bool] = True

    weight: Weights = None
    label_smoothing: float = 0.0
    ignore_index: int = -100
    class_axis: int = 1

    def __post_init__(self) -> None:
        _check_weights("weight", self.weight)
        if not 0 <= self.label_smoothing <= 1:
            raise ValueError(f"label_smoothing={self.label_smoothing}; expected 0 <= label_smoothing <= 1")
        if self.class_axis not in (1, -1):
            raise ValueError(f"class_axis={self.class_axis}; expected 1, or -1 for the last axis")

    def check_targets(self, y: Targets, rows: int) -> None:
        if y.dtype != np.int32 or not y.ndim or len(y) != rows or not y.flags.c_contiguous:
            raise DataError(f"y: {y.dtype} of shape {y.shape}; expected int32 of shape ({rows},) or ({rows}, *places)")
        counted = self.counted(y)
        labels = y if counted is None else y[counted]
        if labels.size and labels.min() < 0:
            ignored = "" if counted is None else f", or {self.ignore_index} for a place that does not count"
            raise DataError(f"y contains {labels.min()}; expected labels >= 0{ignored}")
        if y.ndim == 1 and self.ignore_index >= 0 and (y == self.ignore_index).any():
            expected = "expected no such example where each example has one label: leave it out"
            raise DataError(f"y contains {self.ignore_index}, the ignore_index of loss={self}; {expected}")

    def decisions(self, outputs: int, places: int = 1) -> int:
        return places

    def split(self, output: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        return (output[0], output[1:]) if self.class_axis == 1 else (output[-1], output[:-1])

    def counted(self, y: Targets) -> NDArray[np.bool_] | None:
        found = None if y.ndim == 1 else y != self.ignore_index
        return None if found is None or found.all() else found

    def divisor(self, y: Targets, rows: Rows) -> float:
        if self.weight is None and y.ndim == 1:
            return rows.size
        labels = y[rows]
        counted = self.counted(labels) if y.ndim > 1 else None
        if self.weight is None:
            return labels.size if counted is None else int(counted.sum())
        return float(np.asarray(self.weight)[labels if counted is None else labels[counted]].sum())

    def of_classes(self, classes: Sequence[int]) -> CrossEntropy:
        return self if self.weight is None else replace(self, weight=tuple(self.weight[c] for c in classes))


@dataclass(frozen=True)
class BinaryCrossEntropy(Loss):
    """The binary cross-entropy, torch.nn.BCEWithLogitsLoss. Each output is a decision. Targets are in [0, 1].

    pos_weight  weight of a target of 1 for each output, above 0, or None for 1. A target of 0 has the weight 1
    Raises      ValueError if a weight is out of range
    """

    name: ClassVar[str] = "bce"

    pos_weight: Weights = None

    def __post_init__(self) -> None:
        _check_weights("pos_weight", self.pos_weight)

    def check_targets(self, y: Targets, rows: int) -> None:
        super().check_targets(y, rows)
        if y.size and not 0 <= y.min() <= y.max() <= 1:
            raise DataError(f"y goes from {y.min():g} to {y.max():g}; expected targets from 0 to 1 for {self}")

    def decisions(self, outputs: int, places: int = 1) -> int:
        return outputs * places


@dataclass(frozen=True)
class MSE(Loss):
    """The mean squared error, torch.nn.MSELoss."""

    name: ClassVar[str] = "mse"

    def decisions(self, outputs: int, places: int = 1) -> int:
        return 0


@dataclass(frozen=True)
class L1(Loss):
    """The mean absolute error, torch.nn.L1Loss."""

    name: ClassVar[str] = "l1"

    def decisions(self, outputs: int, places: int = 1) -> int:
        return 0


@dataclass(frozen=True)
class Huber(Loss):
    """The Huber loss, torch.nn.HuberLoss. Errors beyond `delta` count linearly.

    Raises  ValueError unless `delta` is from 1e-30 to 1e30
    """

    name: ClassVar[str] = "huber"

    delta: float = 1.0

    def __post_init__(self) -> None:
        if not SMALLEST <= self.delta <= LARGEST:
            raise ValueError(f"delta={self.delta}; expected {SMALLEST:g} <= delta <= {LARGEST:g}")

    def decisions(self, outputs: int, places: int = 1) -> int:
        return 0


WHOLE = ("ignore_index", "class_axis")  # settings that are whole numbers
SMALLEST, LARGEST = 1e-30, 1e30  # limits of a weight or a delta, whose products float32 holds
LOSSES: dict[str, type[Loss]] = {each.name: each for each in (CrossEntropy, BinaryCrossEntropy, MSE, Huber, L1)}


def _check_weights(name: str, weights: Weights) -> None:
    for weight in weights or ():
        if not SMALLEST <= weight <= LARGEST:
            raise ValueError(f"{name} has {weight}; expected {SMALLEST:g} to {LARGEST:g}")
    if weights is not None and not weights:
        raise ValueError(f"{name} has no number; expected one number for each output")


def _number(text: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise ValueError(f"loss={text}: {value!r}; expected a number") from None


def _whole(text: str, value: str) -> int:
    if not value.removeprefix("-").isdecimal():
        raise ValueError(f"loss={text}: {value!r}; expected a whole number")
    return int(value)


def _numbers(text: str, value: str) -> tuple[float, ...]:
    return tuple(_number(text, part) for part in value.split(","))


def _as_text(value: Any) -> str:
    return ",".join(map(repr, value)) if isinstance(value, tuple) else repr(value)


CROSS_ENTROPY = CrossEntropy()  # the plain loss, which is used where no other loss is named
