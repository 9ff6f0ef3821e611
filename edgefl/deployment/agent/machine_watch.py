"""A monitor that looks at the machine every few seconds and says why the device should not train now. conditions.py
gives the limits their meaning, and machine_status.py asks Linux.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import time
from pathlib import Path

from edgefl.deployment.agent import conditions, machine_status
from edgefl.deployment.agent.conditions import Conditions, ConditionStatus


class ConditionMonitor:
    """The conditions of one machine.

    limits    limits of the owner
    root      folder that stands for /
    clock     time in seconds, of which only differences count
    now       time of the day
    every_s   largest age of a reading, in seconds
    settle_s  seconds for which all conditions must have held again after one did not
    process   process whose use of the processors does not count as use by others: "self", or a process id
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
        """Return the status of every condition that the owner has named."""
        at = self._clock()
        if self._read_at is None or at - self._read_at >= self._every_s:
            self._checks, self._read_at = self._read(), at
            if not all(check.holds for check in self._checks):
                self._failed_at = at
        return self._checks

    def why_not(self) -> str | None:
        """Return the condition that does not hold now, in words, or None if all conditions hold."""
        return conditions.why_not(self.checks())

    def why_wait(self) -> str | None:
        """Return why the device should not begin now, or None.

        The device also waits for a while after a condition did not hold, so that it does not come and go.
        """
        why = self.why_not()
        if why is None and self._failed_at is not None:
            left = self._failed_at + self._settle_s - self._clock()
            return f"conditions hold again; beginning in {left:.0f} s" if left > 0 else None
        return why

    def is_on_mains(self) -> bool | None:
        """Return whether the machine is on mains now, or None if Linux does not say."""
        return machine_status.power(self._root).on_mains

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
        """Return the share of the processors that others used since the last reading, or the last share if no time
        passed.
        """
        before, self._usage = self._usage, machine_status.usage(self._root, self._process)
        if before is None or self._usage is None:
            return None
        found = machine_status.others(before, self._usage)
        self._others = self._others if found is None else found
        return self._others
