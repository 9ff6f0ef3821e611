"""The history of a served run from run.db, round by round and device by device, added up as rounds close.

A look reads what has been committed since the last look, so a page that follows a run of 500 rounds does not read 500
rounds every second. Nothing is written. live_file.py knows who is connected, and device_rows.py combines both.
"""

from __future__ import annotations

import json
import sqlite3
from bisect import insort
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgefl.learning.scores import PLACE_SCORES
from edgefl.methods.rounds.client_round import JOULES
from edgefl.methods.rounds.round_metrics import HELD_OUT, REFRESHED, TRAINING
from edgefl.server import membership_log
from edgefl.server.member_records import OperatorCommand
from edgefl.server.run_history import snapshot
from edgefl.server.schema import DATABASE, LOG

WINDOW = 16  # number of last closed rounds whose late replies every look still counts
NOT_MODELS = (REFRESHED, TRAINING, HELD_OUT, "global_common")  # parts of an evaluation that are not shown as models
OUTCOMES = ("accepted", "late", "refused", "absent")
SHOWN = "CASE outcome WHEN 'masked' THEN 'accepted' WHEN 'not-opened' THEN 'late' ELSE coalesce(outcome, 'absent') END"
COUNTED = f"""SELECT client, {SHOWN}, count(*), max(round), reason FROM participation
    WHERE round > ? AND round <= ? GROUP BY client, {SHOWN}"""
BY_ROUND = f"""SELECT round, {SHOWN}, count(*) FROM participation
    WHERE round > ? AND round <= ? GROUP BY round, {SHOWN}"""


@dataclass
class Trouble:
    """The last round in which a client's reply was late, refused or absent, and the reason if it was given."""

    round: int = 0
    outcome: str = ""
    reason: str = ""

    def __str__(self) -> str:
        if not self.round:
            return ""
        texts = {
            "late": f"round {self.round}: its reply came after the round was closed",
            "absent": f"round {self.round}: no reply by the time the round was closed",
        }
        if self.outcome == "late" and self.reason.startswith("group "):  # with secure aggregation
            return self.reason
        return texts.get(self.outcome, f"round {self.round}: {self.outcome}: {self.reason}")


@dataclass
class ServedDevice:
    """One client as run.db knows it.

    capacity    share of the neurons that it trains. None: it has not enrolled
    examples    number of training samples that it declared. None: it does not say
    versions    the versions and kernels with which it has trained
    memory      bytes that its training may take, as it declared
    refusal     why it takes no part until its device comes back. Empty: it takes part
    replies     number of replies by outcome, in closed rounds that are older than WINDOW
    recent      number of replies by outcome, in the other closed rounds
    seconds     seconds of training in each round in which it replied, ascending
    joules      joules that it measured, by the kind of source
    accuracy    accuracy on its own test samples in the last evaluation, with its own model if it has one
    """

    capacity: float | None = None
    examples: int | None = None
    versions: tuple[str, ...] = ()
    memory: int | None = None
    refusal: str = ""
    replies: Counter[str] = field(default_factory=Counter)
    recent: Counter[str] = field(default_factory=Counter)
    old_trouble: Trouble = field(default_factory=Trouble)
    new_trouble: Trouble = field(default_factory=Trouble)
    seconds: list[float] = field(default_factory=list)
    joules: dict[str, float] = field(default_factory=dict)
    accuracy: float | None = None

    def count(self, outcome: str) -> int:
        """Return the number of replies with this outcome."""
        return self.replies[outcome] + self.recent[outcome]

    @property
    def median_s(self) -> float | None:
        """The median of the seconds of training over its rounds."""
        found, middle = self.seconds, len(self.seconds) // 2
        if not found:
            return None
        return found[middle] if len(found) % 2 else (found[middle - 1] + found[middle]) / 2

    @property
    def trouble(self) -> Trouble:
        """The last trouble of the device."""
        return max(self.new_trouble, self.old_trouble, key=lambda each: each.round)


class DeviceHistory:
    """A run's rounds and devices, as of the last `look`.

    devices    devices by client
    rounds     a dictionary for each closed round: round, seconds, down, up, train_loss, replies by outcome, evaluation
    closed     last closed round
    done       whether no round follows
    opened     clients of the round after it, if that has begun
    answered   clients of that round whose replies are there
    commands   commands of the operator, in the order in which they were carried out
    socket_bytes  number of bytes through the server's sockets
    """

    def __init__(self, run: Path) -> None:
        """Look at the run for the first time. Raises RunError, as `look` does, if there is no served run."""
        self._run = run
        self._seen: tuple[int, ...] = ()
        self._settled = self._scored = 0
        self.devices: dict[int, ServedDevice] = {}
        self.rounds: list[dict[str, Any]] = []
        self._by_round: dict[int, dict[str, Any]] = {}
        self.closed, self.done = 0, False
        self.opened: tuple[int, ...] | None = None
        self.answered: tuple[int, ...] = ()
        self.socket_bytes = 0
        self.commands: tuple[OperatorCommand, ...] = ()
        self.look()

    def look(self) -> bool:
        """Read what has been committed since the last look. Return False if nothing has."""
        seen = tuple(number for name in (DATABASE, LOG) for number in _stamp(self._run / name))
        if seen == self._seen:
            return False
        with snapshot(self._run) as database:
            self._read_devices(database)
            self._read_rounds(database)
            self._read_evaluations(database)
            self._read_replies(database)
        self._seen = seen
        return True

    def _device(self, client: int) -> ServedDevice:
        return self.devices.setdefault(client, ServedDevice())

    def _read_devices(self, database: sqlite3.Connection) -> None:
        for client, capacity, examples in database.execute("SELECT client, capacity, examples FROM clients"):
            record = self._device(client)
            record.capacity, record.examples = capacity, examples
        versions: dict[int, list[str]] = {}
        for client, version in database.execute("SELECT client, maker FROM makers ORDER BY client, maker"):
            versions.setdefault(client, []).append(version)
        for client, found in versions.items():
            self._device(client).versions = tuple(found)
        for record in self.devices.values():
            record.refusal = ""
        with suppress(sqlite3.OperationalError):  # runs of an earlier version lack the tables
            for client, reason in database.execute("SELECT client, reason FROM refusals"):
                self._device(client).refusal = reason
            for client, reason in membership_log.removed(database).items():
                self._device(client).refusal = reason
            self.commands = membership_log.commands(database)
            for client, memory, _ in database.execute("SELECT client, memory, max(since) FROM paces GROUP BY client"):
                self._device(client).memory = memory

    def _read_rounds(self, database: sqlite3.Connection) -> None:
        """Read the closed rounds that are new, and the open round."""
        for round, text in database.execute(
            "SELECT round, line FROM logged WHERE round > ? ORDER BY round", (self.closed,)
        ):
            self._add(round, json.loads(text))
        (done,) = database.execute("SELECT max(done) FROM rounds WHERE done IS NOT NULL").fetchone()
        self.done = bool(done)
        number = self.closed + 1
        begun = database.execute("SELECT 1 FROM rounds WHERE round = ? AND done IS NULL", (number,)).fetchone()
        rows = database.execute("SELECT client, outcome FROM participation WHERE round = ?", (number,)).fetchall()
        self.opened = tuple(client for client, _ in rows) if begun else None
        self.answered = tuple(client for client, outcome in rows if outcome is not None)
        last = database.execute("SELECT sent + received FROM traffic ORDER BY round DESC LIMIT 1").fetchone()
        self.socket_bytes = last[0] if last else 0

    def _add(self, round: int, line: Mapping[str, Any]) -> None:
        """Add a round that was closed with these metrics."""
        found = {
            "round": round,
            "seconds": line.get("seconds"),
            "down": sum(line.get("down", {}).values()),
            "up": sum(line.get("up", {}).values()),
            "train_loss": line.get("train_loss"),
            "replies": {},
            "evaluation": None,
        }
        self.rounds.append(found)
        self._by_round[round] = found
        self.closed = round
        for each in line.get("clients", ()):
            if each["status"] in ("on", "stopped", "excluded"):
                record = self._device(each["client"])
                insort(record.seconds, each["seconds"])
                for name, value in each.items():
                    if name.startswith(JOULES):
                        kind = name.removeprefix(JOULES)
                        record.joules[kind] = record.joules.get(kind, 0.0) + value

    def _read_evaluations(self, database: sqlite3.Connection) -> None:
        """Read the evaluations that are new. The devices' accuracies are taken from the last one."""
        query = "SELECT round, bundle FROM logged WHERE round > ? AND bundle IS NOT NULL ORDER BY round"
        last: dict[str, Any] = {}
        for round, text in database.execute(query, (self._scored,)):
            last, self._scored = json.loads(text), round
            kinds = {kind: found for kind, found in last.items() if kind not in NOT_MODELS}
            self._by_round[round]["evaluation"] = {
                kind: {"accuracy": found.get("accuracy"), "loss": found.get("loss"), **_place_scores(found)}
                for kind, found in kinds.items()
            }
        for kind in ("personal", "adapted", "global_local"):
            if kind in last:
                self._score(last[kind])
                return

    def _score(self, found: Mapping[str, Any]) -> None:
        correct, examples, decisions = found.get("correct"), found.get("examples"), found.get("decisions", 1)
        if not isinstance(correct, list) or not isinstance(examples, list):
            return
        for client, (right, count) in enumerate(zip(correct, examples)):
            if right is not None and count:
                self._device(client).accuracy = right / (count * decisions)

    def _read_replies(self, database: sqlite3.Connection) -> None:
        """Read the verdicts on the replies of closed rounds."""
        settled = max(self.closed - WINDOW, self._settled)
        for client, outcome, count, round, reason in database.execute(COUNTED, (self._settled, settled)):
            record = self._device(client)
            record.replies[outcome] += count
            _note(record.old_trouble, outcome, round, reason)
        for record in self.devices.values():
            record.recent, record.new_trouble = Counter(), Trouble()
        for client, outcome, count, round, reason in database.execute(COUNTED, (settled, self.closed)):
            record = self._device(client)
            record.recent[outcome] = count
            _note(record.new_trouble, outcome, round, reason)
        for number in range(self._settled + 1, self.closed + 1):
            self._by_round[number]["replies"] = dict.fromkeys(OUTCOMES, 0)
        for number, outcome, count in database.execute(BY_ROUND, (self._settled, self.closed)):
            self._by_round[number]["replies"][outcome] = count
        self._settled = settled


def _place_scores(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the perplexity of tokens or the mean IoU of pixels, if the evaluation has one."""
    return {name: found[name] for name in PLACE_SCORES if name in found}


def _note(trouble: Trouble, outcome: str, round: int, reason: str) -> None:
    if outcome != "accepted" and round > trouble.round:
        trouble.round, trouble.outcome, trouble.reason = round, outcome, reason


def _stamp(file: Path) -> tuple[int, int]:
    """Return the time of change and the size of the file, or zeros if it is missing."""
    try:
        found = file.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size
