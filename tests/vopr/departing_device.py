"""A device that leaves its run, as a process of a simulation: what `edgefl client --leave` does.

It lives on the disk of the device, which does not run meanwhile. Its end is followed by the return of the device.
"""

from __future__ import annotations

from edgefl.deployment.device.participation import leave
from edgefl.deployment.device.run_folders import StateDirectory
from edgefl.errors import RequestError
from tests.vopr.device import STATE, DeviceProcess


class DepartingProcess(DeviceProcess):
    """One life of a device that leaves.

    away_s  seconds after which the device comes back, from the end of this process on
    """

    away_s: float = 0.0

    def _live(self) -> None:
        """Leave the run. A device that has not enrolled has nothing to leave, and says so."""
        world = self._environment()
        self._directory = StateDirectory(self.disk.home / STATE)
        try:
            reason = leave(self._directory, self._profile(), world, lambda party: self._talk(party, world))
        except RequestError as error:
            reason = str(error)
        self._say(f"the server says: {reason}")
        self._end(None)
