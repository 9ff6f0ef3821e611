"""Mistakes about members: devices that leave, sleep, tell tags, or ask for any id."""

from __future__ import annotations

from tests.vopr.mutants.rows import row

PLANNER, PRESENCE, SESSIONS = "server/round_planner.py", "server/presence.py", "server/device_sessions.py"
REQUESTS, TAGS, LINKS = "server/client_requests.py", "server/client_tags.py", "server/client_links.py"

MUTANTS = (
    row(
        "left-chosen",
        PLANNER,
        "(presence.enrolled if rules.among_enrolled else ClientSet(everybody)).without(out)",
        "(presence.enrolled if rules.among_enrolled else ClientSet(everybody))",
        "a client that has left is chosen",
    ),
    row(
        "departure-not-kept",
        "server/membership_log.py",
        "        if record.reason:\n",
        "        if record.reason and isinstance(record, ClientRemoved):\n",
        "a server that starts again has forgotten which devices have left",
    ),
    row(
        "left-before-saved",
        SESSIONS,
        "            self._leaving[link.client] = self._refusals.leave(link.client)\n",
        "            self._leaving[link.client] = record = self._refusals.leave(link.client)\n"
        "            self.refusal_saved(record)\n",
        "a device hears that it has left before that is durable",
    ),
    row(
        "left-state-dropped",
        "edgefl/deployment/device/participation.py",
        "    return talk(DepartingDevice(state, profile, world))\n",
        "    reason = talk(DepartingDevice(state, profile, world))\n"
        '    __import__("shutil").rmtree(state.path)\n'
        "    return reason\n",
        "a device that leaves removes what it has kept",
    ),
    row(
        "sent-away-with-task",
        REQUESTS,
        "or link.pending or link.client in open.clients:",
        "or link.pending:",
        "a device that sleeps is sent away though the open round waits for it",
    ),
    row(
        "sent-away-awake",
        REQUESTS,
        "open is None or not link.sleeps or",
        "open is None or",
        "a device that does not sleep is sent away",
    ),
    row(
        "sleeper-gone",
        REQUESTS,
        "        self._queue.send(link, ComeAgain(seconds))\n",
        "        self._queue.send(link, ComeAgain(500 * seconds))\n",
        "a device is sent away for hours",
    ),
    row(
        "connected-chosen",
        PRESENCE,
        "            if choice.holds(",
        "            if client in connected or choice.holds(",
        "a connected client is chosen though it does not fulfil the condition",
    ),
    row(
        "first-tags-stay",
        TAGS,
        "        self._tags[client] = dict(tags)\n        return True",
        "        self._tags.setdefault(client, dict(tags))\n        return True",
        "a device that tells other tags is chosen by its first tags",
    ),
    row(
        "id-anew",
        LINKS,
        "        if secret in self._owners:\n            return self._owners[secret]\n",
        "",
        "a device that comes back without an id gets another one",
    ),
)
