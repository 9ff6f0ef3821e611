"""run.json: the settings of the run that a directory holds, and who made it. The rounds are in other files
(simulation/journal.py, server/store.py).

Two entries of the file are not settings. "made_by" lists every version and instruction set that a process of the run
had (rounds/provenance.py). "trained_on" lists the records of the data that the run has trained on (data_record.py), the
latest last. "sha256" is the digest of everything else in the file, so that no setting changes unnoticed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from edgefl.errors import RunError
from edgefl.experiment import array_data
from edgefl.experiment.array_data import OwnData
from edgefl.experiment.data_record import DataRecord
from edgefl.experiment.model_file import COPY, is_kept, keep
from edgefl.methods.rounds.provenance import provenance
from edgefl.models.graph import Model
from edgefl.system.durable_files import DIGEST, private_directory, read_json, temporary, with_digest, write_atomically

EXPERIMENT = "run.json"
MADE_BY, TRAINED_ON = "made_by", "trained_on"
BESIDE = (MADE_BY, TRAINED_ON)  # entries that are not settings


def open_run(
    path: Path,
    experiment: dict[str, Any],
    model: Model | None = None,
    own: OwnData | None = None,
    trains_on: DataRecord | None = None,
) -> None:
    """Make `path` the directory of this experiment, or check that it already is. The provenance of this process is
    added.

    model      model from a file that the run begins with. A new directory gets a copy
    own        data given as arrays that the run begins with. A new directory gets a copy
    trains_on  record of a new run's data, if it is known. For a run that continues, call `check_data`
    Raises     RunError naming the first setting that differs, or the directory if it holds something else.
    """
    beside: dict[str, Any] = {} if trains_on is None else {TRAINED_ON: [trains_on.to_json()]}
    provenances: list[str] = []
    if (path / EXPERIMENT).exists():
        check_run(path, experiment)
        provenances, beside = read_provenances(path), _beside(path)
    elif path.exists() and not _is_new(path, model, own):
        raise RunError(f"{path} is not empty and holds no {EXPERIMENT}; expected a new directory or an edgefl run")
    else:
        _make_directory(path)
        if model is not None:
            keep(path, model)
        if own is not None:
            array_data.keep(path, own)
    if provenance() not in provenances:
        private_directory(path)
        _write(path, experiment, {**beside, MADE_BY: [*provenances, provenance()]})


def check_data(path: Path, found: DataRecord, accept: bool = False) -> str | None:
    """Check that the run in this directory continues with the data that it has trained on. Return a line for the user
    if the data were not recorded before, or if a change has been accepted.

    accept  whether the run continues with changed data, of which run.json then keeps both records
    Raises  RunError naming what has changed.
    """
    beside = _beside(path)
    records = read_data_records(path)
    change = records[-1].change_to(found) if records else ""
    if change is None:
        return None
    if change and not accept:
        raise RunError(
            f"{path} has trained on other data than there are now: {change}; restore the earlier data, or accept "
            "the new data with --accept-data (accept_data=True)"
        )
    records = [*records, found]
    _write(path, read_experiment(path), {**beside, TRAINED_ON: [each.to_json() for each in records]})
    if change:
        return f"{path} continues with data other than those that it has trained on, as --accept-data allows: {change}"
    return (
        f"{path} keeps no SHA-256 of the data that it has trained on, as an older edgefl made it: whether the data "
        "have changed since is not known, and later changes are refused"
    )


def read_data_records(path: Path) -> list[DataRecord]:
    """Return the records of the data that the run has trained on, the latest last. The list is empty for a run of an
    older version. Raises RunError if a record is damaged.
    """
    try:
        return [DataRecord.read(record) for record in _read(path).get(TRAINED_ON, [])]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise RunError(
            f"{path / EXPERIMENT} has a damaged {TRAINED_ON} ({error!r}); expected records of data"
        ) from None


def _make_directory(path: Path) -> None:
    """Raise RunError if the directory of a new run cannot be made."""
    try:
        private_directory(path)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise RunError(f"{path} cannot be made ({why}); expected a run directory in a place of your own") from None


def change_settings(path: Path, experiment: dict[str, Any]) -> None:
    """Give the run in this directory these settings. The caller decides whether the run may change."""
    _write(path, experiment, _beside(path))


def _is_new(path: Path, model: Model | None, own: OwnData | None) -> bool:
    """Return whether the directory has only what a crash before run.json leaves: model, data, or a part of a file."""
    whole = {COPY, EXPERIMENT, *([] if own is None else [own.name])}
    found = {entry.name for entry in path.iterdir()} - {temporary(path / name).name for name in whole}
    if COPY in found and (model is None or not is_kept(path, model)):
        return False
    return found <= whole - {EXPERIMENT}


def check_run(path: Path, experiment: dict[str, Any]) -> None:
    """Raise RunError naming the first setting of the run that differs."""
    found = read_experiment(path)
    for name in sorted({*found, *experiment}):
        if found.get(name) != experiment.get(name):
            raise RunError(
                f"{path} was run with {name}={found.get(name)!r}; expected {experiment.get(name)!r}"
                f"{_cure(path, name, name in found, name in experiment)}"
            )


def _cure(path: Path, name: str, is_stored: bool, is_known: bool) -> str:
    """Return the remedy for a setting that only one version of edgefl has, the present one or the run's."""
    if is_stored and is_known:
        return ""
    makers = " and ".join(read_provenances(path)) or "an older edgefl"
    whose = f"this edgefl has no setting {name}" if is_stored else f"the run was made without a setting {name}"
    return f": {whose}; continue with the version of edgefl that made the run ({makers}), or begin a new run"


def read_experiment(path: Path) -> dict[str, Any]:
    """Return the settings that a run directory was made with. Raises RunError if they are missing or damaged."""
    return {name: value for name, value in _read(path).items() if name not in BESIDE}


def read_provenances(path: Path) -> list[str]:
    """Return the provenances of the run, in order of appearance. Raises RunError if the directory holds no run."""
    provenances = _read(path).get(MADE_BY, [])
    if not isinstance(provenances, list):
        raise RunError(f"{path / EXPERIMENT} has {MADE_BY}={provenances!r}; expected a list")
    return [str(made) for made in provenances]


def settings_digest(path: Path) -> str:
    """Return the SHA-256 of the settings, or "" without a run.json. Raises RunError if the settings are damaged."""
    return str(with_digest(read_experiment(path))[DIGEST]) if (path / EXPERIMENT).exists() else ""


def _beside(path: Path) -> dict[str, Any]:
    """Return the entries of run.json that are not settings."""
    return {name: value for name, value in _read(path).items() if name in BESIDE}


def _write(path: Path, experiment: dict[str, Any], beside: dict[str, Any]) -> None:
    write_atomically(path / EXPERIMENT, json.dumps(with_digest({**experiment, **beside}), indent=1).encode())


def _read(path: Path) -> dict[str, Any]:
    try:
        return read_json(path / EXPERIMENT)
    except FileNotFoundError:
        raise RunError(f"{path / EXPERIMENT} is missing; expected the directory of an edgefl run") from None
