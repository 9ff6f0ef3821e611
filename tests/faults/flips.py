"""Runs over a line that flips single bits, at most one in a connection, both ways: each must end like simulate.

Every connection of every device may be hit, until the run has had its share of flips. The rest of the run is
undisturbed. The seed draws the bits. A drawn bit is flipped if its connection carries so many bytes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.cluster import Cluster, write_partitions
from edgefl.cli.cli import main as edgefl
from edgefl.errors import RequestError
from edgefl.protocol.trust.keys import key_file
from tests.faults.bad_link import BadLine, bad_link
from tests.faults.experiments import short_rounds
from tests.faults.outcome import Truth

EXPERIMENT = short_rounds("fedspu", clients=4, per_round=3, rounds=12, eval_every=4)


WAYS = ("plain", "keys", "tls")
FLIPS_A_RUN = 100


@dataclass(frozen=True)
class Result:
    """A run. `flips` counts by direction.

    `difference` is the first difference from simulate, in words, or None if everything is bit-identical.
    """

    way: str
    seed: int
    flips: dict[str, int]
    seconds: float
    difference: str | None


def runs(root: Path, ways: Sequence[str], flips: int, seed: int) -> Iterator[Result]:
    """Yield runs in each way, as many as it takes for `flips` flips."""
    link = Line(root)
    for way in ways:
        left, number = flips, seed
        while left > 0:
            result = link.run(way, number, min(left, FLIPS_A_RUN))
            yield result
            if result.difference is not None:
                break
            left, number = left - sum(result.flips.values()), number + 1


class Line:
    """A simulated truth, and the devices' samples and keys, for any number of runs under `directory`."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._truth = Truth.of(EXPERIMENT, directory / "simulated")
        write_partitions(directory / "shares", EXPERIMENT)

    def run(self, way: str, seed: int, flips: int) -> Result:
        """Carry out one run with at most so many flips. `way` is plain, keys or tls."""
        serve, client = self._trust(way)
        started = time.perf_counter()
        with Cluster(
            self._directory / f"{way}-{seed}", EXPERIMENT, self._directory / "shares", serve, client
        ) as cluster:
            cluster.start_server()
            with bad_link(f"127.0.0.1:{cluster.port}", flips, seed) as link:
                difference = self._difference(cluster, link)
        found = Counter(flip.direction for flip in link.flips)
        return Result(way, seed, dict(found), round(time.perf_counter() - started, 1), difference)

    def _difference(self, cluster: Cluster, link: BadLine) -> str | None:
        cluster.port = int(link.address.rpartition(":")[2])
        for number in range(EXPERIMENT.clients):
            cluster.start_device(number)
        try:
            cluster.finish()
        except RuntimeError as error:
            return str(error)
        return self._truth.difference(cluster)

    def _trust(self, way: str) -> tuple[Sequence[str], Callable[[int], Sequence[str]]]:
        """Return the options of the server and of each device."""
        keys = self._directory / "keys"
        if way == "plain":
            return (), lambda client: ()
        if not keys.exists() and edgefl(
            ["keys", str(keys), "--clients", str(EXPERIMENT.clients), "--host", "127.0.0.1"]
        ):
            raise RequestError("no keys could be made")
        serve, client = ["--keys", str(keys / "server.keys")], ["--tls-ca", str(keys / "ca.pem")]
        if way == "keys":
            client = []
        else:
            serve += ["--tls-cert", str(keys / "server.pem"), "--tls-key", str(keys / "server-tls.key")]
        return serve, lambda number: ["--key", str(key_file(keys, number)), *client]
