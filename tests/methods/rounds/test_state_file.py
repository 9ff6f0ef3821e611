"""Files of a server's state: the bytes of before without frozen parameters, and one file for all that is frozen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import safetensors.numpy

from edgefl.methods.rounds.state_file import BASE, StateFiles, flat, load
from edgefl.methods.task import MODEL, State


def state(weight: float, still: float = 1.0) -> State:
    params = {"body": np.full(1000, still, np.float32), "head": np.full(3, weight, np.float32)}
    return State({MODEL: params, "moment": {"body": np.full(2, weight, np.float32)}})


def written(files: StateFiles, path: Path, found: State) -> dict[str, bytes]:
    path.write_bytes(files.pack(found))
    return {name: array.tobytes() for name, array in flat(load(path, {}).arrays).items()}


def content(found: State) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in flat(found.arrays).items()}


def test_without_frozen_parameters_the_bytes_are_those_of_before(tmp_path: Path) -> None:
    files = StateFiles(tmp_path)
    assert files.pack(state(2.0)) == safetensors.numpy.save(flat(state(2.0).arrays))
    assert not (tmp_path / BASE).exists()


def test_frozen_parameters_are_written_once(tmp_path: Path) -> None:
    files = StateFiles(tmp_path)
    files.still = frozenset({"body"})
    for round in (1, 2):
        found = state(float(round))
        assert written(files, tmp_path / f"{round}.safetensors", found) == content(found)
        assert (tmp_path / f"{round}.safetensors").stat().st_size < 1000
    assert (tmp_path / BASE).stat().st_size > 4000


def test_a_value_that_is_not_frozen_after_all_is_written_whole(tmp_path: Path) -> None:
    """A method of the user's own could move what the model freezes."""
    files = StateFiles(tmp_path)
    files.still = frozenset({"body"})
    for still in (1.0, 2.0):
        found = state(1.0, still)
        assert written(files, tmp_path / f"{still}.safetensors", found) == content(found)
