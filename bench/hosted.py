"""python -m bench.hosted: the server of one of the benches' federations, as `edgefl serve` runs it, with a stopwatch.

It reads a request as JSON from its argument, and writes its spans when the run is over. A record that has become
durable is a span too, of no length, under the record's name and round.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from bench import work
from bench.stopwatch import Span, Stopwatch
from edgefl.experiment.assembled_experiment import AssembledExperiment
from edgefl.methods.fedspu import FedSPU
from edgefl.protocol.wire.connection import Connection
from edgefl.server import open_round as rounds
from edgefl.server.coordinator import Coordinator
from edgefl.server.endpoint import announced
from edgefl.server.event_loop import serve
from edgefl.server.events import Record, RoundClosed, RoundOpened
from edgefl.server.listener import ListenAddress
from edgefl.server.round_rules import Rules
from edgefl.server.server_setup import host
from edgefl.server.store import Store

SPANS = "server-spans.json"
TIMED: list[tuple[Any, str, str]] = [
    (Coordinator, "handle", "decide"),
    (FedSPU, "plan", "plan"),
    (FedSPU, "aggregate", "fold"),
    (FedSPU, "finish", "fold"),
    (rounds, "train_message", "codec"),
    (rounds, "read_answer", "codec"),
    (Connection, "send", "frames"),
    (Connection, "receive", "frames"),
    (Store, "save", "store"),
]
LINGER_S = 5.0


def main() -> int:
    request = json.loads(sys.argv[1])
    path = Path(request["path"])
    experiment = work.experiment(request["clients"], request["rounds"], tuple(request["keep"]))
    watch = Stopwatch()
    for timed in TIMED:
        watch.time(*timed)

    def durable(record: Record) -> None:
        if isinstance(record, RoundOpened | RoundClosed):
            watch.spans.append(Span(f"{type(record).__name__} {record.round}", time.perf_counter(), 0.0, 0.0))

    rules = Rules(experiment.rounds, experiment.eval_every, wait_for=experiment.clients)
    assembled = AssembledExperiment.of(experiment, work.WORKS[request["work"]](experiment))
    with closing(Store(path)) as store:
        server = host(assembled, store, rules, None, print, durable)
        serve(server, ListenAddress("127.0.0.1", 0), lambda host, port: announced(path, host, port), LINGER_S)
    watch.write(path / SPANS)
    return 0


def times(spans: list[Span]) -> dict[str, dict[int, float]]:
    """Return when rounds were RoundOpened and RoundClosed, durably, by this word and by round."""
    found: dict[str, dict[int, float]] = {"RoundOpened": {}, "RoundClosed": {}}
    for span in spans:
        word, _, number = span.label.partition(" ")
        if word in found:
            found[word][int(number)] = span.start_s
    return found


if __name__ == "__main__":
    sys.exit(main())
