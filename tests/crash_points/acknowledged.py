"""This compares what both sides of a run had acknowledged before a loss of power with what is there afterwards.

The server writes `last_commit` after a commit is durable and before anything follows from it. So the database must
have the commit of that number. A device that keeps a round as acknowledged has heard the server's verdict, so the
server must have the verdict. A verdict of the server follows from a reply, so the device must have the round, or the
reply to send.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edgefl.deployment.device.device_state import CLIENT_STATE, PENDING, read_round
from edgefl.deployment.device.run_folders import folders
from edgefl.errors import RunError
from edgefl.server import run_history
from edgefl.server.last_commit import read_last_commit

KEPT = ("accepted", "late")  # verdicts after which a device keeps what it has trained


@dataclass(frozen=True)
class Acknowledged:
    """The promises of both sides, as a reader of all their files sees them.

    commit    number of the last commit of the server's database
    heard     by client, the last round whose verdict its device has heard
    verdicts  by client, the last round whose reply the server has accepted
    """

    commit: int
    heard: Mapping[int, int]
    verdicts: Mapping[int, int]

    @staticmethod
    def of(root: Path) -> Acknowledged:
        """Read the promises in files that have lost nothing."""
        commit = read_last_commit(root / "run")
        heard = {int(path.name): _rounds(path)[0] for path in (root / "devices").iterdir()}
        return Acknowledged(0 if commit is None else commit.number, heard, _verdicts(root))

    def lost(self, root: Path) -> str | None:
        """Return the first promise that these files do not keep, in words, or None. The files stay as they are."""
        with tempfile.TemporaryDirectory(dir=root.parent) as directory:
            copy = Path(directory) / "copy"
            shutil.copytree(root, copy)
            try:
                return self._lost(copy)
            except RunError as error:
                return f"cannot be read: {error}".replace(str(copy), "")

    def _lost(self, root: Path) -> str | None:
        commit, verdicts = _commit(root / "run"), _verdicts(root)
        if commit < self.commit:
            return f"run.db is at commit {commit}; expected at least {self.commit}"
        for client, round in self.heard.items():
            if (found := verdicts.get(client, 0)) < round:
                return f"the server has accepted round {found} of device {client}, which heard that of round {round}"
        for client, round in self.verdicts.items():
            if (found := max(_rounds(root / "devices" / str(client)))) < round:
                return f"device {client} has round {found}; the server has accepted {round}"
        return None


def _commit(run: Path) -> int:
    """Return the number of the last commit of a run's database, 0 if there is none."""
    if not run_history.is_served(run):
        return 0
    with run_history.snapshot(run) as database:
        (number,) = database.execute("SELECT commits FROM run").fetchone()
        return int(number)


def _verdicts(root: Path) -> dict[int, int]:
    found: dict[int, int] = {}
    if run_history.is_served(root / "run"):
        for (round, client), ruling in run_history.progress(root / "run").rulings.items():
            if ruling is not None and ruling.outcome in KEPT:
                found[client] = max(found.get(client, 0), round)
    return found


def _rounds(path: Path) -> tuple[int, int]:
    """Return the last acknowledged round of a device, and the round whose reply is not acknowledged, 0 if there is
    none.
    """
    last, pending = 0, 0
    for folder in folders(path) if path.exists() else ():
        last = max(last, _round(folder / CLIENT_STATE))
        pending = max(pending, _round(folder / PENDING))
    return last, pending


def _round(file: Path) -> int:
    return read_round(file).round if file.exists() else 0
