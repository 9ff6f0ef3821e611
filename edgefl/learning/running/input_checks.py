"""The checks that samples, batches and indices fit a model, before a kernel reads any of them. Nothing runs here."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from edgefl.errors import DataError, TrainingError
from edgefl.learning.batches import occurring
from edgefl.learning.learner import Batches, Samples
from edgefl.models.graph import Graph
from edgefl.models.graph.input_ids import IdValues, id_values
from edgefl.models.graph.operations import Shape
from edgefl.models.graph.planar import takes
from edgefl.models.identity_cache import IdentityCache

_fitting = IdentityCache[set[str]](64)  # of pairs of samples and graph: the types of floats that fit


def check_samples(samples: Samples, graph: Graph, floats: DTypeLike) -> None:
    """Raise DataError naming a shape, type or label that does not fit.

    Samples that fit a graph are not looked through again, because a million clients may share them.
    """
    known, name = _fitting.get(samples, graph) or set(), np.dtype(floats).str
    if name not in known:
        _check(samples, graph, floats)
        _fitting.put({*known, name}, samples, graph)


def _check(samples: Samples, graph: Graph, floats: DTypeLike) -> None:
    if not takes(graph, samples.x.shape[1:]):
        raise DataError(f"samples of shape {samples.x.shape[1:]}; expected {graph.input_shape}")
    if samples.x.dtype not in (np.uint8, floats):
        raise DataError(f"samples of type {samples.x.dtype}; expected uint8 or {floats}")
    for part in id_values(graph) if samples.x.size else ():
        _check_ids(samples, part)
    _check_targets(samples, samples.y, graph.output_shape, floats)
    if len(samples.auxiliary) not in (0, len(graph.auxiliary)):
        expected = f"none, or {len(graph.auxiliary)}, one for each auxiliary output"
        raise DataError(f"targets of {len(samples.auxiliary)} auxiliary outputs; expected {expected}")
    if samples.auxiliary and getattr(samples.loss, "weight", None) is not None:
        raise DataError(f"loss={samples.loss} with targets of auxiliary outputs; expected no weights of classes")
    given = samples.auxiliary or (samples.y,) * len(graph.auxiliary)
    for each, targets in zip(graph.auxiliary, given, strict=True):
        _check_targets(samples, targets, graph.shapes[each.result], floats)


def _check_targets(samples: Samples, y: NDArray[Any], output: Shape, floats: DTypeLike) -> None:
    """Raise DataError unless the targets fit an output of this shape.

    An output of one place, such as [classes, 1, 1], takes the targets of a vector, too.
    """
    loss, found = samples.loss, f"targets {y.dtype} of shape {y.shape}"
    outputs, places = loss.split(output)
    loss.check_outputs(outputs)
    fitting = [places if loss.has_labels else output]
    if prod(places) == 1:
        fitting.append(() if loss.has_labels else (outputs,))
    if y.shape[1:] not in fitting or (y.dtype != floats and not loss.has_labels):
        kind = np.dtype(np.int32 if loss.has_labels else floats)
        raise DataError(f"{found}; expected {kind} of shape {(len(samples), *fitting[-1])} for outputs {output}")
    counted = loss.counted(y) if loss.has_labels else None
    labels = y if counted is None else y[counted]
    if loss.has_labels and labels.size and labels.max() >= outputs:
        raise DataError(f"label {labels.max()}; expected labels below {outputs}")


def _check_ids(samples: Samples, part: IdValues) -> None:
    """Raise DataError naming the first id for which an Embedding has no row."""
    values = samples.x.reshape(len(samples.x), -1)[:, part.start : part.stop]
    ids = values if (samples.scale, samples.shift) == (1, 0) else values * samples.scale + samples.shift
    fits = (ids >= 0) & (ids < part.rows) & (np.floor(ids) == ids)
    if not fits.all():
        at = np.unravel_index(int(fits.argmin()), fits.shape)
        where = "" if part.stop - part.start == samples.x[0].size else f", value {part.start + at[1]}"
        found = f"id {ids[at]:g} in sample {at[0]}{where}"
        raise DataError(f"{found}; expected whole numbers from 0 to {part.rows - 1}")


def check_index(index: NDArray[np.int32], rows: int) -> None:
    """Raise DataError unless the index names at least one of `rows` rows, and no row that does not exist."""
    if index.dtype != np.int32 or index.ndim != 1 or not index.size:
        raise DataError(f"batch of {index.dtype} and shape {index.shape}; expected at least one int32 index")
    if np.maximum.reduce(index.view(np.uint32)) >= rows:  # where negative numbers are large
        raise DataError(f"batch with indices {index.min()} to {index.max()}; expected 0 to {rows - 1}")


def sizes_of(batches: Batches, rows: int) -> set[int]:
    """Return the sizes of the batches, after a check that all batches fit.

    Raises TrainingError if there are no batches, and DataError like `check_index`.
    """
    if not len(batches):
        raise TrainingError("fit with 0 batches; expected at least one batch")
    distinct, sizes = occurring(batches)
    for each in distinct:
        check_index(each, rows)
    return sizes
