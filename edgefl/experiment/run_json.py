"""run.json: the settings of the run that a directory holds, and who made it. Not its rounds (simulation/journal.py,
server/store.py).

"made_by" lists every version and instruction set that a process of the run had (rounds/provenance.py), beside the
settings. "sha256" is of everything else in it, so that no setting changes unnoticed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from edgefl.errors import RunError
from edgefl.experiment import array_data
from edgefl.experiment.array_data import OwnData
from edgefl.experiment.model_file import COPY, is_kept, keep
from edgefl.methods.rounds.provenance import provenance
from edgefl.models.graph import Model
from edgefl.system.durable_files import DIGEST, private_directory, read_json, temporary, with_digest, write_atomically

EXPERIMENT = "run.json"
MADE_BY = "made_by"


def open_run(path: Path, experiment: dict[str, Any], model: Model | None = None, own: OwnData | None = None) -> None:
    """Makes `path` the directory of this experiment, or checks that it already is; this process is among its
    provenances.

    model   that the run begins with, if it came from a file: a new directory gets a copy
    own     data that it begins with, if they were given as arrays: likewise
    Raises  RunError naming the first setting that differs, or the directory if it holds something else.
    """
    provenances: list[str] = []
    if (path / EXPERIMENT).exists():
        check_run(path, experiment)
        provenances = read_provenances(path)
    elif path.exists() and not _is_new(path, model, own):
        raise RunError(f"{path} is not empty and holds no {EXPERIMENT}; expected a new directory or an edgefl run")
    else:
        private_directory(path)
        if model is not None:
            keep(path, model)
        if own is not None:
            array_data.keep(path, own)
    if provenance() not in provenances:
        private_directory(path)
        content = with_digest({**experiment, MADE_BY: [*provenances, provenance()]})
        write_atomically(path / EXPERIMENT, json.dumps(content, indent=1).encode())


def change_settings(path: Path, experiment: dict[str, Any]) -> None:
    """The run in this directory goes on with these settings. Whether it may is its owner's to know."""
    content = with_digest({**experiment, MADE_BY: read_provenances(path)})
    write_atomically(path / EXPERIMENT, json.dumps(content, indent=1).encode())


def _is_new(path: Path, model: Model | None, own: OwnData | None) -> bool:
    """Whether nothing is there but what a crash before run.json leaves: the model, the data, or a part of a file."""
    whole = {COPY, EXPERIMENT, *([] if own is None else [own.name])}
    found = {entry.name for entry in path.iterdir()} - {temporary(path / name).name for name in whole}
    if COPY in found and (model is None or not is_kept(path, model)):
        return False
    return found <= whole - {EXPERIMENT}


def check_run(path: Path, experiment: dict[str, Any]) -> None:
    """Raises RunError naming the first setting of the run that differs."""
    found = read_experiment(path)
    for name in sorted({*found, *experiment}):
        if found.get(name) != experiment.get(name):
            raise RunError(f"{path} was run with {name}={found.get(name)!r}; expected {experiment.get(name)!r}")


def read_experiment(path: Path) -> dict[str, Any]:
    """The settings a run directory was made with. Raises RunError if there is none, or if they are damaged."""
    return {name: value for name, value in _read(path).items() if name != MADE_BY}


def read_provenances(path: Path) -> list[str]:
    """Who made the run, in order of appearance. Raises RunError if the directory holds no run."""
    provenances = _read(path).get(MADE_BY, [])
    if not isinstance(provenances, list):
        raise RunError(f"{path / EXPERIMENT} has {MADE_BY}={provenances!r}; expected a list")
    return [str(made) for made in provenances]


def settings_digest(path: Path) -> str:
    """SHA-256 of the settings; empty if the directory has no run.json. Raises RunError if they are damaged."""
    return str(with_digest(read_experiment(path))[DIGEST]) if (path / EXPERIMENT).exists() else ""


def _read(path: Path) -> dict[str, Any]:
    try:
        return read_json(path / EXPERIMENT)
    except FileNotFoundError:
        raise RunError(f"{path / EXPERIMENT} is missing; expected the directory of an edgefl run") from None
