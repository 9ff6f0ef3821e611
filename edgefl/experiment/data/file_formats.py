"""The formats of a user's own files, by the end of a file's name, and advice for a file without a reader.

A format is one row. Its module reads a table (`read_cells`) or arrays (`arrays_of`), and everything that reads data
finds the module here: training, and the inputs of a trained model (model_inputs.py). Modules are imported when such a
file is read, since some need an optional package.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, cast

from edgefl.errors import DataError, nearest
from edgefl.experiment.data.array_source import ArraysInMemory
from edgefl.experiment.data.column_choice import Reading
from edgefl.experiment.data.csv_table import USED, data_set_of
from edgefl.experiment.data.dataset import Array, DataSet
from edgefl.experiment.data.npz import LabelledArrays, read_npy, read_npz
from edgefl.experiment.data.table_cells import TableCells

Reader = Callable[[Path, Reading | None], DataSet]


class TableFormat(NamedTuple):
    """Files that have a table.

    module  the module of edgefl.experiment.data whose `read_cells(path, reading)` returns the columns of a file
    used    fields of Reading that such files have a use for
    """

    module: str
    used: tuple[str, ...] = USED

    def cells(self, path: Path, reading: Reading | None) -> TableCells:
        """Return the columns of a file. Raises DataError naming what is wrong with the file."""
        return cast(TableCells, _module(self.module).read_cells(path, reading))

    def read(self, path: Path, reading: Reading | None, name: str) -> DataSet:
        """Read the data set of a file. Raises DataError naming what is wrong with the file."""
        return data_set_of(self.cells(path, reading), reading, name, self.used)


class ArrayFormat(NamedTuple):
    """Files that have named arrays: the module whose `arrays_of(path)` returns the arrays, and notes on what it did."""

    module: str

    def arrays(self, path: Path) -> tuple[dict[str, Array], tuple[str, ...]]:
        """Return the arrays of a file, and notes. Raises DataError naming what is wrong with the file."""
        return cast("tuple[dict[str, Array], tuple[str, ...]]", _module(self.module).arrays_of(path))

    def read(self, path: Path, reading: Reading | None, name: str) -> DataSet:
        """Read the data set of a file. Raises DataError naming what is wrong with the file."""
        arrays, notes = self.arrays(path)
        return LabelledArrays(path, ArraysInMemory(arrays), reading).data_set(name).with_notes(*notes)


def _module(name: str) -> Any:
    return import_module(f"edgefl.experiment.data.{name}")


CSV, JSON = TableFormat("csv_table"), TableFormat("json_table")
ARROW = TableFormat("arrow_table", (*USED, "size"))
TABLES = {  # ends of file names -> the format
    ".csv": CSV, ".tsv": CSV, ".csv.gz": CSV, ".tsv.gz": CSV, ".parquet": ARROW, ".feather": ARROW, ".arrow": ARROW,
    ".jsonl": JSON, ".ndjson": JSON, ".json": JSON,
}  # fmt: skip
HUGGING_FACE = TableFormat("hugging_face", (*USED, "size"))
FOLDERS = {"state.json": HUGGING_FACE, "dataset_dict.json": HUGGING_FACE}  # a file in a folder -> the folder's format
ARRAYS = {".h5": ArrayFormat("hdf5_arrays"), ".hdf5": ArrayFormat("hdf5_arrays"), ".mat": ArrayFormat("matlab_arrays")}
ENDS = (".npz", ".npy", *TABLES, *ARRAYS)
_TABLES = ", ".join(end for end in TABLES if end != ".json")
FILES = (
    f"an .npz file, x.npy with y.npy, a table ({_TABLES}), an .h5 or .mat file, LEAF's .json, "
    "or a folder (CLASS/images, WORD/recordings, or by Hugging Face's datasets)"
)

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
    low = location.name.lower()
    if low.endswith((".npz", ".npy")):
        return read_npz if low.endswith(".npz") else read_npy
    if low.endswith(".json"):
        return cast(Reader, _module("json_table").read_json)  # it may be a file of LEAF
    found = format_of(location)
    end = next((end for end in ENDS if low.endswith(end)), "")
    return None if found is None else lambda path, reading: found.read(path, reading, path.name[: -len(end)])


def format_of(location: Path) -> TableFormat | ArrayFormat | None:
    """Return the format for the end of this file's name or for a file in this folder, or None without such a row."""
    if location.is_dir():
        return next((row for name, row in FOLDERS.items() if (location / name).is_file()), None)
    low = location.name.lower()
    return next((row for end, row in (TABLES | ARRAYS).items() if low.endswith(end)), None)


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

    folder  the function that reads a folder without a row in FOLDERS
    Raises  DataError naming what is wrong with the file, or its format if that format is not read.
    """
    if location.is_dir():
        row = format_of(location)
        return folder(location, reading) if row is None else row.read(location, reading, location.absolute().name)
    if not location.is_file():
        return None
    read = reader_of(location)
    return refuse_format(location) if read is None else read(location, reading)
