"""The losses that a model's outputs are trained for, with their settings, as values. The kernels compute them.

A loss says what its targets are: one label per example, int32 [N], or one value per output, float [N, outputs]. The
loss of a batch is the mean over its examples, as in torch. The loss of an example is the mean over its outputs. The
text of a loss has its name and its settings, such as huber:delta=0.5. The command line, run.json and messages use this
text.
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
        return LOSSES[name](**given)

    def __str__(self) -> str:
        """Return the text from which `parse` makes this loss."""
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        defaults = {each.name: each.default for each in fields(self)}
        settings = [f"{name}={_as_text(value)}" for name, value in given.items() if value != defaults[name]]
        return ":".join([self.name, *settings])

    def check_targets(self, y: Targets, rows: int) -> None:
        """Raise DataError if the targets of `rows` examples do not fit this loss. The error names the misfit."""
        if y.dtype.kind != "f" or y.ndim != 2 or len(y) != rows or not y.flags.c_contiguous:
            raise DataError(f"y: {y.dtype} of shape {y.shape}; expected float32 of shape ({rows}, outputs) for {self}")
        if y.size and not (np.isfinite(y.min()) and np.isfinite(y.max())):
            raise DataError(f"y contains {y[~np.isfinite(y)][0]}; expected finite targets")

    def check_outputs(self, outputs: int) -> None:
        """Raise DataError if the settings are for another number of outputs."""
        for name in ("weight", "pos_weight"):
            weights = getattr(self, name, None)
            if weights is not None and len(weights) != outputs:
                raise DataError(f"loss={self} has {len(weights)} numbers in {name}; expected {outputs}, one per output")

    @abstractmethod
    def decisions(self, outputs: int) -> int:
        """Return the number of decisions of an example that are right or wrong. It is 0 where a loss has no
        decisions.
        """

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
    Raises           ValueError if a value is out of range
    """

    name: ClassVar[str] = "cross-entropy"
    has_labels: ClassVar[bool] = True

    weight: Weights = None
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        _check_weights("weight", self.weight)
        if not 0 <= self.label_smoothing <= 1:
            raise ValueError(f"label_smoothing={self.label_smoothing}; expected 0 <= label_smoothing <= 1")

    def check_targets(self, y: Targets, rows: int) -> None:
        if y.dtype != np.int32 or y.shape != (rows,) or not y.flags.c_contiguous:
            raise DataError(f"y: {y.dtype} of shape {y.shape}; expected int32 of shape ({rows},)")
        if len(y) and y.min() < 0:
            raise DataError(f"y contains {y.min()}; expected labels >= 0")

    def decisions(self, outputs: int) -> int:
        return 1

    def divisor(self, y: Targets, rows: Rows) -> float:
        return rows.size if self.weight is None else float(np.asarray(self.weight)[y[rows]].sum())

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

    def decisions(self, outputs: int) -> int:
        return outputs


@dataclass(frozen=True)
class MSE(Loss):
    """The mean squared error, torch.nn.MSELoss."""

    name: ClassVar[str] = "mse"

    def decisions(self, outputs: int) -> int:
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

    def decisions(self, outputs: int) -> int:
        return 0


SMALLEST, LARGEST = 1e-30, 1e30  # limits of a weight or a delta, whose products float32 holds
LOSSES: dict[str, type[Loss]] = {each.name: each for each in (CrossEntropy, BinaryCrossEntropy, MSE, Huber)}


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


def _numbers(text: str, value: str) -> tuple[float, ...]:
    return tuple(_number(text, part) for part in value.split(","))


def _as_text(value: Any) -> str:
    return ",".join(map(repr, value)) if isinstance(value, tuple) else repr(value)


CROSS_ENTROPY = CrossEntropy()  # the plain loss, which is used where no other loss is named
