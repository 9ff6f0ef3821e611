"""Callbacks of a run that a program starts: functions that get the record of every round, and the display of progress.

A callback is any function of a record (round_records.py). A callback object may have two more methods.
`begin(settings)` is called before the first round with the settings of the run as in run.json. `end()` is called at the
end of the run, also after an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from itertools import takewhile
from typing import Any

from edgefl.experiment.run_layout import Trial
from edgefl.study.metric_records import log_records_of
from edgefl.study.round_records import RoundRecord, record, records

OnRound = Callable[[RoundRecord], object]


class Callbacks:
    """A watcher (runner.py) that calls these functions."""

    def __init__(self, callbacks: Iterable[OnRound], settings: Mapping[str, Any]) -> None:
        self._callbacks, self._settings = tuple(callbacks), settings
        self._trial: Trial | None = None
        self._sent, self._has_begun = 0, False

    def begin(self, trial: Trial, at: int) -> None:
        if not self._has_begun:
            self._has_begun = True
            for each in self._callbacks:
                if hasattr(each, "begin"):
                    each.begin(dict(self._settings))
        done = takewhile(lambda log_record: log_record["round"] <= at, log_records_of(trial.path)) if at else ()
        self._trial, self._sent = trial, 0
        for before in records(trial.method, trial.seed, done):
            self._sent = before["payload_bytes"]

    def log_record(self, log_record: dict[str, Any]) -> None:
        assert self._trial is not None
        found = record(self._trial.method, self._trial.seed, log_record, self._sent)
        self._sent = found["payload_bytes"]
        for each in self._callbacks:
            each(found.copy())

    def end(self) -> None:
        with ExitStack() as until_end:
            for each in self._callbacks:
                if hasattr(each, "end"):
                    until_end.callback(each.end)
