"""python -m bench.scaled: the server of one of bench/scale.py's runs, which weighs itself whenever a round is closed.

It reads a request as JSON from its argument. At the end it writes its weights, with the weight of its last look first.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from bench.work import SMALL
from edgefl.experiment.assembled_experiment import AssembledExperiment
from edgefl.experiment.data.split import Split
from edgefl.experiment.federation import Federation
from edgefl.experiment.settings import Experiment
from edgefl.learning import Samples
from edgefl.methods.rounds.asynchronous import AsynchronousRounds
from edgefl.protocol.trust.tls import server_context
from edgefl.server.endpoint import announced
from edgefl.server.event_loop import serve
from edgefl.server.events import Record, ReplyJudged, RoundClosed
from edgefl.server.listener import ListenAddress
from edgefl.server.round_rules import Rules
from edgefl.server.schema import open_for_reading
from edgefl.server.server_setup import host
from edgefl.server.store import Store

WEIGHTS = "weights.json"
LINGER_S = 0.5
EVALUATION_S = 5.0


@dataclass(frozen=True)
class Request:
    """A request: registered `clients`, `every` rounds between two weights, and `keys` for TLS.

    seen_s, among_enrolled  as in Rules
    buffer   accepted replies that close an asynchronous round of `per_round` tasks. None: rounds wait for their clients
    strange  number of clients of the run that have not registered
    """

    path: str
    clients: int
    per_round: int
    rounds: int
    every: int
    seen_s: float | None = None
    keys: str | None = None
    among_enrolled: bool = False
    buffer: int | None = None
    strange: int = 0


@dataclass(frozen=True)
class Weight:
    """The state after a round: the time, by perf_counter, processor time so far, resident memory, the database's size,
    accepted replies so far, and the largest resident memory so far.
    """

    round: int
    time_s: float
    cpu_s: float
    resident: int
    database: int
    accepted: int
    peak: int


def experiment(request: Request) -> Experiment:
    """Return FedAvg on the small model of the benches, evaluated at the end."""
    return Experiment(
        methods=("fedavg",),
        clients=request.clients + request.strange,
        per_round=request.per_round,
        epochs=1,  # the puppets claim the one step of an epoch
        rounds=request.rounds,
        eval_every=request.rounds,
    )


def federation(clients: int) -> Federation:
    """Return `clients` clients who own the same few samples. No client trains."""
    rows = np.arange(9, dtype=np.int32)
    split = Split(rows[:3], rows[3:6], rows[6:])
    return Federation(SMALL, Samples(np.zeros((9, 1, 8, 8), np.float32), rows % 10), (split,) * clients, 1)


def weigh(path: Path, round: int, accepted: int) -> Weight:
    """Weigh this process and its database."""
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    with closing(open_for_reading(path)) as database:
        pages, size = (database.execute(f"PRAGMA {what}").fetchone()[0] for what in ("page_count", "page_size"))
    status = Path("/proc/self/status").read_text().splitlines()
    peak = sum(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
    return Weight(round, time.perf_counter(), time.process_time(), resident, pages * size, accepted, peak)


def main() -> int:
    request = Request(**json.loads(sys.argv[1]))
    path, weights = Path(request.path), []
    rules = Rules(
        request.rounds,
        request.rounds,
        deadline_s=60.0,
        evaluation_deadline_s=EVALUATION_S,
        wait_for=request.clients,
        seen_s=request.seen_s,
        among_enrolled=request.among_enrolled,
        asynchronous=None if request.buffer is None else AsynchronousRounds(request.buffer, request.per_round),
    )
    accepted = 0

    def watch(record: Record) -> None:
        nonlocal accepted
        accepted += isinstance(record, ReplyJudged) and record.outcome == "accepted"
        if isinstance(record, RoundClosed) and (record.round % request.every == 0 or record.round == 1):
            weights.append(weigh(path, record.round, accepted))
            (path / WEIGHTS).write_text(json.dumps([asdict(each) for each in weights]))

    keys = None if request.keys is None else Path(request.keys)
    tls = None if keys is None else server_context(keys / "server.pem", keys / "server-tls.key")
    settings = experiment(request)
    assembled = AssembledExperiment.of(settings, federation(settings.clients))
    with closing(Store(path)) as store:
        server = host(assembled, store, rules, None, print, watch)
        address = replace(ListenAddress("127.0.0.1", 0), tls=tls)
        serve(server, address, lambda host, port: announced(path, host, port), LINGER_S)
    return 0


if __name__ == "__main__":
    sys.exit(main())
