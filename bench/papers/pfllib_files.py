"""The files that PFLlib's Fashion-MNIST generator writes, as a federation of edgefl.

The images become bytes again. They are normalised when they are read: (x / 255 - .5) / .5, as the generator wrote them.
PFLlib leaves out the last, smaller batch of an epoch, which has other samples each time, and edgefl keeps it. So a
client trains here on as many whole batches, and both take as many steps: up to nine fixed samples are left out. The
files are pickled, so read only files that you made yourself.
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from edgefl.errors import DataError
from edgefl.experiment.data.split import Split
from edgefl.experiment.federation import Federation
from edgefl.learning import Samples
from edgefl.models.graph.model_files import load
from edgefl.system.durable_files import write_atomically

CLIENTS, BATCH = 20, 10
SCALE, SHIFT = 2 / 255, -1.0


def federation(folder: Path, model: Path, seed: int) -> Federation:
    """Return every client's training and test part as its two files have them.

    folder  of the partition, with train/0.npz, test/0.npz and so on
    model   file with the model from which training starts
    Raises  DataError if a file is missing, or its images are not normalised bytes.
    """
    images, labels, splits, start = [], [], [], 0
    for client in range(CLIENTS):
        both = [_read(folder / part / f"{client}.npz") for part in ("train", "test")]
        train, test = (len(y) for _, y in both)
        rows = np.arange(start, start + train + test, dtype=np.int32)
        splits.append(Split(rows[: train - train % BATCH], rows[:0], rows[train:]))
        images += [x for x, _ in both]
        labels += [y for _, y in both]
        start += train + test
    graph, params = load(model)
    data = Samples(np.concatenate(images), np.concatenate(labels), SCALE, SHIFT)
    return Federation(graph, data, tuple(splits), seed, weights=dict(params))


def write_tenth(folder: Path, out: Path) -> None:
    """Write files with the first tenth of every client's training samples, and with all of its test samples.

    The generator has shuffled the samples of a client. Files that are there stay.

    folder, out  folder that the generator has written, and the new folder
    Raises       DataError if a file is missing.
    """
    for part in ("train", "test"):
        (out / part).mkdir(parents=True, exist_ok=True)
        for client in range(CLIENTS):
            if (path := out / part / f"{client}.npz").exists():
                continue
            content = _content(folder / part / f"{client}.npz")
            count = len(content["y"]) // 10 if part == "train" else len(content["y"])
            file = io.BytesIO()
            np.savez_compressed(file, data=np.array({name: content[name][:count] for name in ("x", "y")}, object))
            write_atomically(path, file.getvalue())


def _content(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of one file by name, as the generator wrote them."""
    if not path.is_file():
        raise DataError(f"no {path}; expected what PFLlib's generate_FashionMNIST.py writes")
    with np.load(path, allow_pickle=True) as archive:
        return dict(archive["data"].item())


def _read(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return images, uint8 [N, 1, 28, 28], and labels of one file."""
    content = _content(path)
    values = (content["x"] - SHIFT) / SCALE
    images = np.rint(values)
    if np.abs(values - images).max(initial=0) > 1e-3:
        raise DataError(f"{path} has other values than normalised bytes")
    return images.astype(np.uint8), content["y"].astype(np.int32)
