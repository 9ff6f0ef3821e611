"""edgefl's part of `bench papers pfllib`, in a process of its own, so that its memory is edgefl's alone, without torch.

python -m bench.papers.pfllib_edgefl FOLDER METHOD SEED ROUNDS EVERY MODEL RUNS prints a line of JSON. A run that was
killed goes on.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench.papers import pfllib_files, runs
from bench.papers.table import Lines, Run
from edgefl.experiment.federation import Federation
from edgefl.experiment.settings import Experiment
from edgefl.learning import GraphLearner
from edgefl.models.graph import Model

OPTIONS: dict[str, dict[str, Any]] = {"ditto": {"lam": 1.0, "personal_epochs": 1}, "fedrep": {"head_epochs": 1}}
KINDS = {"global_local": "global", "personal": "personal", "adapted": "personal"}


def main(arguments: list[str]) -> None:
    """Carry out what is due of one run, and print its accuracies and the median seconds of its rounds."""
    folder, method, seed, rounds, every, model, path = arguments
    federation = pfllib_files.federation(Path(folder), Path(model), int(seed))
    run = _run(Path(folder).name, method, int(seed), int(rounds), int(every), federation)
    log_records = runs.metrics(run, Path(path), None)
    seconds = median(log_record["seconds"] for log_record in log_records)
    print(json.dumps({"accuracy": _accuracies(log_records), "begins": _begins(federation), "round_s": seconds}))


def _run(data: str, method: str, seed: int, rounds: int, every: int, federation: Federation) -> Run:
    """Return the run with PFLlib's defaults."""
    sizes: dict[str, Any] = {"clients": pfllib_files.CLIENTS, "per_round": pfllib_files.CLIENTS, "epochs": 1}
    sizes |= {"batch": pfllib_files.BATCH, "lr": 0.005, "rounds": rounds, "eval_every": every, "checkpoint_every": 1}
    options = tuple(sorted(OPTIONS.get(method, {}).items()))
    experiment = Experiment((method,), data=data, seed=seed, options=options, **sizes)
    return Run(f"{data}-{method}-{seed}-T{rounds}", experiment, lambda *_: federation)


def _accuracies(log_records: Lines) -> dict[str, list[tuple[int, float]]]:
    """Return all hits over all test samples, as PFLlib counts them, by kind and number of rounds."""
    found: dict[str, list[tuple[int, float]]] = {}
    for log_record in log_records:
        for kind, scores in log_record.get("evaluation", {}).items():
            found.setdefault(KINDS[kind], []).append((log_record["round"], scores["accuracy_weighted"]))
    return found


def _begins(federation: Federation) -> float:
    """Return the accuracy of the model from which training starts."""
    learner = GraphLearner(Model(federation.graph, federation.initial()))
    return learner.evaluate(federation.data, np.concatenate([split.test for split in federation.clients])).accuracy or 0


if __name__ == "__main__":
    main(sys.argv[1:])
