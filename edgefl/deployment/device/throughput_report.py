"""The report of a device's throughput to its server, and the need for a new measurement. throughput_meter.py measures,
and device_protocol.py decides when to report.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from edgefl.deployment.device.throughput_meter import ClockPair, ForecastMonitor
from edgefl.errors import TimeLimitError
from edgefl.methods.throughput import FORETOLD, Throughput
from edgefl.protocol.wire.messages import MeasuredThroughput, ThroughputReport, Trained


class ThroughputReporter:
    """The reporter of one device in one process.

    reports_throughput  whether the owner lets it measure, and report the result
    say                 shows one line to the user
    within              bounds the time of the work that its argument names, by TimeLimitError
    """

    def __init__(
        self,
        reports_throughput: bool,
        say: Callable[[str], None],
        within: Callable[[str], AbstractContextManager[None]],
    ) -> None:
        self._reports_throughput, self._say, self._within = reports_throughput, say, within
        self._said: ThroughputReport | None = None
        self._misses = ForecastMonitor()

    def declare(self, clocks: ClockPair, measure: Callable[[ClockPair], Throughput | None]) -> ThroughputReport:
        """Return the last measured throughput as a report, after a new measurement if there is no report yet."""
        if self._said is None:
            self._said = ThroughputReport(self._measured(clocks, measure) if self._reports_throughput else None)
        return self._said

    def trained(self, reply: Trained, settings: Mapping[str, object]) -> None:
        """Compare the time of a trained round with the prediction among the settings of its plan."""
        if reply.steps:
            self._misses.heard(reply.seconds, settings.get(FORETOLD))

    def is_outdated(self) -> bool:
        """Return whether rounds take other times than reported. The next report is then measured anew."""
        if not self._misses.are_many or self._said is None or self._said.throughput is None:
            return False
        self._say("rounds take other times than predicted: measuring the throughput again")
        self._said = None
        return True

    def _measured(
        self, clocks: ClockPair, measure: Callable[[ClockPair], Throughput | None]
    ) -> MeasuredThroughput | None:
        """Measure the throughput, or return None if the owner's bounds leave no room or time for that."""
        try:
            with self._within("measuring its throughput"):
                found = measure(clocks)
        except TimeLimitError:
            found = None
        if found is None:
            self._say("throughput: not measured, as the owner's limits leave no memory or time for it")
            return None
        self._misses = ForecastMonitor()
        self._say(
            f"throughput: {found.mac_s * 1e9:.2g} s for 10^9 multiply-adds of training, {found.still_s * 1e9:.2g} s "
            f"for 10^9 of the cached prefix, {found.step_s * 1e3:.2g} ms a step, {found.round_s * 1e3:.2g} ms a round"
        )
        return MeasuredThroughput(found.still_s, found.mac_s, found.step_s, found.round_s, found.memory)
