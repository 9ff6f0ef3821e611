"""Treatment of missing feature values: refuse the data, drop the samples, or fill in the means of the
training samples.

Not how a file says that a value is missing. A reader marks the places (`settled`); the means are taken when it is known
which samples train (`with_means`), so that no test sample takes part in them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from edgefl.errors import DataError
from edgefl.experiment.data.column_choice import DROP, MEAN
from edgefl.experiment.data.dataset import Array, DataSet

CHOICES = "missing=mean or missing=drop (--missing)"


class Settled(NamedTuple):
    """Features without NaN: x [n, F], where a mean is to stand, which of the rows are left, what was done in words."""

    x: Array
    absent: Array | None
    rows: Any
    notes: tuple[str, ...]


def settled(what: str, x: Array, how: str) -> Settled:
    """Features whose NaN are dealt with as `how` says; unchanged if there are none. A value that is infinite stays.

    what    the features are, in words
    x       any array; one that is no float32 or float64 [N, F] has no missing values
    how     MEAN or DROP; anything else leaves NaN as they are
    Raises  DataError if no row is left.
    """
    absent = np.isnan(x) if x.dtype.kind == "f" and x.ndim == 2 and how in (MEAN, DROP) else None
    if absent is None or not absent.any():
        return Settled(x, None, slice(None), ())
    rows = np.asarray(~absent.any(1))
    if how == MEAN:
        said = f"{int(absent.sum())} values of {what} are missing; the mean of the training samples stands there"
        return Settled(np.where(absent, np.float32(0), x).astype(x.dtype), absent, slice(None), (said,))
    if not rows.any():
        raise DataError(f"every sample of {what} has a missing value; expected missing=mean (--missing mean)")
    said = f"{int((~rows).sum())} of {len(rows)} samples of {what} have missing values and are left out"
    return Settled(np.ascontiguousarray(x[rows]), None, rows, (said,))


def means(data: DataSet, training: Iterable[Array]) -> Array:
    """float32 [F]: the mean of each feature over the training samples that have a value of it.

    training  of each client the int32 rows of data.x that it trains on
    Raises    DataError naming a column that has no value in any training sample.
    """
    rows = np.unique(np.concatenate(list(training)))
    present = np.ones((len(rows), data.x.shape[1]), bool) if data.absent is None else ~data.absent[rows]
    counts = present.sum(0)
    if not counts.all():
        at = int(np.argmin(counts))
        column = data.columns[at] if data.columns else str(at)
        raise DataError(
            f"{data.name}: column {column} has no value in any training sample; expected it dropped (--drop)"
        )
    return np.asarray((data.x[rows] * present).sum(0, np.float64) / counts, np.float32)


def with_means(data: DataSet, training: Iterable[Array]) -> DataSet:
    """The data with the mean of the training samples in each place that has no value; `data` itself if all have one.

    Raises  DataError as `means` does.
    """
    if data.absent is None and data.absent_test is None:
        return data
    filling = means(data, training)
    x = data.x if data.absent is None else np.where(data.absent, filling, data.x)
    has_all = data.x_test is None or data.absent_test is None
    x_test = data.x_test if has_all else np.where(data.absent_test, filling, data.x_test)  # type: ignore[arg-type]
    return replace(data, x=x, x_test=x_test, absent=None, absent_test=None)
