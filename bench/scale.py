"""A server with very many devices, and one with very many rounds. The devices are one process (puppets.py)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path
from statistics import median

from bench.figures import Figure
from bench.processes import Process, processes, python, wait_until
from bench.scaled import WEIGHTS, Request, Weight
from edgefl.protocol.trust.certificates import make_certificates
from edgefl.server.endpoint import read_endpoint

START_S, LONGEST_S = 60.0, 3600.0
SEEN_S = 1.0
SETTLED = 3  # rounds before this are not counted


@dataclass(frozen=True)
class Effort:
    """The effort: `many` registered devices, of which `stay` are connected and `chosen` take part in a round.

    `long` is the number of rounds of eight devices. `idle` is the number of devices that are all connected, of which
    `chosen` take part in a round.
    """

    many: int
    stay: int
    chosen: int
    rounds: int
    long: int
    idle: int


FULL = Effort(10_000, 1_000, 200, 30, 20_000, 5_000)
QUICK = Effort(60, 20, 5, 6, 50, 30)
EIGHT, FOUR = 8, 4


def measure(path: Path, effort: Effort) -> Iterator[Figure]:
    """Yield the figures of many devices, plain and with TLS, and then of many rounds."""
    for tls in (False, True):
        yield from _many(path / ("tls" if tls else "plain"), effort, tls)
    yield from _long(path / "long", effort)


def idle(path: Path, effort: Effort) -> Iterator[Figure]:
    """Yield the figures of devices that wait while others do a round, and of a round without waiting devices."""
    for tls in (False, True):
        for count in (effort.chosen, effort.idle):
            kind = f"{count}-{'tls' if tls else 'plain'}"
            yield from _many(path / kind, replace(effort, many=count, stay=count), tls)


def _many(path: Path, effort: Effort, tls: bool) -> Iterator[Figure]:
    how = f"{effort.many:,} devices, {effort.stay:,} connected, {effort.chosen} a round, {'TLS' if tls else 'plain'}"
    request = Request(str(path), effort.many, effort.chosen, effort.rounds, 1, SEEN_S)
    first, *weights = run(path, request, effort.stay, tls)
    weights = weights[SETTLED - 1 :]
    times = [later.time_s - earlier.time_s for earlier, later in pairwise(weights)]
    rounds, last = len(times), weights[-1]
    yield Figure(f"{how}: a round", median(times), "s", note=f"median of {rounds}")
    yield Figure(f"{how}: server, processor a round", (last.cpu_s - weights[0].cpu_s) / rounds, "s")
    yield Figure(f"{how}: server, processor until round 1 is closed", first.cpu_s, "s")
    yield Figure(f"{how}: server, resident", last.resident / 1e6, "MB", note=f"{first.resident / 1e6:.0f} in round 1")
    yield Figure(f"{how}: database, a round", (last.database - weights[0].database) / rounds / 1e3, "kB")


def _long(path: Path, effort: Effort) -> Iterator[Figure]:
    how = f"{effort.long:,} rounds of {FOUR} of {EIGHT} devices"
    weights = run(path, Request(str(path), EIGHT, FOUR, effort.long, max(1, effort.long // 20)), EIGHT, False)
    middle, last = weights[len(weights) // 2], weights[-1]
    rounds = last.round - middle.round
    yield Figure(f"{how}: a round", (last.time_s - middle.time_s) / rounds * 1e3, "ms", note="second half")
    yield Figure(f"{how}: resident at the end", last.resident / 1e6, "MB", note=_course(weights, "resident", 1e6))
    yield Figure(f"{how}: database at the end", last.database / 1e6, "MB", note=_course(weights, "database", 1e6))
    yield Figure(f"{how}: database, a round", (last.database - middle.database) / rounds, "bytes", note="second half")


def _course(weights: list[Weight], field: str, unit: float) -> str:
    """Return a value after the first round, and after a quarter, a half and three quarters of the rounds, as text."""
    at = [weights[len(weights) * part // 4] for part in range(4)]
    return "before: " + ", ".join(f"{getattr(each, field) / unit:.1f} in round {each.round}" for each in at)


def run(
    path: Path, request: Request, stay: int, tls: bool = False, devices: str | None = None, gone_s: float | None = None
) -> list[Weight]:
    """Run a server and its devices to the end, and return the weights of the server.

    stay     number of devices that stay connected
    devices  file with the ids of the devices that come. None: all clients of the request
    gone_s   seconds before the last device comes. None: as puppets.py has it
    """
    path.mkdir(parents=True, exist_ok=True)
    authority: list[str] = []
    if tls:
        make_certificates(path / "keys", ["127.0.0.1"], 0, datetime.now(timezone.utc), 1)
        request, authority = replace(request, keys=str(path / "keys")), [str(path / "keys" / "ca.pem")]
    with processes(path) as start:
        server = start("server", python("-m", "bench.scaled", json.dumps(asdict(request))))
        wait_until(lambda: read_endpoint(path) is not None, [server], START_S)
        address = read_endpoint(path)
        assert address is not None
        options = [] if gone_s is None else ["--gone-s", str(gone_s)]
        who = devices or str(request.clients)
        puppets = start("puppets", python("-m", "bench.puppets", address, who, str(stay), *authority, *options))
        wait_until(lambda: _has_ended(server), [server, puppets], LONGEST_S)
        server.check()
    return [Weight(**each) for each in json.loads((path / WEIGHTS).read_text())]


def _has_ended(process: Process) -> bool:
    return process.handle.poll() is not None
