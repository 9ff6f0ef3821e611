"""One of ten devices lies in every round: the accuracy of the other clients, beside a run in which nobody lies.

Runs are simulated for every aggregation and every attack (liars.py). Some are served, where a real device process lies
to a real server. Accuracy is the mean over the nine honest clients, each on its own test samples, of the model that the
method is about.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.cluster import Cluster, Process, write_partitions
from edgefl.errors import RunError
from edgefl.experiment.assembly import assemble
from edgefl.experiment.client_dataset import partition_file
from edgefl.experiment.settings import Experiment
from edgefl.server import run_history
from edgefl.study.simulation.journal import Journal
from edgefl.study.simulation.round_loop import simulate
from edgefl.study.summary import kind_of
from tests.faults.liars import ATTACKS, lying

HONEST, DEFAULT = "nobody", ("mean", "refuse")
METHODS = ("fedavg", "fedspu")
GUARDS = (("mean", "refuse"), ("mean", "off"), ("clipped", "refuse"), ("trimmed:1", "refuse"), ("median", "refuse"))
SERVED = (("fedavg", "huge"), ("fedavg", "claim"), ("fedavg", "nan"), ("fedspu", "huge"), ("fedspu", "claim"))

EXPERIMENT = Experiment(methods=("fedavg",), clients=10, per_round=10, rounds=30, eval_every=30, checkpoint_every=30)


@dataclass(frozen=True)
class Row:
    """One method under one attack.

    accuracies  percent, by seed
    unfolded    number of the liar's replies that were refused, excluded or clipped, of all seeds
    others      the same number of the honest clients
    """

    where: str
    partition: str
    method: str
    aggregation: str
    bound: str
    attack: str
    accuracies: list[float]
    not_aggregated: int
    others: int

    @property
    def guard(self) -> tuple[str, str, str, str]:
        return self.partition, self.method, self.aggregation, self.bound

    @property
    def accuracy(self) -> float:
        return statistics.mean(self.accuracies)


def liar(experiment: Experiment) -> int:
    """Return the last client. It is of the strongest tier, so that it sends whole models under FedSPU, too."""
    return experiment.clients - 1


def simulated(
    root: Path,
    base: Experiment,
    seeds: Sequence[int],
    guards: Sequence[tuple[str, str]] = GUARDS,
    attacks: Sequence[str] = (HONEST, *ATTACKS),
) -> Iterator[Row]:
    """Yield a row for every method, guard and attack, honest runs first."""
    for method in METHODS:
        for aggregation, bound in guards:
            for attack in attacks:
                experiment = replace(base, methods=(method,), aggregation=aggregation, bound=bound)
                runs = [_simulated(root, replace(experiment, seed=seed), attack) for seed in seeds]
                yield _row("simulated", experiment, attack, runs)


def served(root: Path, base: Experiment, what: Sequence[tuple[str, str]] = SERVED) -> Iterator[Row]:
    """Yield rows of some of these runs over sockets, with the default guard."""
    for method, attack in what:
        experiment = replace(base, methods=(method,))
        yield _row("served", experiment, attack, [_served(root / f"{method}-{attack}", experiment, attack)])


def holds(rows: Sequence[Row]) -> bool:
    """Return whether every row is as near its honest run, of its method and aggregation, as is asked of it.

    A served run is compared with the honest run of its seed.
    """
    honest = {row.guard: row.accuracies for row in rows if row.attack == HONEST}
    return all(below(row, honest[row.guard]) <= most(row) for row in rows)


def below(row: Row, honest: Sequence[float]) -> float:
    """Return the points of accuracy that an attack costs."""
    return statistics.mean(honest[: len(row.accuracies)]) - row.accuracy


def most(row: Row) -> float:
    """Return the points of accuracy that an attack may cost."""
    if row.guard[2:] == DEFAULT:
        return 2.0 if row.attack in ("huge", "claim", "nan") else math.inf
    return 3.0 if row.aggregation.partition(":")[0] in ("clipped", "trimmed") else math.inf


def _simulated(root: Path, experiment: Experiment, attack: str) -> list[dict[str, Any]]:
    """Return the log records of a run."""
    ((name, algorithm),) = experiment.algorithms().items()
    if attack != HONEST:
        algorithm = lying(algorithm, ATTACKS[attack], liar(experiment))
    parts = experiment.partition, experiment.aggregation, experiment.bound, experiment.seed
    journal = Journal(root / "-".join(map(str, (name, attack, *parts))).replace(":", "_"))
    try:
        simulate(algorithm, assemble(experiment), experiment.settings(1), journal)
    except RunError as error:
        print(f"{name}, fold {experiment.aggregation}, bound {experiment.bound}, {attack}: {error}", file=sys.stderr)
    log_records = list(journal.metrics())
    journal.close()
    return log_records


def _served(root: Path, experiment: Experiment, attack: str) -> list[dict[str, Any]]:
    write_partitions(root / "shares", experiment)
    with Cluster(root, experiment, root / "shares") as cluster:
        cluster.start_server()
        for client in range(experiment.clients):
            if client == liar(experiment) and attack != HONEST:
                cluster.devices[client] = _liar(cluster, client, partition_file(root / "shares", client), attack)
                cluster.devices[client].start()
            else:
                cluster.start_device(client)
        cluster.finish()
        return run_history.metrics(cluster.run)


def _liar(cluster: Cluster, client: int, data: Path, attack: str) -> Process:
    honest = cluster.device("liar", data, "--id", str(client), "--state", str(cluster.state_of(client)))
    return Process("liar", honest.log, honest.arguments, ("-m", "tests.faults.liar", attack))


def _row(where: str, experiment: Experiment, attack: str, runs: Sequence[list[dict[str, Any]]]) -> Row:
    records = [each for log_records in runs for log_record in log_records for each in log_record["clients"]]
    not_aggregated = [
        each["client"] for each in records if each["status"] in ("refused", "excluded") or "clipped" in each
    ]
    mine = not_aggregated.count(liar(experiment))
    (method,) = experiment.methods
    accuracies = [100 * _accuracy(log_records, liar(experiment)) for log_records in runs]
    guard = experiment.partition, method, experiment.aggregation, experiment.bound
    return Row(where, *guard, attack, accuracies, mine, len(not_aggregated) - mine)


def _accuracy(log_records: list[dict[str, Any]], liar: int) -> float:
    """Return the accuracy of the honest clients after the last round, or 0 if the run ended with an error before it."""
    if "evaluation" not in log_records[-1]:
        return 0.0
    evaluation = log_records[-1]["evaluation"]
    found = evaluation[kind_of(evaluation)]
    honest = [k for k in range(len(found["correct"])) if k != liar]
    return statistics.mean(found["correct"][k] / found["examples"][k] for k in honest)
