"""Files in the format safetensors, written and read in pieces, so that no second copy of large arrays is made.

The library `safetensors` reads the same files, and writes the same bytes where there is at most one text of metadata.
Its functions hold a whole file beside the arrays. Callers check a header with `safetensors.safe_open` before they read
values here. The format is described in the README of huggingface/safetensors, "Format".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

METADATA = "__metadata__"
LENGTH_BYTES, ALIGNMENT = 8, 8  # bytes of the header's length, and the multiple that a header is padded to
PIECE_BYTES = 1 << 20  # bytes of a file that are compared at once
TYPES = {  # the format's names of numpy's types, in the order in which a file has their arrays
    "U64": "<u8",
    "I64": "<i8",
    "F64": "<f8",
    "F32": "<f4",
    "U32": "<u4",
    "I32": "<i4",
    "BF16": "<u2",
    "F16": "<f2",
    "U16": "<u2",
    "I16": "<i2",
    "I8": "|i1",
    "U8": "|u1",
    "BOOL": "|b1",
}
NAMES = {np.dtype(code): name for name, code in TYPES.items() if name != "BF16"}
ORDER = {name: rank for rank, name in enumerate(TYPES)}

MakeBlock = Callable[[int], NDArray[np.uint8]]
"""Returns memory of a number of bytes for the values of an array."""


def content(
    arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str] | None = None, halves: Collection[str] = ()
) -> Iterator[memoryview]:
    """Yield the content of a file of these arrays: the header, then views of the arrays' values.

    An array whose values do not lie in order is copied while its piece is in use.

    halves  names of the uint16 arrays that are the bits of bfloat16 values, since numpy has no such type
    Raises  ValueError naming an array of another type than TYPES has.
    """
    for name, array in arrays.items():
        if array.dtype.newbyteorder("<") not in NAMES:
            raise ValueError(f"array {name!r} of type {array.dtype}; expected one of {', '.join(map(str, NAMES))}")
    kinds = {name: "BF16" if name in halves else _kind(array) for name, array in arrays.items()}
    order = sorted(arrays, key=lambda name: (ORDER[kinds[name]], name))
    yield memoryview(_header({name: arrays[name] for name in order}, kinds, metadata))
    for name in order:
        array = arrays[name]
        if array.nbytes:
            values = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
            yield values.reshape(-1).view(np.uint8).data


def read_arrays(
    path: Path, names: Collection[str] | None = None, block: MakeBlock = lambda size: np.empty(size, np.uint8)
) -> dict[str, NDArray[Any]]:
    """Return arrays of a file whose header has been checked, each in memory of its own.

    names  names of the arrays. None: all, in the order of the header
    block  makes the memory of an array
    Raises OSError if the file ends too early, ValueError naming an array of another type than TYPES has.
    """
    found: dict[str, NDArray[Any]] = {}
    with open(path, "rb", buffering=0) as file:
        places = _places(file)
        for name in places if names is None else names:
            place = places[name]
            if place.kind not in TYPES:
                raise ValueError(f"array {name!r} of type {place.kind}; expected one of {', '.join(TYPES)}")
            memory = block(place.end - place.start)
            file.seek(place.start)
            fill(memory.data, file.readinto, path)
            found[name] = memory.view(TYPES[place.kind]).reshape(place.shape)
    return found


def array_names(path: Path) -> list[str]:
    """Return the names of the arrays of a file whose header has been checked, in the order of the header."""
    with open(path, "rb", buffering=0) as file:
        return list(_places(file))


def same_values(path: Path, name: str, arrays: Mapping[str, NDArray[Any]]) -> str | None:
    """Return which of these arrays has the type, the shape and every bit of an array of a file, or None. The header of
    the file has been checked. Raises OSError if the file ends too early.
    """
    with open(path, "rb", buffering=0) as file:
        place = _places(file)[name]
        alike = {
            each: array.reshape(-1).view(np.uint8)
            for each, array in arrays.items()
            if NAMES.get(array.dtype) == place.kind and array.shape == place.shape and array.flags.c_contiguous
        }
        size = place.end - place.start if alike else 0
        piece = np.empty(min(PIECE_BYTES, size), np.uint8)
        file.seek(place.start)
        for at in range(0, size, PIECE_BYTES):
            read = piece[: size - at]
            fill(read.data, file.readinto, path)
            alike = {each: values for each, values in alike.items() if np.array_equal(values[at:][: len(read)], read)}
    return next(iter(alike), None)


def fill(memory: memoryview, readinto: Callable[[memoryview], int | None], name: Path | str) -> None:
    """Fill memory with the next bytes of a file of this name. Raises OSError if the file ends before."""
    while memory:
        count = readinto(memory)
        if not count:
            raise OSError(f"{name} ends {len(memory)} bytes before its values do")
        memory = memory[count:]


class _Place(NamedTuple):
    """Where a file has an array: the format's name of its type, its shape, its first byte and the byte after its
    last.
    """

    kind: str
    shape: tuple[int, ...]
    start: int
    end: int


def _places(file: IO[bytes]) -> dict[str, _Place]:
    """Return the place of each array that the header of a file lists."""
    size = int.from_bytes(file.read(LENGTH_BYTES), "little")
    header, first = json.loads(file.read(size)), LENGTH_BYTES + size
    header.pop(METADATA, None)
    return {
        name: _Place(each["dtype"], tuple(each["shape"]), *(first + offset for offset in each["data_offsets"]))
        for name, each in header.items()
    }


def _header(arrays: Mapping[str, NDArray[Any]], kinds: Mapping[str, str], metadata: Mapping[str, str] | None) -> bytes:
    """Return the header of a file that has these arrays in this order, after its length. `kinds` are their types."""
    listed: dict[str, Any] = {} if metadata is None else {METADATA: dict(metadata)}
    end = 0
    for name, array in arrays.items():
        start, end = end, end + array.nbytes
        listed[name] = {"dtype": kinds[name], "shape": list(array.shape), "data_offsets": [start, end]}
    text = json.dumps(listed, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    return len(text).to_bytes(LENGTH_BYTES, "little") + text


def _kind(array: NDArray[Any]) -> str:
    return NAMES[array.dtype.newbyteorder("<")]
