"""Means and spreads of inputs and of numeric targets, and values in units of them. Data sets are standardised in
standardisation.py.

A feature of inputs [N, F], or a channel of [N, C, ...], has one mean and one spread. Both are robust. The mean is the
median. The spread is the distance of the quartiles over 1.349, which is the standard deviation of a normal
distribution. The standard deviation of the values replaces a distance of 0. Targets have their mean and standard
deviation. A standardised value is (value - mean) / spread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
QUARTILES_OF_NORMAL = 1.349  # distance of the quartiles of a normal distribution, in standard deviations


@dataclass(frozen=True)
class Standardisation:
    """Means and spreads of each feature or channel of the inputs, and of each target if the targets are numbers."""

    mean: tuple[float, ...]
    spread: tuple[float, ...]
    target_mean: tuple[float, ...] = ()
    target_spread: tuple[float, ...] = ()

    def inputs(self, x: Array) -> Array:
        """Return float32 inputs [N, F] or [N, C, ...] in units of their spread."""
        extents = (1, -1, *[1] * (x.ndim - 2))
        mean, spread = (np.asarray(each).reshape(extents) for each in (self.mean, self.spread))
        return np.ascontiguousarray((x.astype(np.float64) - mean) / spread, np.float32)

    def targets(self, y: Array) -> Array:
        """Return float32 targets [N, outputs] in units of their spread."""
        scaled = (y.astype(np.float64) - np.asarray(self.target_mean)) / np.asarray(self.target_spread)
        return np.ascontiguousarray(scaled, np.float32)

    def to_json(self) -> dict[str, list[float]]:
        """Return the scales by name, as lists."""
        return {name: list(getattr(self, name)) for name in ("mean", "spread", "target_mean", "target_spread")}

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> Standardisation:
        """Read the values that `to_json` returned."""
        return Standardisation(**{name: tuple(map(float, each)) for name, each in values.items()})


def robust(x: Array) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the median and the spread of each feature of [N, F], or of each channel of [N, C, ...]. A spread is never
    0. NaN values do not count. A feature without any other value has median 0.
    """
    rows = np.moveaxis(x.astype(np.float64), 1, 0).reshape(x.shape[1], -1)
    if np.isnan(rows).any():
        rows = np.where(np.isnan(rows).all(axis=1, keepdims=True), 0.0, rows)
        low, middle, high = np.nanquantile(rows, (0.25, 0.5, 0.75), axis=1)
        deviation = np.nanstd(rows, axis=1)
    else:
        low, middle, high = np.quantile(rows, (0.25, 0.5, 0.75), axis=1)
        deviation = rows.std(axis=1)
    spread = (high - low) / QUARTILES_OF_NORMAL
    spread = np.where(spread > 0, spread, np.where(deviation > 0, deviation, 1.0))
    return tuple(middle.tolist()), tuple(spread.tolist())


def moments(y: Array) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the mean and the standard deviation of each output of values [N, outputs], with 1 for a deviation of 0."""
    values = y.astype(np.float64)
    deviation = values.std(axis=0)
    return tuple(values.mean(axis=0).tolist()), tuple(np.where(deviation > 0, deviation, 1.0).tolist())
