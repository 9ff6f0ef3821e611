"""The choice of the reader for a user's own file, by the end of its name, and advice for a file without a reader.

Readers of formats that need an optional package are imported when such a file is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from edgefl.errors import DataError, nearest
from edgefl.experiment.data.column_choice import Reading
from edgefl.experiment.data.csv_table import read_table
from edgefl.experiment.data.dataset import DataSet
from edgefl.experiment.data.npz import read_npy, read_npz

Reader = Callable[[Path, Reading | None], DataSet]
FILES = (
    "an .npz file, an x.npy beside its y.npy, a table (.csv, .csv.gz, .parquet, .feather, .arrow, .jsonl), an .h5 or "
    ".mat file, a .json file of LEAF, a folder CLASS/images, or a folder WORD/recordings of wav files"
)


def _later(module: str, name: str) -> Reader:
    """Return the reader of that name in that module. The module is imported when the reader is called."""

    def read(path: Path, reading: Reading | None) -> DataSet:
        found: DataSet = getattr(import_module(f"edgefl.experiment.data.{module}"), name)(path, reading)
        return found

    return read


_ARROW, _HDF5 = _later("arrow_table", "read_arrow"), _later("hdf5_arrays", "read_hdf5")
READERS: dict[str, Reader] = {
    ".npz": read_npz,
    ".npy": read_npy,
    ".csv": read_table,
    ".tsv": read_table,
    ".csv.gz": read_table,
    ".tsv.gz": read_table,
    ".jsonl": _later("json_table", "read_jsonl"),
    ".ndjson": _later("json_table", "read_jsonl"),
    ".json": _later("json_table", "read_json"),
    ".parquet": _ARROW,
    ".feather": _ARROW,
    ".arrow": _ARROW,
    ".h5": _HDF5,
    ".hdf5": _HDF5,
    ".mat": _later("matlab_arrays", "read_matlab"),
}

_PANDAS = """python -c 'import pandas; pandas.{}("{}").to_csv("{}.csv", index=False)'"""
_TORCH = """python -c 'import numpy, torch; x, y = torch.load("{}"); numpy.savez("{}.npz", x=x, y=y)'"""
_ARRAYS = 'numpy.savez("{}.npz", x=x, y=y) in a program that has read the samples x and the labels y'
PANDAS = {  # ends of file names -> the function of pandas that reads such files
    ".xlsx": "read_excel", ".xls": "read_excel", ".ods": "read_excel", ".pkl": "read_pickle", ".pickle": "read_pickle",
    ".orc": "read_orc", ".dta": "read_stata", ".sav": "read_spss", ".sas7bdat": "read_sas", ".xml": "read_xml",
    ".txt": "read_table", ".dat": "read_table",
}  # fmt: skip
PACKED = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".7z", ".rar")
MODELS = (".safetensors", ".onnx", ".tflite", ".gguf", ".ckpt")


def reader_of(location: Path) -> Reader | None:
    """Return the reader for the end of this file's name, or None if there is no such reader."""
    return next((read for end, read in READERS.items() if location.name.lower().endswith(end)), None)


def refuse_format(location: Path) -> Any:
    """Raise DataError for a file that no reader takes, and say what the file is and how to convert it."""
    raise DataError(f"{location}: {_help(location)}")


def _help(location: Path) -> str:
    name, stem, suffix = location.name, location.stem, location.suffix.lower()
    if name.lower().endswith(PACKED):
        return f"packed files are not read; expected their content: python -m zipfile -e {name} {stem} (or tarfile)"
    if suffix in MODELS:
        return (
            f"a {suffix} file has a model and no samples; expected it as the model (--model), and {FILES} as the data"
        )
    if suffix in PANDAS:
        return f"{suffix} files are not read; expected a table: {_PANDAS.format(PANDAS[suffix], name, stem)}"
    if suffix in (".pt", ".pth"):
        return (
            f"{suffix} files are not read, since they may hold programs; expected arrays: {_TORCH.format(name, stem)}"
        )
    kind = f"{suffix} files are" if suffix else "files without an ending in their name are"
    return f"{kind} not read; expected {FILES}; {_ARRAYS.format(stem)} makes one"


def looks_like_path(name: str) -> bool:
    """Return whether a user who typed this text meant a file or a folder."""
    return "/" in name or "\\" in name or name.startswith(("~", ".")) or bool(Path(name).suffix)


def refuse_path(name: str, roots: Sequence[Path]) -> Any:
    """Raise DataError for a path that does not exist. The error lists the most similar names in the folder."""
    path = Path(name).expanduser()
    looked = ", ".join(map(str, roots))
    folder = path.parent
    if not folder.is_dir():
        missing = next(each for each in (folder, *folder.parents) if each.parent.is_dir())
        raise DataError(
            f"{name}: no such file or folder, because the folder {missing} does not exist; looked here and in {looked}"
        )
    near = nearest(path.name, (each.name for each in folder.iterdir()))
    meant = f"; {folder} has {', '.join(near)}" if near else ""
    where = f", here or in {looked}" if looked else "; expected one that exists"
    raise DataError(f"{name}: no such file or folder{where}{meant}")


def read_file_or_folder(location: Path, reading: Reading | None, folder: Reader) -> DataSet | None:
    """Read the data set at that path, or return None if nothing is there.

    folder  the function that reads a folder
    Raises  DataError naming what is wrong with the file, or its format if that format is not read.
    """
    if location.is_dir():
        return folder(location, reading)
    if not location.is_file():
        return None
    read = reader_of(location)
    return refuse_format(location) if read is None else read(location, reading)
