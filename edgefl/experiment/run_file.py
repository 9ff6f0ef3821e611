"""run.json: what a run directory says of the run it holds. Not its rounds (simulation/journal.py, server/store.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from edgefl.durable import write_atomically
from edgefl.errors import RunError

EXPERIMENT = "run.json"


def open_run(path: Path, experiment: dict[str, Any]) -> None:
    """Makes `path` the directory of this experiment, or checks that it already is.

    Raises RunError naming the first setting that differs, or the directory if it holds something else.
    """
    file = path / EXPERIMENT
    if file.exists():
        found = read_experiment(path)
        for name in sorted({*found, *experiment}):
            if found.get(name) != experiment.get(name):
                raise RunError(f"{path} was run with {name}={found.get(name)!r}; expected {experiment.get(name)!r}")
        return
    if path.exists() and any(path.iterdir()):
        raise RunError(f"{path} is not empty and holds no {EXPERIMENT}; expected a new directory or an edgefl run")
    path.mkdir(parents=True, exist_ok=True)
    write_atomically(file, json.dumps(experiment, indent=1).encode())


def read_experiment(path: Path) -> dict[str, Any]:
    """The settings a run directory was made with. Raises RunError if there is none."""
    try:
        found = json.loads((path / EXPERIMENT).read_bytes())
    except FileNotFoundError:
        raise RunError(f"{path} has no {EXPERIMENT}; expected the directory of an edgefl run") from None
    except ValueError as error:
        raise RunError(f"{path / EXPERIMENT} is not JSON ({error})") from None
    return dict(found)
