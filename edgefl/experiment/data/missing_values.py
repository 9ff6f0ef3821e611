"""Treatment of missing feature values: refuse the data, drop the samples, or fill in the means of the training samples.

A reader decides which values are missing, and marks their positions (`settled`). The means are computed later, when the
training samples are known (`with_means`), so that no test sample contributes to a mean.
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
    """Features without NaN.

    x       [n, F]
    absent  bool [n, F], true where a mean is to stand. None: no mean is needed
    rows    index of the rows that are left
    notes   sentences on what was done
    """

    x: Array
    absent: Array | None
    rows: Any
    notes: tuple[str, ...]


def settled(what: str, x: Array, how: str) -> Settled:
    """Return features whose NaN are treated as `how` says, or the same features if there are no NaN. Infinite values
    stay.

    what    name of the features in messages
    x       any array. An array other than float32 or float64 [N, F] has no missing values
    how     MEAN or DROP. Any other value leaves NaN as they are
    Raises  DataError if no row is left.
    """
    absent = np.isnan(x) if x.dtype.kind == "f" and x.ndim == 2 and how in (MEAN, DROP) else None
    if absent is None or not absent.any():
        return Settled(x, None, slice(None), ())
    rows = np.asarray(~absent.any(1))
    if how == MEAN:
        said = f"{int(absent.sum())} values of {what} are missing; the mean of the training samples takes their place"
        return Settled(np.where(absent, np.float32(0), x).astype(x.dtype), absent, slice(None), (said,))
    if not rows.any():
        raise DataError(f"every sample of {what} has a missing value; expected missing=mean (--missing mean)")
    said = f"{int((~rows).sum())} of {len(rows)} samples of {what} have missing values and are left out"
    return Settled(np.ascontiguousarray(x[rows]), None, rows, (said,))


def means(data: DataSet, training: Iterable[Array]) -> Array:
    """Return float32 [F]: the mean of each feature over the training samples that have a value of it.

    training  for each client the int32 rows of data.x that the client trains on
    Raises    DataError naming a column that has no value in any training sample.
    """
    rows = np.unique(np.concatenate(list(training)))
    present = np.ones((len(rows), data.x.shape[1]), bool) if data.absent is None else ~data.absent[rows]
    counts = present.sum(0)
    if not counts.all():
        at = int(np.argmin(counts))
        column = data.columns[at] if data.columns else str(at)
        raise DataError(
            f"{data.name}: column {column} has no value in any training sample; expected some: --drop leaves it out"
        )
    return np.asarray((data.x[rows] * present).sum(0, np.float64) / counts, np.float32)


def with_means(data: DataSet, training: Iterable[Array]) -> DataSet:
    """Fill in the mean of the training samples for every missing value. Return `data` itself if no value is missing.

    Raises  DataError as `means` does.
    """
    if data.absent is None and data.absent_test is None:
        return data
    filling = means(data, training)
    x = data.x if data.absent is None else np.where(data.absent, filling, data.x)
    has_all = data.x_test is None or data.absent_test is None
    x_test = data.x_test if has_all else np.where(data.absent_test, filling, data.x_test)  # type: ignore[arg-type]
    return replace(data, x=x, x_test=x_test, absent=None, absent_test=None)
