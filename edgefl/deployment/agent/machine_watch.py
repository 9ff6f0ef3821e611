"""Looks at the machine every few seconds and says why the device should not train now. What the limits mean is
conditions.py's, how Linux is asked machine_status.py's.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import time
from pathlib import Path

from edgefl.deployment.agent import conditions, machine_status
from edgefl.deployment.agent.conditions import Conditions, ConditionStatus


class ConditionMonitor:
    """The conditions of one machine.

    root      the folder that stands for /
    clock     seconds, of which only differences count
    now       the time of day
    every_s   how old what was read may be
    settle_s  how long all must have held again after one did not
    process   whose use of the processors is not that of others: this one, or another's id
    """

    def __init__(
        self,
        limits: Conditions,
        root: Path,
        clock: Callable[[], float],
        now: Callable[[], time],
        every_s: float,
        settle_s: float,
        process: int | str = "self",
    ) -> None:
        self._limits, self._root, self._clock, self._now = limits, root, clock, now
        self._every_s, self._settle_s, self._process = every_s, settle_s, process
        self._usage = machine_status.usage(root, process)
        self._others: float | None = None
        self._checks: list[ConditionStatus] = []
        self._read_at: float | None = None
        self._failed_at: float | None = None

    def checks(self) -> list[ConditionStatus]:
        """Every condition that the owner has named."""
        at = self._clock()
        if self._read_at is None or at - self._read_at >= self._every_s:
            self._checks, self._read_at = self._read(), at
            if not all(check.holds for check in self._checks):
                self._failed_at = at
        return self._checks

    def why_not(self) -> str | None:
        """The condition that does not hold now; None if all conditions hold."""
        return conditions.why_not(self.checks())

    def why_wait(self) -> str | None:
        """Why not to begin: also for a while after one did not hold, so that the device does not come and go."""
        why = self.why_not()
        if why is None and self._failed_at is not None:
            left = self._failed_at + self._settle_s - self._clock()
            return f"conditions hold again; beginning in {left:.0f} s" if left > 0 else None
        return why

    def _read(self) -> list[ConditionStatus]:
        limits, found = self._limits, []
        if limits.charge is not None:
            found.append(conditions.check_power(machine_status.power(self._root), limits.charge))
        if limits.max_celsius is not None:
            celsius = machine_status.celsius(self._root)
            found.append(conditions.check_most("temperature", celsius, limits.max_celsius, ".1f"))
        if limits.max_others is not None:
            found.append(conditions.check_most("others", self._used(), limits.max_others, ".0%"))
        if limits.max_pressure is not None:
            pressure = machine_status.pressure(self._root)
            found.append(conditions.check_most("pressure", pressure, limits.max_pressure, ".0%"))
        if limits.hours:
            found.append(conditions.check_hours(self._now(), limits.hours))
        return found + self._network()

    def _network(self) -> list[ConditionStatus]:
        limits, found = self._limits, []
        if limits.interfaces:
            found.append(conditions.check_interfaces(machine_status.interfaces(self._root), limits.interfaces))
        if limits.metered == "nmcli":
            says = machine_status.network_manager_says(machine_status.interfaces(self._root))
            found.append(conditions.check_manager(says))
        elif isinstance(limits.metered, tuple):
            holds, did = machine_status.succeeds(limits.metered)
            found.append(ConditionStatus("metered", did, f"0 of {' '.join(limits.metered)}", holds))
        return found

    def _used(self) -> float | None:
        """By others, since the last time; what was found then where no tick has passed."""
        before, self._usage = self._usage, machine_status.usage(self._root, self._process)
        if before is None or self._usage is None:
            return None
        found = machine_status.others(before, self._usage)
        self._others = self._others if found is None else found
        return self._others
