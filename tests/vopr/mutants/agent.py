"""Mistakes in the rules by which an agent trains, and in the turns of its servers."""

from __future__ import annotations

from tests.vopr.mutants.rows import row

GUARD, SERVICE = "edgefl/deployment/agent/conditional_device.py", "edgefl/deployment/agent/service.py"
CONDITIONS, WATCH = "edgefl/deployment/agent/conditions.py", "edgefl/deployment/agent/machine_watch.py"

MUTANTS = (
    row(
        "work-unchecked",
        GUARD,
        "        if isinstance(message, WORK):\n            self._check()\n",
        "",
        "an agent trains without a look at its owner's conditions",
    ),
    row(
        "battery-counts-as-mains",
        CONDITIONS,
        "    holds = found.on_mains is True or",
        "    holds = found.on_mains is not None or",
        "an agent trains off the mains",
    ),
    row(
        "hours-swapped",
        CONDITIONS,
        "return now >= self.begin or now < self.end",
        "return now >= self.end or now < self.begin",
        "an agent trains at hours that its owner has not allowed",
    ),
    row(
        "reading-stays",
        WATCH,
        "at - self._read_at >= self._every_s:",
        "at - self._read_at >= 60 * self._every_s:",
        "an agent goes by readings that are minutes old",
    ),
    row(
        "failed-turn-is-last",
        SERVICE,
        "        turn.said, turn.due = why, self._world.clock() + random.uniform(0.5, 1.0) * delay",
        "        turn.said, turn.due = why, self._world.clock() + 1e9",
        "a server whose turn has failed never has another turn",
    ),
)
