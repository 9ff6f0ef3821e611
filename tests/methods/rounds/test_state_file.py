"""Files of a server's state: the bytes of before without frozen parameters, and one file for all that is frozen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from edgefl.errors import RunError
from edgefl.methods.rounds.state_file import BASE, StateFiles, flat, load, without_arrays
from edgefl.methods.task import MODEL, State
from edgefl.system.durable_files import sha256


def state(weight: float, still: float = 1.0) -> State:
    params = {"body": np.full(1000, still, np.float32), "head": np.full(3, weight, np.float32)}
    return State({MODEL: params, "moment": {"body": np.full(2, weight, np.float32)}})


def written(files: StateFiles, path: Path, found: State) -> dict[str, bytes]:
    path.write_bytes(b"".join(files.pack(found)))
    return {name: array.tobytes() for name, array in flat(load(path, {}).arrays).items()}


def content(found: State) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in flat(found.arrays).items()}


def test_without_frozen_parameters_the_bytes_are_those_of_before(tmp_path: Path) -> None:
    files = StateFiles(tmp_path)
    assert b"".join(files.pack(state(2.0))) == safetensors.numpy.save(flat(state(2.0).arrays))
    assert not (tmp_path / BASE).exists()


def test_frozen_parameters_are_written_once(tmp_path: Path) -> None:
    files = StateFiles(tmp_path)
    files.still = {"body": np.zeros(0)}
    for round in (1, 2):
        found = state(float(round))
        assert written(files, tmp_path / f"{round}.safetensors", found) == content(found)
        assert (tmp_path / f"{round}.safetensors").stat().st_size < 1000
    assert (tmp_path / BASE).stat().st_size > 4000


def test_a_value_that_is_not_frozen_after_all_is_written_whole(tmp_path: Path) -> None:
    """A method of the user's own could move what the model freezes."""
    files = StateFiles(tmp_path)
    files.still = {"body": np.zeros(0)}
    for still in (1.0, 2.0):
        found = state(1.0, still)
        assert written(files, tmp_path / f"{still}.safetensors", found) == content(found)


def test_a_state_has_the_very_arrays_of_the_model_where_their_bits_are_equal(tmp_path: Path) -> None:
    files, found = StateFiles(tmp_path), state(1.0)
    files.still = {"body": found.arrays[MODEL]["body"]}
    written(files, tmp_path / "1.safetensors", found)
    loaded = load(tmp_path / "1.safetensors", {}, still=files.still).arrays[MODEL]
    assert loaded["body"] is found.arrays[MODEL]["body"]
    other = load(tmp_path / "1.safetensors", {}, still={"body": np.zeros(1000, np.float32)}).arrays[MODEL]
    assert np.array_equal(other["body"], loaded["body"]) and loaded["head"].tolist() == [1, 1, 1]


def test_a_file_of_frozen_parameters_is_written_again_if_it_is_another(tmp_path: Path) -> None:
    for still in (1.0, 2.0):
        files, found = StateFiles(tmp_path), state(1.0, still)
        files.still = {"body": found.arrays[MODEL]["body"]}
        assert written(files, tmp_path / "1.safetensors", found) == content(found)


def test_files_are_compared_with_their_digests_without_their_arrays(tmp_path: Path) -> None:
    files, found = StateFiles(tmp_path), state(1.0)
    files.still = {"body": found.arrays[MODEL]["body"]}
    written(files, tmp_path / "1.safetensors", found)
    digest = sha256((tmp_path / "1.safetensors").read_bytes())
    assert without_arrays(tmp_path / "1.safetensors", {"a": 1}, digest) == State({}, {"a": 1})
    for name in ("1.safetensors", BASE):
        whole = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(RunError, match=f"{name} is damaged"):
            without_arrays(tmp_path / "1.safetensors", {}, digest)
        (tmp_path / name).write_bytes(whole)
