"""SIGKILLs for the processes of a secure run: some right after a given step, and the others at random times.

A killed process is started again at once or after a while. A device that is away for longer than a step waits is lost
to its group.
"""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable

from bench.cluster import Cluster
from bench.secure.fatal_step import STEPS, Aim

LOOK_S = 0.2
MOST_AWAY = 4  # devices that a random SIGKILL leaves away at a time
FIRST_ROUND = 2


class KilledProcesses:
    """The SIGKILLs of one run.

    found  number of SIGKILLs by kind
    """

    def __init__(self, cluster: Cluster, clients: int, rounds: int, kills: int, step_s: float, seed: int) -> None:
        """Aim at steps as far as there are clients, rounds and SIGKILLs for it.

        clients  number of devices
        rounds   number of rounds. The last round has no aims
        kills    number of SIGKILLs in all
        step_s   seconds that a step waits for clients
        """
        self._cluster, self._clients, self._step_s = cluster, clients, step_s
        self._draw = random.Random(seed)
        self.found = Counter[str]()
        steps = [*STEPS, *STEPS]  # each step is the last one of a device that comes back, and of a device that is lost
        aims = [Aim(step, FIRST_ROUND + place) for place, step in enumerate(steps)]
        aims = [aim for aim in aims if aim.round < rounds][: min(clients, kills)]
        self._aims = dict(enumerate(aims))  # by the device that they are for
        self._lost = {client for client in self._aims if client >= len(STEPS)}
        of_server = [Aim(step, FIRST_ROUND + 2 * place) for place, step in enumerate(STEPS)]
        self._of_server = [aim for aim in of_server if aim.round < rounds][: kills - len(aims)]
        self._random = kills - len(self._aims) - len(self._of_server)
        self._away: dict[int, float] = {}  # -> when a device is started again
        self._lives: dict[int, int] = {}  # of each device that has an aim, at the end of `play`

    def start(self) -> None:
        """Start the server and all devices."""
        self._start_server()
        for client in range(self._clients):
            self._start_device(client)

    def play(self, closed_round: Callable[[], int], last: int) -> None:
        """Kill processes until everything is killed that was to be killed, or until the round `last` is closed.

        closed_round  returns the last closed round
        """
        while (self._aims or self._of_server or self._random) and closed_round() < last:
            time.sleep(LOOK_S)
            self._see_aims()
            for client in [client for client, until in self._away.items() if time.monotonic() >= until]:
                del self._away[client]
                self._start_device(client)
            if self._random and closed_round() >= 1:
                self._kill_any()
        self._see_aims()
        for client in self._away:
            self._start_device(client)
        self._away.clear()
        self._lives = {client: self._cluster.devices[client].lives for client in self._aims}

    def see_the_end(self) -> None:
        """Note the devices that have come to their aims after `play`, and that the cluster has started again."""
        for client in [each for each in self._aims if self._cluster.devices[each].lives > self._lives[each]]:
            self._note(client)

    @property
    def missed(self) -> list[str]:
        """The aims that no process has come to."""
        devices = [f"device {client} after step {aim.step}" for client, aim in self._aims.items()]
        return [*devices, *(f"the server after step {aim.step}" for aim in self._of_server)]

    def _see_aims(self) -> None:
        """Note the processes that have come to their aims, and start the server again."""
        for client in [*self._aims]:
            if self._cluster.devices[client].ended() == -signal.SIGKILL and client not in self._away:
                self._note(client)
                self._away[client] = time.monotonic() + (1.5 * self._step_s if client in self._lost else 0.0)
        if self._of_server and self._cluster.server.ended() == -signal.SIGKILL:
            self.found[f"server_killed_after_step_{self._of_server.pop(0).step}"] += 1
            self._start_server()

    def _note(self, client: int) -> None:
        """Count a device that has come to its aim."""
        what = "lost" if client in self._lost else "killed"
        self.found[f"device_{what}_after_step_{self._aims.pop(client).step}"] += 1

    def _kill_any(self) -> None:
        """Kill the server or a device, whatever it does."""
        if self._draw.random() < 0.2 and self._cluster.server.ended() is None:
            self._cluster.server.kill()
            self._start_server()
            self.found["server_killed_at_random"] += 1
            self._random -= 1
        elif len(self._away) < MOST_AWAY:
            there = [client for client in range(self._clients) if client not in {*self._away, *self._aims}]
            if not there:
                return
            client = self._draw.choice(there)
            self._cluster.devices[client].kill()
            self._away[client] = time.monotonic() + self._draw.choice((0.0, 0.5, 1.5 * self._step_s))
            self.found["device_killed_at_random"] += 1
            self._random -= 1

    def _start_server(self) -> None:
        self._cluster.start_server(self._of_server[0].environment if self._of_server else None)

    def _start_device(self, client: int) -> None:
        self._cluster.start_device(client, self._aims[client].environment if client in self._aims else None)
