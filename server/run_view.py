"""A served run as observers see it: its settings, its rounds, its devices. Read from the run's directory alone.

The view asks the server nothing, so that no observer can make a round wait.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edgefl.errors import RunError
from edgefl.experiment.settings import Experiment
from edgefl.server.device_history import DeviceHistory
from edgefl.server.device_rows import DeviceRow, device_rows, waited_for
from edgefl.server.endpoint import read_endpoint
from edgefl.server.live_file import is_alive, read_live
from edgefl.server.run_control import commanded_rounds
from edgefl.server.run_history import is_served


class RunView:
    """One run as of the last `look`, which reads what is new.

    history  rounds and devices from run.db
    """

    def __init__(self, run: Path) -> None:
        """Open the run. Raises RunError if the directory holds no served run."""
        if not is_served(run):
            raise RunError(f"{run} holds no served run (run.db is missing); expected the directory of `edgefl serve`")
        self.run = run
        self.experiment = Experiment.of_run(run)
        self.history = DeviceHistory(run)
        self.rows: list[DeviceRow] = []

    def look(self, now: float) -> None:
        """Read what is new. `now` is in seconds since 1970."""
        self.history.look()
        self._live, self._now = read_live(self.run), now
        self.rows = device_rows(self.history, self._live, self.experiment.clients, now)

    @property
    def is_running(self) -> bool:
        """True if the run's server runs."""
        return is_alive(self._live, self._now)

    def facts(self) -> dict[str, Any]:
        """Return the facts about the run as a whole."""
        live, history = self._live if self.is_running else None, self.history
        number = history.closed + 1
        is_over = history.done and not self.is_running
        return {
            "run": self.run.resolve().name,
            "method": self.experiment.methods[0],
            "data": self.experiment.data,
            "listening": read_endpoint(self.run) if live else None,
            "running": live is not None,
            "phase": live.phase if live else "over" if is_over else "not running",
            "clients": self.experiment.clients,
            "enrolled": sum(row.enrolled for row in self.rows),
            "connected": sum(bool(row.connected) for row in self.rows),
            "rounds": commanded_rounds(history.commands, self.experiment.rounds),
            "closed": history.closed,
            "done": history.done,
            "open": None if history.opened is None else {"round": number, "clients": len(history.opened)},
            "waiting_for": waited_for(self.rows) if live else [],
            "waiting": live.waiting if live else "",
            "opened": live.opened if live else None,
            "closes": live.closes if live else None,
            "seen": None if self._live is None else self._live.time,
            "socket_bytes": history.socket_bytes,
        }
