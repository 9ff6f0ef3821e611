"""Directories of served runs whose every value follows from a client's and a round's number, without any training."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgefl.experiment.run_json import open_run
from edgefl.experiment.settings import Experiment
from edgefl.methods.task import State
from edgefl.protocol.wire.messages import Trained
from edgefl.server.events import (
    DeviceRefusal,
    Enrolment,
    ProvenanceRecorded,
    Record,
    ReplyJudged,
    RoundClosed,
    RoundEvaluated,
    RoundOpened,
    Traffic,
)
from edgefl.server.live_file import write_live
from edgefl.server.live_state import LiveDevice, LiveState
from tests.server.served import open_store

NOTHING = Trained(1, {}, b"", 1, 1, "on", {}, 1.0)
STATE = State({"model": {"w": np.zeros(1, np.float32)}}, {})
HOSTILE = '<img src=x onerror="window.hit=1"><b>bold</b>'


def made_run(
    path: Path, clients: int = 4, rounds: int = 6, per_round: int | None = None, done: bool = True
) -> list[dict[str, Any]]:
    """Make a run of FedAvg that is evaluated every second round, and return the lines of metrics.

    In round r, client number r % 4 is absent, r % 4 + 1 is late and r % 4 + 2 is refused, where they are among the
    clients. Client k trains k + 1 seconds in every round in which it replies.
    """
    how_many = {"clients": clients, "per_round": per_round or clients, "rounds": rounds}
    experiment = Experiment(methods=("fedavg",), eval_every=2, **how_many)
    open_run(path, experiment.to_json())
    store, lines = open_store(path), []
    records: list[Record] = [Enrolment(client, 1 / (1 + client % 4), examples=10 + client) for client in range(clients)]
    records += [ProvenanceRecorded(client, version(client)) for client in range(clients)]
    for round in range(1, rounds + 1):
        chosen = [(round * (per_round or 0) + at) % clients for at in range(per_round or clients)]
        lines.append(_line(round, sorted(chosen)))
        last = _round(round, sorted(chosen), lines[-1], done and round == rounds, clients)
        records += last if round < rounds else []
    store._commit(records, dict.fromkeys(range(rounds), ""))  # at once, and without the files of rounds long closed
    store.save(last)
    store.close()
    return lines


def version(client: int) -> str:
    """Return the version that a device says. The device of client 3 says something hostile."""
    return HOSTILE if client == 3 else f"edgefl 0.1.{client % 3} native-avx2"


def outcome(client: int, round: int) -> str:
    """Return the outcome of a client's reply."""
    return {round % 4: "absent", round % 4 + 1: "late", round % 4 + 2: "refused"}.get(client, "accepted")


def _line(round: int, chosen: Sequence[int]) -> dict[str, Any]:
    status = {"accepted": "on", "late": "absent", "refused": "refused", "absent": "absent"}
    clients = [
        {"client": client, "status": status[outcome(client, round)], "seconds": client + 1.0, "joules_rapl": 0.5}
        for client in chosen
    ]
    for each in clients:
        if each["status"] == "refused":
            each["reason"] = f"reply of client {each['client']} is not finite"
    sizes = {"values": 1000, "index": 0, "header": 0}
    return {"round": round, "clients": clients, "down": sizes, "up": sizes, "train_loss": 2 / round, "seconds": 0.5}


def _round(round: int, chosen: Sequence[int], line: dict[str, Any], is_last: bool, clients: int) -> list[Record]:
    judged: list[Record] = [
        ReplyJudged(round, client, outcome(client, round), _reason(client, round), NOTHING)  # type: ignore[arg-type]
        for client in chosen
        if outcome(client, round) != "absent"
    ]
    found = [RoundOpened(round, tuple(chosen)), *judged, RoundClosed(round, STATE, line, is_last)]
    if round % 2 == 0:
        examples: list[int | None] = [10] * clients
        scores = {
            "accuracy": min(0.5 + round / 100, 0.99),
            "loss": 1 / round,
            "correct": [5 + client % 5 for client in range(clients)],
            "examples": examples,
        }
        found.append(RoundEvaluated(round, {"personal": scores, "global_local": {**scores, "accuracy": 0.25}}))
    return [*found, Traffic(round, 3000 * round, 1000 * round)]


def _reason(client: int, round: int) -> str:
    return f"reply of client {client} is not finite" if outcome(client, round) == "refused" else ""


def open_round(path: Path, round: int, chosen: Sequence[int], answered: Sequence[int] = ()) -> None:
    """Begins a round of a run that is not done."""
    store = open_store(path)
    judged = [ReplyJudged(round, client, "accepted", "", NOTHING) for client in answered]
    store.save([RoundOpened(round, tuple(chosen)), *judged])
    store.close()


def close_round(path: Path, round: int, chosen: Sequence[int], is_last: bool, clients: int) -> None:
    """Runs a round of a run that is not done from its beginning to its end."""
    store = open_store(path)
    store.save(_round(round, chosen, _line(round, chosen), is_last, clients))
    store.close()


def refuse(path: Path, client: int, reason: str) -> None:
    """A client's device takes no part from now on."""
    store = open_store(path)
    store.save([DeviceRefusal(client, reason)])
    store.close()


def alive(path: Path, round: int, doing: dict[int, str], process: int = 1, waiting: str = "") -> LiveState:
    """Return the live state of a running server with these activities. A device with "away" in its words is not
    connected.
    """
    now = time.time()
    devices = {
        client: LiveDevice("away" not in what, now - 3 - client, what, f"10.0.0.{client % 250}:7227")
        for client, what in doing.items()
    }
    state = LiveState(now, process, "training", round, now - 5, now + 25, waiting, devices)
    write_live(path, state)
    return state
