"""A device's own samples as an npz file: `edgefl partition` writes the file, the device reads it. data/partition.py
decides which samples are in the file.

x, y, scale, shift, classes    as in data/npz.py
train, validation, test        optional int32 indices into x, sorted and disjoint: the device's own split
client                         optional [1]: the client of the run that owns the samples, so that a replay gives every
                               client the samples that it had
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgefl.errors import DataError
from edgefl.experiment.array_data import axes_of
from edgefl.experiment.data.npz import read_integers, read_npz
from edgefl.experiment.data.split import Split
from edgefl.experiment.data.unpacked_size import check_unpacked
from edgefl.learning import Samples
from edgefl.learning.losses import CrossEntropy
from edgefl.learning.targets import default_loss
from edgefl.system.durable_files import write_atomically

if TYPE_CHECKING:
    from edgefl.experiment.federation import Federation

PARTS = ("train", "validation", "test")
CLIENT = "client"


def partition_file(directory: Path, client: int) -> Path:
    """Return the file into which `edgefl partition` writes the samples of a client."""
    return directory / f"device-{client:04d}.npz"


def write_partition(path: Path, federation: Federation, client: int) -> None:
    """Write one client's samples and split. Training on the file is bit-identical to training in a simulation.

    The samples keep their order, so that equal draws choose equal samples.
    """
    split, data = federation.clients[client], federation.data
    rows = np.sort(np.concatenate([split.train, split.validation, split.test]))
    parts = {name: np.searchsorted(rows, getattr(split, name)).astype(np.int32) for name in PARTS}
    classes, places = data.loss.split(federation.graph.output_shape)
    content = io.BytesIO()
    about: dict[str, Any] = dict(axes_of(data.x)) | ({"targets": "labels"} if places and data.loss.has_labels else {})
    about |= {
        "scale": data.scale,
        "shift": data.shift,
        "classes": classes,
        CLIENT: np.asarray([client], np.int32),
    }
    np.savez(content, x=data.x[rows], y=data.y[rows], **about, **parts)
    write_atomically(path, content.getvalue())


def client_of(path: Path) -> int | None:
    """Return the client that owns the samples, or None if the file does not say it. Raises DataError for a value that
    is not the id of a client.
    """
    found = read_integers(path, (CLIENT,)).get(CLIENT)
    if found is None:
        return None
    if len(found) != 1 or found[0] < 0:
        raise DataError(f"{path}: {CLIENT} is {found.tolist()}; expected one id, 0 or more")
    return int(found[0])


def read_partition(path: Path, most: int | None = None) -> tuple[Samples, Split | None]:
    """Read the samples of a file, and their split if the file has one.

    most    bytes that the arrays may take beyond the file's own. None: any number
    Raises  DataError naming the file, the array, its value and what was expected.
    """
    if path.suffix != ".npz" and path.exists() and not zipfile.is_zipfile(path):
        raise DataError(f"{path}; expected an .npz file, as `edgefl partition --data {path.name}` writes one")
    if most is not None:
        check_unpacked(path, most)
    data = read_npz(path)
    found = read_integers(path, PARTS)
    loss = default_loss(data.y)
    if isinstance(loss, CrossEntropy) and data.y.ndim > 1 and int(data.y.min(initial=0)) < 0:
        loss = CrossEntropy(ignore_index=int(data.y.min()))  # the run's own loss takes its place
    samples = Samples(data.x, data.y, data.scale, data.shift, loss)
    if not found:
        return samples, None
    if found.keys() != set(PARTS):
        raise DataError(f"{path} has {', '.join(found)}; expected all of {', '.join(PARTS)}, or no part")
    for name, rows in found.items():
        if len(rows) and not 0 <= rows.min() <= rows.max() < len(samples):
            raise DataError(f"{path}: {name} goes from {rows.min()} to {rows.max()}; expected 0 to {len(samples) - 1}")
        if (np.diff(rows) <= 0).any():
            raise DataError(f"{path}: {name} is not sorted and unique; expected every sample once, in order")
    if len(np.unique(np.concatenate(list(found.values())))) < sum(map(len, found.values())):
        raise DataError(f"{path}: {', '.join(PARTS)} share samples; expected disjoint parts")
    if not len(found["train"]) or not len(found["test"]):
        raise DataError(
            f"{path}: {len(found['train'])} training and {len(found['test'])} test samples; expected at least one"
        )
    return samples, Split(**found)
