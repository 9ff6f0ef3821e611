"""Files of arrays written and read in pieces, beside the library of the format."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from edgefl.system.safetensors_files import TYPES, content, read_arrays, same_values

ARRAYS = {
    **{f'é"{name}': np.arange(6).reshape(3, 2).astype(code) for name, code in TYPES.items()},
    "empty": np.zeros((0, 3), np.float32),
    "scalar": np.array(2.5, np.float32),
    "a": np.arange(4, dtype=np.float32)[::-1],
}


def written(path: Path, arrays: dict[str, np.ndarray], metadata: dict[str, str] | None = None) -> Path:
    path.write_bytes(b"".join(content(arrays, metadata)))
    return path


@pytest.mark.parametrize("metadata", [None, {}, {"k": 'é"\n\u2028\x07/ v'}])
def test_content_is_what_the_library_writes(metadata: dict[str, str] | None) -> None:
    arrays = {name: array.copy() for name, array in ARRAYS.items()}
    assert b"".join(content(arrays, metadata)) == safetensors.numpy.save(arrays, metadata)
    assert b"".join(content({})) == safetensors.numpy.save({})


def test_arrays_come_back(tmp_path: Path) -> None:
    file = written(tmp_path / "file", ARRAYS)
    found = read_arrays(file)
    assert found.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        assert found[name].tobytes() == array.tobytes()
    assert list(read_arrays(file, ["a"])) == ["a"]


def test_a_type_that_numpy_lacks_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"array 'a' of type complex64; expected one of uint64"):
        list(content({"a": np.zeros(2, np.complex64)}))
    file = tmp_path / "file"
    file.write_bytes(b"".join(content({"a": np.zeros(2, np.float16)})).replace(b'"F16"', b'"BF6"'))
    with pytest.raises(ValueError, match=r"array 'a' of type BF6; expected one of U64"):
        read_arrays(file)


def test_a_file_that_ends_early_is_named(tmp_path: Path) -> None:
    file = written(tmp_path / "file", {"a": np.zeros(8, np.float32)})
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(OSError, match=r"file ends 5 bytes before its values do"):
        read_arrays(file)


def test_an_array_with_equal_bits_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgefl.system.safetensors_files.PIECE_BYTES", 8)
    kept = np.arange(5, dtype=np.float32)
    file = written(tmp_path / "file", {"kept": kept})
    last, zero = kept.copy(), kept.copy()
    last[4], zero[0] = 9, -0.0
    others = {"last": last, "zero": zero, "ints": kept.view(np.int32), "row": kept[None], "gaps": np.tile(kept, 2)[::2]}
    assert same_values(file, "kept", others) is None
    assert same_values(file, "kept", others | {"same": kept.copy()}) == "same"


def test_no_second_copy_of_the_values_is_made(tmp_path: Path) -> None:
    arrays = {name: np.zeros(1 << 19, np.float32) for name in "abcd"}
    size = sum(array.nbytes for array in arrays.values())
    tracemalloc.start()
    with open(tmp_path / "file", "wb") as file:
        file.writelines(content(arrays))
    wrote = tracemalloc.get_traced_memory()[1]
    read_arrays(tmp_path / "file")
    assert wrote < size / 8 and tracemalloc.get_traced_memory()[1] < 1.2 * size
    tracemalloc.stop()
