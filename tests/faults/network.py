"""Served runs over a bad link: eight devices behind it, with a server on the other side, against their simulation.

The link (tests/faults/link.py) adds a delay of 100 ms to every packet each way, so that an answer takes 200 ms. It
loses 5 % of the packets in either direction, and is cut for 20 s when some rounds are closed. Every device must answer
in every round, and all runs must end bit-identical.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from bench.cluster import Cluster, await_, write_partitions
from edgefl.cli.cli import main
from edgefl.experiment.settings import Experiment
from edgefl.protocol.trust.keys import key_file
from edgefl.server import run_history
from tests.faults.experiments import EIGHT
from tests.faults.link import Link, link
from tests.faults.outcome import Truth

DELAY_S, LOSS, CUT_S = 0.1, 0.05, 20.0
CUT_AFTER = 5  # closed rounds
LIMIT_S = 1800.0
LONG_S = "3600"  # seconds of a round: no deadline shall end the run
INSIDE = ("-m", "tests.faults.inside")
EXPERIMENT = replace(EIGHT, keep=(0.2, 0.4))


@dataclass(frozen=True)
class Result:
    """One run. `lost` counts lost packets outside the cut and in it, `absent` the missing replies of all rounds.

    difference  from the simulation, in words, or None if everything is bit-identical
    """

    what: str
    seconds: float
    passed: int
    lost: int
    absent: int
    reconnected: int
    difference: str | None


def run(root: Path, experiment: Experiment = EXPERIMENT, cut_s: float = CUT_S) -> Iterator[Result]:
    """Yield the run without TLS and the run with TLS. Raises RuntimeError if a run does not come to its end."""
    root.mkdir(parents=True)
    truth = Truth.of(experiment, root / "simulated")
    write_partitions(root / "shares", experiment)
    for what in ("plain", "TLS"):
        with link(DELAY_S, LOSS) as bad:
            yield _served(root / what, what, experiment, truth, bad, cut_s)


def _served(root: Path, what: str, experiment: Experiment, truth: Truth, bad: Link, cut_s: float) -> Result:
    root.mkdir()
    keys, host = root / "keys", bad.addresses[0]
    serve, client = ["--insecure"], lambda number: ["--insecure"]
    if what == "TLS":
        if main(["keys", str(keys), "--clients", str(experiment.clients), "--host", host]):
            raise RuntimeError("no keys could be made")
        files = {"--keys": "server.keys", "--tls-cert": "server.pem", "--tls-key": "server-tls.key"}
        serve = [word for option, name in files.items() for word in (option, str(keys / name))]
        client = lambda number: ["--tls-ca", str(keys / "ca.pem"), "--key", str(key_file(keys, number))]  # noqa: E731
    programs = [(*INSIDE, name) for name in bad.names]
    started = time.monotonic()
    serve += ["--host", host, "--deadline", LONG_S, "--evaluation-deadline", LONG_S]
    cluster = Cluster(root, experiment, root.parent / "shares", serve, client, *programs, host)
    with cluster:
        cluster.start_server()
        for number in range(experiment.clients):
            cluster.start_device(number)
        await_(lambda: len(run_history.metrics(cluster.run)) >= CUT_AFTER, f"{CUT_AFTER} rounds are closed", LIMIT_S)
        bad.cut.set()
        time.sleep(cut_s)
        bad.cut.clear()
        cluster.finish(limit_s=LIMIT_S)
        said = [device.said() for device in cluster.devices.values()]
    log_records = run_history.metrics(cluster.run)
    absent = sum(
        each["status"] in ("absent", "refused") for log_record in log_records for each in log_record["clients"]
    )
    again = sum(words.count("connected as client") - 1 for words in said)
    return Result(what, time.monotonic() - started, bad.passed, bad.lost, absent, again, truth.difference(cluster))
