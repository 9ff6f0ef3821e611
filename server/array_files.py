"""The files of a method's arrays in a run's directory, one file for each closed round: which exist, and which are kept.

rounds/state_file.py has their content, and store.py decides when they are written.
"""

from __future__ import annotations

from pathlib import Path

from edgefl.errors import RunError
from edgefl.methods.rounds.state_file import BASE
from edgefl.system.durable_files import load_arrays

FOLDER = "server"
KEPT = 2  # rounds whose arrays are kept at least: the last closed round and the round before it


def arrays_file(path: Path, round: int) -> Path:
    """Return the file of the arrays after a round."""
    return path / FOLDER / f"{round:06d}.safetensors"


def frozen_bytes(path: Path) -> int:
    """Return the bytes of the frozen parameters in the run's state, 0 if no parameter is frozen."""
    base = path / FOLDER / BASE
    return sum(array.nbytes for array in load_arrays(base)[0].values()) if base.exists() else 0


def arrays_files(path: Path) -> list[Path]:
    """Return every file of arrays that exists, the oldest first."""
    return sorted((path / FOLDER).glob("[0-9]*.safetensors"), key=_round)


def check_newest(path: Path, closed: int) -> None:
    """Raise RunError if there are arrays that no crash after the closed round `closed` can have left.

    A crash may leave the arrays of the next round, which are written before the commit that closes it.
    """
    files = arrays_files(path)
    if files and _round(files[-1]) > closed + 1:
        raise RunError(f"{files[-1]} is newer than the last round in {path / 'run.db'}; expected round {closed} there")


def remove_superseded(path: Path, round: int, last: int = KEPT) -> None:
    """Remove the arrays of all rounds but the `last` ones, which end with this round, and unfinished files of a
    crash.
    """
    kept = {arrays_file(path, round - age) for age in range(last)}
    for file in (path / FOLDER).iterdir():
        if file not in kept and file.name != BASE:
            file.unlink()


def _round(file: Path) -> int:
    return int(file.stem) if file.stem.isdecimal() else 0
