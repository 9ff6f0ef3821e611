"""The forms in which a program has its data, as arrays by the names of data/npz.py: pairs of arrays, a list with the
samples of each client, a torch Dataset or DataLoader, a pandas DataFrame, a DataSet.

Neither torch nor pandas is imported: an object can be of such a type only if the program has imported the package.
array_data.py decides what the arrays mean.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edgefl.errors import DataError
from edgefl.experiment.array_data import arrays_of, as_array
from edgefl.experiment.data.dataset import Array, DataSet
from edgefl.experiment.frame_data import of_frame
from edgefl.learning import Samples

NAMES = ("x", "y", "group")  # names of the parts of a tuple, an item or a TensorDataset, in order
EXPECTED = (
    "a name, a file, (x, y), (x, y, groups), a list of (x, y) with one for each client, a dict of arrays, a torch "
    "Dataset or DataLoader, a pandas DataFrame or a DataSet"
)


def arrays_in(data: Any, columns: Mapping[str, Any] = {}) -> Mapping[str, Any]:
    """Return the arrays of the data, or values that numpy or torch can convert to arrays.

    columns  for a DataFrame, the settings that name columns (frame_data.COLUMNS)
    Raises   ValueError for another form, DataError naming the client, the item or the column that does not fit.
    """
    if isinstance(data, Mapping):
        return data
    if isinstance(data, DataSet):
        return arrays_of(data)
    if isinstance(data, Samples):
        return {"x": data.x, "y": data.y, "scale": data.scale, "shift": data.shift}
    if is_frame(data):
        return of_frame(data, columns)
    if _is_of("torch.utils.data", "DataLoader", data):
        return arrays_in(_of_loader(data))
    if _is_of("torch.utils.data", "Dataset", data):
        return _of_dataset(data)
    if isinstance(data, list) and data and all(map(_is_of_client, data)):
        return _of_clients(data)
    if isinstance(data, tuple | list) and len(data) in (2, 3):
        return dict(zip(NAMES, data, strict=False))
    found = f"{type(data).__name__} of {len(data)}" if isinstance(data, tuple | list) else type(data).__name__
    raise ValueError(f"data is {found}; expected {EXPECTED}")


def is_frame(data: Any) -> bool:
    """Return whether the data are a pandas DataFrame, whose columns settings may name."""
    return _is_of("pandas", "DataFrame", data)


def _is_of(module: str, name: str, value: Any) -> bool:
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(value, kind)


def _is_of_client(item: Any) -> bool:
    """Return whether an item of a list is the samples of a client: (x, y) of arrays, a Dataset or a DataLoader."""
    if _is_of("torch.utils.data", "Dataset", item) or _is_of("torch.utils.data", "DataLoader", item):
        return True
    return isinstance(item, tuple | list) and len(item) == 2 and all(map(_is_array, item))


def _is_array(value: Any) -> bool:
    return len(getattr(value, "shape", ())) >= 1


def _of_clients(items: Sequence[Any]) -> dict[str, Array]:
    """Join the samples of all clients, one client after another. Each client is a group, in order."""
    parts: dict[str, list[Array]] = {"x": [], "y": []}
    for client, item in enumerate(items):
        pair = arrays_in(tuple(item) if isinstance(item, list) else item)
        if pair.keys() != parts.keys():
            raise DataError(f"data: client {client} has {', '.join(pair)}; expected x and y")
        for name, found in parts.items():
            found.append(as_array(f"{name} of client {client}", pair[name]))
        _check_client(client, parts["x"], parts["y"])
    counts = [len(x) for x in parts["x"]]
    joined = {name: np.concatenate(found) for name, found in parts.items()}
    return {**joined, "group": np.repeat(np.arange(len(items), dtype=np.int32), counts)}


def _check_client(client: int, x: Sequence[Array], y: Sequence[Array]) -> None:
    """Raise DataError unless the last client's arrays fit each other and the arrays of client 0."""
    if x[-1].ndim == 0 or y[-1].ndim == 0 or len(x[-1]) != len(y[-1]) or not len(x[-1]):
        found = f"x of shape {x[-1].shape} and y of shape {y[-1].shape}"
        raise DataError(f"data: client {client} has {found}; expected as many labels as samples, at least one")
    for name, arrays in (("x", x), ("y", y)):
        first, last = arrays[0], arrays[-1]
        if last.shape[1:] != first.shape[1:] or (last.dtype != first.dtype and last.dtype.kind != first.dtype.kind):
            expected = f"{first.dtype} [N{''.join(f', {size}' for size in first.shape[1:])}] as of client 0"
            raise DataError(f"data: client {client} has {name} of {last.dtype} {last.shape}; expected {expected}")


def _of_loader(loader: Any) -> Any:
    """Return the Dataset of a DataLoader, with a warning that says which parts of the DataLoader are not used.

    Raises  ValueError for a sampler that leaves samples out or repeats samples.
    """
    if _is_of("torch.utils.data", "IterableDataset", loader.dataset):
        return loader.dataset  # another function refuses it with its own message
    sampler = getattr(loader.sampler, "sampler", loader.sampler)
    name = type(sampler).__name__
    if not (name == "SequentialSampler" or (name == "RandomSampler" and not sampler.replacement)):
        raise ValueError(
            f"data is a DataLoader with {name}, which chooses samples; expected the chosen samples as a Dataset: "
            "torch.utils.data.Subset(dataset, indices)"
        )
    warnings.warn(
        f"only the dataset of the DataLoader is used; batch_size={loader.batch_size}, shuffling and collate_fn are "
        "not: give batch=, and seed= for the order",
        stacklevel=5,
    )
    return loader.dataset


def _of_dataset(dataset: Any) -> dict[str, Any]:
    """Read the items of a map-style torch Dataset, each item once, in order."""
    if _is_of("torch.utils.data", "TensorDataset", dataset):
        tensors = dataset.tensors
        if len(tensors) not in (2, 3):
            raise DataError(f"data: a TensorDataset of {len(tensors)} tensors; expected x and y, or x, y and groups")
        return dict(zip(NAMES, tensors, strict=False))
    if not hasattr(dataset, "__len__") or _is_of("torch.utils.data", "IterableDataset", dataset):
        raise DataError(f"data is {type(dataset).__name__} without a length; expected a Dataset with __len__ and items")
    count = len(dataset)
    if not count:
        raise DataError(f"data: {type(dataset).__name__} of 0 items; expected at least one")
    arrays: dict[str, Array] = {}
    for at in range(count):
        parts = _parts_of(dataset[at], at)
        arrays = arrays or {name: _room(name, part, count) for name, part in parts.items()}
        if parts.keys() != arrays.keys():
            raise DataError(f"data: item {at} has {len(parts)} parts; expected {len(arrays)}, as item 0 has")
        for name, part in parts.items():
            _put(arrays[name], name, part, at)
    return arrays


def _parts_of(item: Any, at: int) -> dict[str, Array]:
    """Return x and y of an item, and its group if it has one."""
    if isinstance(item, Mapping):
        names = ", ".join(map(str, item))
        raise DataError(
            f"data: item {at} is a dict of {names}; expected (x, y) or (x, y, group): name the parts, as "
            'data={"x": [each[NAME] for each in dataset], "y": [each[NAME] for each in dataset]}'
        )
    if not isinstance(item, tuple | list) or len(item) not in (2, 3):
        found = f"{type(item).__name__} of {len(item)}" if isinstance(item, tuple | list) else type(item).__name__
        raise DataError(f"data: item {at} is {found}; expected (x, y) or (x, y, group)")
    parts = {name: as_array(f"{name} of item {at}", part) for name, part in zip(NAMES, item, strict=False)}
    if parts["x"].dtype.kind not in "biuf" or type(item[0]).__module__.startswith("PIL."):
        found = type(item[0]).__name__
        raise DataError(f"data: x of item {at} is {found}; expected numbers, as by transform=ToTensor()")
    return parts


def _room(name: str, part: Array, count: int) -> Array:
    """Return an empty array for so many parts like this one. Raises DataError if memory has no room for it."""
    if part.dtype.kind == "U":
        return np.empty((count, *part.shape), object)
    try:
        return np.empty((count, *part.shape), part.dtype)
    except (MemoryError, ValueError) as error:
        found = f"{count} items of {part.dtype} {part.shape}"
        raise DataError(f"data: {name} of {found} does not fit in memory ({error}); expected fewer items") from None


def _put(room: Array, name: str, part: Array, at: int) -> None:
    is_text = part.dtype.kind == "U" and room.dtype == object
    if part.shape != room.shape[1:] or (part.dtype != room.dtype and not is_text):
        expected = f"{room.dtype} {room.shape[1:]} as of item 0"
        raise DataError(f"data: {name} of item {at} is {part.dtype} {part.shape}; expected {expected}")
    room[at] = str(part) if is_text and not part.shape else part
