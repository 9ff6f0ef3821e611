"""Operators change settings, withdraw and replace keys, and read the last words of a process that has ended.

A process may end for a reason that its disk gave. Its last words have to name the file. Then somebody restores a
damaged file from a copy, and starts the process again. A device whose key was withdrawn has to say that the server
refuses.
"""

from __future__ import annotations

import random
from pathlib import Path

from edgefl.cli.access_error import sentence
from edgefl.server.operator_desk import REMOVED
from tests.vopr.bit_rot import Damage, rotten
from tests.vopr.disk import Disk
from tests.vopr.process import DISK_FAILS, Process
from tests.vopr.settings import Settings

NOBODY = "no device takes part"
REFUSED = "the server refuses: client {}; expected the id of a client that has a key"
MOST_REVOKED = 0.5  # of all clients
MOST_REPLACED = 8  # devices in one simulation


class Operator:
    """The people who look after all machines. `agents` are the clients whose devices run an agent."""

    def __init__(self, stream: random.Random, settings: Settings, clients: int, per_round: int) -> None:
        self._stream, self._settings, self._clients, self._per_round = stream, settings, clients, per_round
        self._replaced, self.agents = 0, set[int]()
        self._damages: dict[Disk, list[Damage]] = {}
        self._have_ended = False  # whether a device has ended for a reason that its disk gave

    def change(self, what: str, client: int) -> bool:
        """Change the settings for the server's next life. Return whether anything has changed.

        what  "change" the rules, "revoke" a client's key, "rotate" a key, or "replace" a device by an empty one
        """
        settings = self._settings
        if what == "change":
            settings.change(self._stream, self._clients, self._per_round)
            return True
        if client in settings.revoked or (settings.keys is None and what != "replace"):
            return False
        if what == "revoke":
            if client in self.agents:  # an agent asks a server that refuses it again and again, and never ends
                return False
            if len(settings.revoked) + 1 > MOST_REVOKED * self._clients:
                return False
            settings.revoke(client)
            return True
        if self._replaced == MOST_REPLACED:
            return False
        self._replaced += 1
        settings.accepting.add(client)
        if settings.keys is not None and what == "rotate":
            former = settings.keys[client][-1:] if self._stream.random() < 0.5 else ()  # both are valid then
            settings.keys[client] = (*former, self._stream.randbytes(32))
        return True

    def is_out(self, client: int, error: Exception) -> bool:
        """Return whether a device has ended because its key was withdrawn, and says so."""
        return client in self._settings.revoked and str(error) == REFUSED.format(client)

    def rot(self, process: Process) -> None:
        """Change a bit of a file of a process that is down."""
        if (damage := rotten(process.disk.home, self._stream)) is not None:
            process.schedule.note(f"a bit of {damage.name} of {process.name} changes")
            self._damages.setdefault(process.disk, []).append(damage)

    def restore(self, process: Process, words: str) -> list[Damage]:
        """Restore the damaged files that a process names, and return the damages."""
        damages = self._damages.get(process.disk, [])
        named = [each for each in damages if Path(each.name).name in words]
        for damage in reversed(named):  # a file may have been damaged twice
            damages.remove(damage)
            with process.in_good_order():
                damage.repair(process.disk)
        return named

    def blame(self, process: Process, error: BaseException) -> str | None:
        """Read the last words of a process. Return what is wrong about its end, or None if it can start again."""
        if isinstance(error, KeyboardInterrupt):
            return None
        words = sentence(error) if isinstance(error, Exception) else str(error)
        named = self.restore(process, words)
        is_named = str(process.disk.home.parent) in words and any(each in words for each in DISK_FAILS)
        if named or (process.disk_error and is_named):
            self._have_ended = True
            return None
        if (self._have_ended and words.startswith(NOBODY)) or words.endswith(REMOVED):
            return None
        return f"{process.name} ends: {words}"
