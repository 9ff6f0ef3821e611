"""run.json: the settings of the run that a directory holds, and who made it. Not its rounds (simulation/journal.py,
server/store.py).

"made_by" lists every version and instruction set that a process of the run had (rounds/maker.py), beside the settings.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from edgefl.durable import private_directory, write_atomically
from edgefl.errors import RunError
from edgefl.rounds.maker import maker

EXPERIMENT = "run.json"
MADE_BY = "made_by"


def open_run(path: Path, experiment: dict[str, Any]) -> None:
    """Makes `path` the directory of this experiment, or checks that it already is; this process is among its makers.

    Raises RunError naming the first setting that differs, or the directory if it holds something else.
    """
    makers: list[str] = []
    if (path / EXPERIMENT).exists():
        found, makers = read_experiment(path), read_makers(path)
        for name in sorted({*found, *experiment}):
            if found.get(name) != experiment.get(name):
                raise RunError(f"{path} was run with {name}={found.get(name)!r}; expected {experiment.get(name)!r}")
    elif path.exists() and any(path.iterdir()):
        raise RunError(f"{path} is not empty and holds no {EXPERIMENT}; expected a new directory or an edgefl run")
    if maker() not in makers:
        private_directory(path)
        content = {**experiment, MADE_BY: [*makers, maker()]}
        write_atomically(path / EXPERIMENT, json.dumps(content, indent=1).encode())


def read_experiment(path: Path) -> dict[str, Any]:
    """The settings a run directory was made with. Raises RunError if there is none."""
    return {name: value for name, value in _read(path).items() if name != MADE_BY}


def read_makers(path: Path) -> list[str]:
    """Who made the run, in order of appearance. Raises RunError if the directory holds no run."""
    return [str(made) for made in _read(path).get(MADE_BY, [])]


def _read(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((path / EXPERIMENT).read_bytes()))
    except FileNotFoundError:
        raise RunError(f"{path} has no {EXPERIMENT}; expected the directory of an edgefl run") from None
    except ValueError as error:
        raise RunError(f"{path / EXPERIMENT} is not JSON ({error})") from None
