"""The search for the array or column that names the origin of each sample, where the user names no column. It reads
names in the file, and no samples.
"""

from __future__ import annotations

import csv
import gzip
import zipfile
from pathlib import Path

from edgefl.experiment.data.checked_reader import damages

GROUPS = ("group", "speaker")
LONGEST_HEADING = 1 << 20  # bytes


def group_names(path: Path) -> tuple[str, ...]:
    """Return the names of groups in an .npz file, in the heading of a table, or among the npy files in the folder of an
    x.npy. The result is empty for a file of another kind and for a file that cannot be read.
    """
    try:
        names = _names(path)
    except damages():
        return ()
    return tuple(name for name in GROUPS if name in names)


def _names(path: Path) -> set[str]:
    low = path.name.lower()
    if low.endswith(".npz"):
        with zipfile.ZipFile(path) as archive:
            return {_array_name(name) for name in archive.namelist()}
    if low.endswith(".npy"):
        stem = next((path.stem.removesuffix(end) for end in ("x_train", "x") if path.stem.endswith(end)), path.stem)
        return {_array_name(each.name.removeprefix(stem)) for each in path.parent.iterdir() if each.suffix == ".npy"}
    if not low.removesuffix(".gz").endswith((".csv", ".tsv")):
        return set()
    with gzip.open(path) if low.endswith(".gz") else open(path, "rb") as stream:
        heading = stream.readline(LONGEST_HEADING).decode("utf-8-sig", "replace")
    return {name.strip() for name in next(csv.reader([heading], delimiter=max(",;\t", key=heading.count)), [])}


def _array_name(name: str) -> str:
    return name.removesuffix(".npy").removesuffix("_train")
