"""A data set whose inputs, and whose targets if they are numbers, are in units of their spread (scales.py). No file is
read.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from edgefl.errors import DataError
from edgefl.experiment.data.dataset import Array, DataSet
from edgefl.experiment.data.scales import Standardisation, moments, robust


def standardised(data: DataSet, is_regression: bool) -> DataSet:
    """Return the data with inputs in units of their spread, and with targets in such units too if they are numbers.

    is_regression  whether the model learns numbers
    Raises         DataError for ids of words and for uint8, which have no units, and for data with a scale or shift.
    """
    if data.vocabulary is not None or data.x.dtype != np.float32:
        kind = "ids of words" if data.vocabulary is not None else f"{data.x.dtype}, which is scaled to 0..1"
        raise DataError(f"{data.name}: standardise with x of {kind}; expected features of a floating-point type")
    if (data.scale, data.shift) != (1.0, 0.0):
        scaling = f"scale={data.scale:g} and shift={data.shift:g}"
        raise DataError(f"{data.name}: standardise together with {scaling}; expected standardise, or scale and shift")
    y, y_test, classes = data.y, data.y_test, data.classes
    if is_regression and data.has_labels:
        y, y_test, classes = _column(y), None if y_test is None else _column(y_test), 1
    found = Standardisation(*robust(data.with_nan()), *(moments(y) if is_regression else ((), ())))
    if is_regression:
        y, y_test = found.targets(y), None if y_test is None else found.targets(y_test)
    x_test = None if data.x_test is None else found.inputs(data.x_test)
    taken = replace(data, x=found.inputs(data.x), x_test=x_test, y=y, y_test=y_test, classes=classes)
    return replace(taken, standardised=found, notes=(*data.notes, _words(found)))


def _column(labels: Array) -> Array:
    return labels.astype(np.float32)[:, np.newaxis]


def _words(found: Standardisation) -> str:
    inputs = f"x: {len(found.mean)} columns standardised by median and quartiles"
    if not found.target_mean:
        return inputs
    spreads = ", ".join(f"{each:.3g}" for each in found.target_spread)
    return f"{inputs}; y: standardised, and losses are in units of its squared spread ({spreads})"
