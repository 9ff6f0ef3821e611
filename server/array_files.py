"""The files of a method's arrays in a run's directory, one a closed round: which there are, and which are kept.

Not what is in them (rounds/state_file.py), nor when they are written (store.py).
"""

from __future__ import annotations

from pathlib import Path

from edgefl.errors import RunError

FOLDER = "server"
KEPT = 2  # rounds whose arrays are kept: the last closed one's, and the one's before


def arrays_file(path: Path, round: int) -> Path:
    """The file of the arrays after a round."""
    return path / FOLDER / f"{round:06d}.safetensors"


def arrays_files(path: Path) -> list[Path]:
    """Every file of arrays that there is, the oldest first."""
    return sorted((path / FOLDER).glob("[0-9]*.safetensors"), key=_round)


def check_newest(path: Path, closed: int) -> None:
    """Raises RunError if there are arrays that no crash after this closed round can have left: it may have left those
    of the next round, written before the commit that closes it.
    """
    files = arrays_files(path)
    if files and _round(files[-1]) > closed + 1:
        raise RunError(f"{files[-1]} is newer than the last round in {path / 'run.db'}; expected round {closed} there")


def remove_superseded(path: Path, round: int) -> None:
    """Removes the arrays of all rounds but the last KEPT, which end with this one, and what a crash left of writing."""
    kept = {arrays_file(path, round - age) for age in range(KEPT)}
    for file in (path / FOLDER).iterdir():
        if file not in kept:
            file.unlink()


def _round(file: Path) -> int:
    return int(file.stem) if file.stem.isdecimal() else 0
