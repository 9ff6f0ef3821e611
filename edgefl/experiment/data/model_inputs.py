"""Inputs for a model from any file that training data may have. Labels may be missing. The model is run elsewhere.

If the training data are known, a table gives their columns, in their order and with their texts and means. Otherwise
every column is an input that is not named like a label or a group, and all inputs must be numbers.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from edgefl.errors import DataError
from edgefl.experiment.data.array_source import ArraysInMemory, ArraySource, NpySource
from edgefl.experiment.data.checked_reader import damage_named
from edgefl.experiment.data.column_choice import MEAN, Reading
from edgefl.experiment.data.csv_table import GROUPS, LABELS
from edgefl.experiment.data.dataset import Array, DataSet, Shape
from edgefl.experiment.data.feature_columns import features
from edgefl.experiment.data.file_formats import ArrayFormat, TableFormat, format_of, refuse_format, refuse_path
from edgefl.experiment.data.images import SUFFIXES, images_in, read_pixels
from edgefl.experiment.data.npy import read_array
from edgefl.experiment.data.npz import LabelledArrays, read_inputs
from edgefl.experiment.data.table_cells import TableCells

ENTRY = re.compile(r"\[\d+\]$")  # the end of the name of a feature from a column of lists
MEANING = "--run RUN, whose training data say what columns these texts are"
WITHOUT_RUN = "--run RUN reads the columns that the model of that run was trained on, and no others"


class Training(NamedTuple):
    """The training data of a run: the data, how they were read, and the mean of each feature where means fill in
    missing values.
    """

    data: DataSet
    reading: Reading
    means: Array | None


class ModelInputs(NamedTuple):
    """The inputs, float32 [N, ...], and sentences on what was done to the values."""

    x: Array
    notes: tuple[str, ...] = ()


def model_inputs(path: Path, input_shape: Shape, reading: Reading, training: Training | None = None) -> ModelInputs:
    """Read the inputs in a file of arrays or a table, in an image, or in a folder of images.

    input_shape  shape of one example, as the model takes it
    reading      how the file is to be read, where no run says it
    training     the training data of the model's run. None: the file alone says what its values mean
    Raises       DataError naming the file, the position and what was expected.
    """
    if not path.exists():
        refuse_path(str(path), [])
    if isinstance(table := format_of(path), TableFormat):
        return _of_table(table.cells(path, reading), reading, training)
    if path.is_dir() or path.suffix.lower() in SUFFIXES:
        return _images(path, input_shape, reading)
    if path.suffix in (".npy", ".npz") and training is None and not reading.axes:
        return ModelInputs(read_inputs(path))
    if (source := _arrays(path)) is not None:
        return _of_arrays(path, source, reading, training)
    return refuse_format(path)


def _images(path: Path, input_shape: Shape, reading: Reading) -> ModelInputs:
    paths = images_in(path) if path.is_dir() else [path]
    if not paths:
        raise DataError(f"{path} has no images; expected *{', *'.join(SUFFIXES[:3])} or others in it")
    if len(input_shape) != 3 or input_shape[0] not in (1, 3):
        raise DataError(f"{path} has images; the model takes {input_shape}, expected 1 or 3 channels, height and width")
    x, notes = read_pixels(paths, reading.size, is_grey=input_shape[0] == 1)
    return ModelInputs(x.astype(np.float32) * np.float32(1 / 255), notes)


def _arrays(path: Path) -> ArraySource | None:
    """Return the arrays of a file, or None if it is not a file of arrays."""
    suffix = path.suffix.lower()
    if suffix == ".npy":
        with damage_named(str(path)), open(path, "rb") as stream:
            return ArraysInMemory({"x": read_array(stream, str(path))})
    if suffix == ".npz":
        with damage_named(str(path)), zipfile.ZipFile(path) as archive:
            found = NpySource.of_zip(path, archive)
            return ArraysInMemory({name: found.array(name) for name in found.names()})
    return ArraysInMemory(row.arrays(path)[0]) if isinstance(row := format_of(path), ArrayFormat) else None


def _of_arrays(path: Path, source: ArraySource, reading: Reading, training: Training | None) -> ModelInputs:
    """Scale inputs as the file says, or else like the training data, or else like such an array in training data."""
    axes, missing = reading.axes, reading.missing
    found = LabelledArrays(path, source, Reading(axes=axes, missing=missing))
    x = found.inputs(found.first("x", "x_test"))
    scale, shift = found.scaling(x)
    if training is not None and "scale" not in found.keys:
        scale, shift = training.data.scale, training.data.shift
    x = x.astype(np.float32) * np.float32(scale) + np.float32(shift)
    return ModelInputs(_with_means(path, x, training))


def _with_means(path: Path, x: Array, training: Training | None) -> Array:
    """Return the inputs with the means of the training data in place of missing values."""
    if x.ndim != 2 or not np.isnan(x).any():
        return x
    means = None if training is None else training.means
    if means is None or x.shape[1] != len(means):
        raise DataError(
            f"{path} lacks values; expected --run RUN of a run with --missing mean, whose means replace them"
        )
    return np.where(np.isnan(x), means, x).astype(np.float32)


def _of_table(cells: TableCells, reading: Reading, training: Training | None) -> ModelInputs:
    known = None if training is None else training.data.columns
    if known is not None:
        inputs = _inputs(cells, known)
    else:
        inputs = [name for name in cells.columns if name not in {*LABELS, *GROUPS, *reading.drop}]
    try:
        found = features(cells, inputs, reading.missing if reading.missing == MEAN else "", known)
    except DataError as error:
        raise error if known is not None else DataError(f"{error}. {WITHOUT_RUN}") from None
    if known is None and (texts := next((name for name in inputs if _is_coded(name, found.columns)), None)):
        raise DataError(f"{cells.path}: column {texts} has texts; expected {MEANING}, or --drop {texts}")
    if known is not None and found.columns != known:
        raise DataError(f"{cells.path}: columns {', '.join(found.columns)}; expected {', '.join(known)}")
    return ModelInputs(_with_means(cells.path, found.x, training), cells.notes)


def _is_coded(name: str, columns: Sequence[str]) -> bool:
    return name not in columns and any(each.startswith(f"{name}=") for each in columns)


def _inputs(cells: TableCells, known: Sequence[str]) -> list[str]:
    """Return the columns that have the training data's features, in order. Raises DataError for a missing column."""
    found: dict[str, None] = {}
    for feature in known:
        bases = (feature, ENTRY.sub("", feature), feature.partition("=")[0])
        column = next((name for name in bases if name in cells.columns), None)
        if column is None:
            listed = ", ".join(cells.columns)
            raise DataError(f"{cells.path}: no column {bases[-1]}, which the model was trained on, among {listed}")
        found[column] = None
    return list(found)
