"""The progress that `edgefl serve` shows of its run, from durable records: a line or a bar, and the log.

The log of connections and rounds is written by server/event_loop.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from edgefl.cli import log_writer
from edgefl.cli.log_writer import say
from edgefl.cli.refusal_log import Refusals
from edgefl.cli.serve_warnings import PartitionComparison
from edgefl.experiment.settings import Experiment
from edgefl.server.endpoint import announced
from edgefl.server.events import Enrolment, ProvenanceRecorded, Record, ReplyJudged, RoundClosed, RoundEvaluated
from edgefl.study import progress_display
from edgefl.system.log_lines import Alert, Detail, LimitedLog, LogLine, kind_of


class ServeProgress:
    """The live progress of a served run, from its durable records.

    log_records    metrics of the rounds that earlier processes have closed
    most_examples  largest number of samples by which a reply is weighted; None for no limit
    comparison     comparison of the devices' samples with the server's own partition; None for no comparison
    """

    def __init__(
        self,
        experiment: Experiment,
        log_records: list[dict[str, Any]],
        most_examples: int | None = None,
        comparison: PartitionComparison | None = None,
    ) -> None:
        display = progress_display.watch(say) if log_writer.is_plain() else progress_display.LogDisplay(say)
        self._display, self._experiment, self._at = display, experiment, len(log_records)
        self._log_record = log_records[-1] if log_records else {}  # its evaluation may be the next record
        self._log = LimitedLog(say, time.monotonic)
        self._refusals = Refusals(lambda line: self._log.say(_alert(line), "replies"))
        self._most, self._comparison = most_examples, comparison

    def ready(self, path: Path) -> Callable[[str, int], AbstractContextManager[None]]:
        """Return a function that announces the address and begins the progress once the server listens."""

        def listening(host: str, port: int) -> AbstractContextManager[None]:
            say(f"listening on {host}:{port}")
            self._display.begin(self._experiment.methods[0], self._experiment.rounds, self._at)
            return announced(path, host, port)

        return listening

    def __call__(self, record: Record) -> None:
        if isinstance(record, Enrolment):
            self._enrolled(record)
        elif isinstance(record, ReplyJudged):
            self._judged(record)
        elif isinstance(record, ProvenanceRecorded):
            line = f"client {record.client} trains with {record.provenance}"
            self._say(Detail(line, "version", record.client))
        elif isinstance(record, RoundClosed):
            self._log_record = record.log_record
            self._refusals.closed(record.log_record)
            self._display.log_record(record.log_record)
        elif isinstance(record, RoundEvaluated):
            self._display.log_record({**self._log_record, "evaluation": record.bundle, **record.adaptation})

    def _enrolled(self, record: Enrolment) -> None:
        """Say that a client has enrolled, that it declares more samples than it counts for, and that it differs from
        the partition.
        """
        has = "" if record.examples is None else f", {record.examples} training samples"
        line = f"client {record.client} has enrolled: capacity {record.capacity:g}{has}"
        self._say(LogLine(line, "enrol", record.client))
        if self._comparison is not None:
            self._comparison.enrolled(record.client, record.examples)
        if self._most is not None and record.examples is not None and record.examples > self._most:
            declared = f"client {record.client} declares {record.examples} training samples"
            line = f"{declared} and counts as {self._most}; --max-examples sets another limit"
            self._log.say(line, "clients that declare much")

    def _judged(self, record: ReplyJudged) -> None:
        self._refusals.judged(record.round, record.outcome, record.reason, record.client)
        if record.outcome == "late":
            line = f"the reply of client {record.client} for round {record.round} is late: {record.reason}"
            self._say(Alert(line, "late", record.client))
        elif record.outcome == "not-opened":
            line = f"client {record.client} is in no sum of round {record.round}: {record.reason}"
            self._say(Alert(line, "late", record.client))

    def _say(self, line: LogLine) -> None:
        """Show the line, unless there have been many lines of its event and client."""
        self._log.say(line, kind_of(line, ""))

    def end(self) -> None:
        self._log.end()
        self._display.end()


def _alert(line: str) -> Alert:
    """Return the line as an alert that somebody should look at."""
    return Alert(line, line.event, *line.clients) if isinstance(line, LogLine) else Alert(line)
