"""Records of a server on their way to a slow or full disk: each of them is saved, and the last of a run, too."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from edgefl.errors import RunError
from edgefl.protocol.wire.model_message import pack
from edgefl.server import record_queue, run_history
from edgefl.server.events import Record, Traffic
from edgefl.server.record_queue import RecordQueue
from tests.server import refusing_disk_server
from tests.server.refusing_disk_server import REFUSED
from tests.server.socket_run import served_run
from tests.smooth import CLIENTS, federation

PROGRAM = (refusing_disk_server.__file__,)


class FakeStore:
    """A store that refuses the first `refusals` batches, and takes 20 ms for each of the others."""

    def __init__(self, refusals: int = 0) -> None:
        self.saved: list[Record] = []
        self._refusals = refusals

    def save(self, records: list[Record]) -> None:
        if self._refusals:
            self._refusals -= 1
            raise RunError(REFUSED)
        time.sleep(0.02)
        self.saved.extend(records)


async def saved(store: FakeStore, said: list[str]) -> list[Record]:
    """Add the records of rounds 1 to 3. The record of round 1 leads to the record of round 4."""
    heard: list[Record] = []

    def hear(record: Record) -> None:
        assert record in store.saved
        heard.append(record)
        if record == Traffic(1):
            queue.add(Traffic(4))

    queue = RecordQueue(store, lambda line, kind: said.append(line), hear)
    saving = asyncio.get_running_loop().create_task(queue.keep_saving())
    for round in (1, 2, 3):
        queue.add(Traffic(round))
    await queue.wait()
    saving.cancel()
    return heard


def test_a_wait_covers_records_that_are_added_meanwhile() -> None:
    store, said = FakeStore(), list[str]()
    assert asyncio.run(saved(store, said)) == store.saved == [Traffic(round) for round in (1, 2, 3, 4)]
    assert said == []


def test_a_batch_that_the_disk_refuses_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_queue, "RETRY_S", 0.01)
    store, said = FakeStore(refusals=2), list[str]()
    assert asyncio.run(saved(store, said)) == store.saved == [Traffic(round) for round in (1, 2, 3, 4)]
    assert said == [
        f"cannot store: {REFUSED}; trying again every 0.01 s",
        "stored; going on",
    ]


def served_on(tmp_path: Path, *words: str) -> tuple[int, str]:
    """Serve a run of two rounds. Return the bytes of payload of which there is no record, and what the server said."""
    experiment, model, clients = federation(tmp_path, ("fedavg",), per_round=CLIENTS)
    served, said = served_run(tmp_path, experiment, model, clients, words=words, program=PROGRAM)
    last = run_history.traffic(served)[-1]
    trained = sum(each["down"] for record in run_history.metrics(served) for each in record["clients"])
    evaluated = trained  # each round asks each client to train, and then to evaluate the same arrays
    assert last.round == experiment.rounds
    return trained + evaluated + CLIENTS * len(pack(model)) - (last.sent - last.sent_headers), said


def test_the_traffic_of_the_last_round_is_stored_on_a_disk_that_refuses_it_once(tmp_path: Path) -> None:
    lost, said = served_on(tmp_path)
    assert lost == 0
    assert "traffic" not in said


def test_a_server_ends_on_a_disk_that_never_takes_the_traffic_of_the_last_round(tmp_path: Path) -> None:
    lost, said = served_on(tmp_path, "last")
    assert lost > 0
    assert "the traffic of the last round is not stored: the disk has not taken it in 0.2 s" in said
