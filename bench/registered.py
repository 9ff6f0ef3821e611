"""A server on which very many clients are registered, of which some are connected, beside one with few registered ones.

The registrations are records of the store, written before the server starts, as 100,000 devices that enrol one by one
would take minutes. The server then resumes the run. All devices that take part are one process (puppets.py).

A round of `all` or `enrolled` chooses among everybody who is registered. The connected devices are therefore the ones
which the draws of the rounds choose. `seen` and `asynchronous` choose among the devices that are there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from bench.figures import Figure
from bench.puppets import EXAMPLES, identity
from bench.scale import run
from bench.scaled import Request, Weight, experiment
from edgefl import rng
from edgefl.server.events import Enrolment, ProvenanceRecorded
from edgefl.server.store import Store

MODES = ("all", "enrolled", "seen", "asynchronous")
BATCH = 10_000  # registrations of a commit
BAR, RESIDENT_MB = 1.3, 300.0


@dataclass(frozen=True)
class Effort:
    """The effort: `few` and `many` registered clients, `connected` devices, `chosen` a round, and `buffer` replies that
    close an asynchronous round.

    drawn   number of rounds that choose among everybody, at most as many as the connected devices are enough for
    rounds  number of rounds that choose among the devices that are there
    seen_s  seconds for which a device that has left still counts
    starts  number of starts of each server
    """

    few: int
    many: int
    connected: int
    chosen: int
    buffer: int
    drawn: int
    rounds: int
    seen_s: float
    starts: int


FULL = Effort(1_000, 100_000, 1_000, 200, 50, 5, 20, 60.0, 2)
QUICK = Effort(40, 400, 40, 8, 3, 5, 8, 0.5, 1)


def measure(path: Path, effort: Effort, modes: Sequence[str] = MODES) -> Iterator[Figure]:
    """Yield the processor time of an accepted reply and the memory for few and for many clients, and their ratio."""
    for mode in modes:
        costs: dict[int, list[float]] = {effort.few: [], effort.many: []}
        peaks: dict[int, float] = {}
        for start in range(effort.starts):
            for clients, found in costs.items():
                weights = _run(path / f"{mode}-{clients}-{start}", effort, mode, clients)
                found.append(1e3 * _cost_s(weights))
                peaks[clients] = max(peaks.get(clients, 0.0), weights[-1].peak / 1e6)
        for clients, found in costs.items():
            how = f"{mode}, {clients:,} registered, {effort.connected:,} connected"
            note = "each start: " + ", ".join(f"{cost:.3f}" for cost in found)
            yield Figure(f"{how}: processor, an accepted reply", min(found), "ms", note=note)
            yield Figure(f"{how}: resident, largest", peaks[clients], "MB", RESIDENT_MB, "VmHWM")
        few, many = (min(costs[clients]) for clients in (effort.few, effort.many))
        yield Figure(f"{mode}: {effort.many:,} registered over {effort.few:,}", many / few, "", BAR)


def _cost_s(weights: Sequence[Weight]) -> float:
    """Return the seconds of processor time of an accepted reply, from the end of round 1 to the end of the last."""
    first, last = weights[0], weights[-1]
    return (last.cpu_s - first.cpu_s) / (last.accepted - first.accepted)


def _run(path: Path, effort: Effort, mode: str, clients: int) -> list[Weight]:
    chooses_all = mode in ("all", "enrolled")
    request = Request(
        str(path),
        clients,
        effort.chosen,
        effort.drawn if chooses_all else effort.rounds * (4 if mode == "asynchronous" else 1),
        1,
        None if chooses_all else effort.seen_s,
        among_enrolled=mode == "enrolled",
        buffer=effort.buffer if mode == "asynchronous" else None,
        strange=clients // 10 if mode == "enrolled" else 0,
    )
    ids = connected(request, effort.connected)
    register(path, set(range(clients)) - {ids[-1]})
    devices = path / "devices.json"
    devices.write_text(json.dumps(ids))
    return run(path, request, len(ids), devices=str(devices), gone_s=0 if chooses_all else effort.seen_s + 1)


def connected(request: Request, count: int) -> list[int]:
    """Return the clients whose devices are connected: those which the first rounds draw among everybody, and others."""
    settings, found = experiment(request), dict[int, None]()
    for round in range(1, request.rounds + 1):
        stream = rng.stream(settings.seed, rng.SELECT, round=round)
        found.update(dict.fromkeys(stream.sample(request.clients, request.per_round).tolist()))
    found.update(
        dict.fromkeys(islice((k for k in range(request.clients) if k not in found), max(0, count - len(found))))
    )
    return list(found)[:count]


def register(path: Path, clients: set[int]) -> None:
    """Write the registrations of these clients into a new run, as the server does when devices enrol."""
    records: list[Enrolment | ProvenanceRecorded] = []
    for client in sorted(clients):
        secret, _, life = identity(client)
        records += [Enrolment(client, 1.0, secret, life, EXAMPLES), ProvenanceRecorded(client, "a puppet")]
    with closing(Store(path)) as store:
        for at in range(0, len(records), BATCH):
            store.save(records[at : at + BATCH])
