"""`python -m bench papers seconds`: PFLEGO's table 3, the time of a client's round on Omniglot's network.

A client holds one alphabet, trains as the first round asks, and takes PASSES passes over all of its samples in every
method. PFLEGO makes its passes over the head alone, and FedRep half of them. Ditto makes half of them with each of its
models. The time is the CPU time of one thread. The paper has the wall time of a round with all clients of the round,
so ratios to PFLEGO are compared.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from bench import machine
from bench.papers import omniglot
from bench.papers.pieces import Piece, piece
from edgefl import methods
from edgefl.errors import EdgeflError
from edgefl.experiment.federation import Federation
from edgefl.experiment.presets import WHOLE
from edgefl.experiment.settings import Experiment
from edgefl.learning import GraphLearner
from edgefl.methods.client_state import ClientState
from edgefl.models.graph import Model

PASSES, CLIENT, CLIENTS = 50, 0, 50
RESULTS, NAME = Path(__file__).with_name("results"), "pflego-seconds"
PAPER = {
    "PFLEGO": 7.024, "FedRep": 10.571, "FedPer": 14.436, "FedAvg": 16.553, "FedBABU": 16.814, "FedProx": 18.632,
    "Ditto": 26.105,
}  # fmt: skip


def labels(passes: int) -> dict[str, str]:
    """Return each method's label."""
    half, whole = passes // 2, f"batch={WHOLE}"
    return {
        "PFLEGO": f"pflego:tau={passes}",
        "FedRep": f"fedrep:epochs={half}:head_epochs={passes - half}:{whole}",
        "FedPer": f"fedper:epochs={passes}:{whole}",
        "FedAvg": f"fedavg:epochs={passes}:{whole}",
        "FedBABU": f"fedbabu:epochs={passes}:{whole}",
        "FedProx": f"fedprox:epochs={passes}:{whole}",
        "Ditto": f"ditto:epochs={half}:personal_epochs={passes - half}:{whole}",
    }


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return 1 if the data cannot be had."""
    parser = argparse.ArgumentParser(prog="python -m bench papers seconds", description=__doc__)
    parser.add_argument("--data-dir", type=Path, help="where the data sets' files lie")
    parser.add_argument("--results", type=Path, default=RESULTS, help="of the record; default: beside this file")
    parser.add_argument("--passes", type=int, default=PASSES, help="passes of a round; default: %(default)s")
    options = parser.parse_args(arguments)
    try:
        found = piece(options.results, NAME, partial(_measured, options.data_dir, options.passes))
    except (EdgeflError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    table = Table(
        title=f"A client's round of {found['passes']} passes, {found['samples']} samples", title_justify="left"
    )
    for heading in ("", "CPU s", "over PFLEGO's", "paper: s a round", "over PFLEGO's"):
        table.add_column(heading, justify="right" if heading else "left")
    for name, (spent, ratio, paper, expected) in rows(found).items():
        table.add_row(name, f"{spent:.2f}", f"{ratio:.2f}", f"{paper:.2f}", f"{expected:.2f}")
    Console().print(table)
    return 0


def rows(found: Piece) -> dict[str, list[float]]:
    """Return by method the seconds and their ratio to PFLEGO's, ours and the paper's."""
    ours = found["seconds"]
    return {
        name: [spent, spent / ours["PFLEGO"], PAPER[name], PAPER[name] / PAPER["PFLEGO"]]
        for name, spent in ours.items()
    }


def _measured(data_dir: Path | None, passes: int) -> Piece:
    machine.use_threads(1)
    experiment = Experiment(
        ("pflego",), data=omniglot.FILE, model="pflego_omniglot", partition="group", clients=CLIENTS
    )
    federation = _one_alphabet(omniglot.federation(experiment, data_dir))
    spent = {name: round(_spent(label, federation), 3) for name, label in labels(passes).items()}
    return {
        "seed": experiment.seed,
        "passes": passes,
        "samples": len(federation.clients[CLIENT].train),
        "seconds": spent,
    }


def _one_alphabet(federation: Federation) -> Federation:
    """Return the federation with the alphabet's characters as classes 0, 1 and so on, which a common head needs."""
    split, data = federation.clients[CLIENT], federation.data
    own = np.concatenate([split.train, split.test])
    y = np.zeros_like(data.y)
    y[own] = np.unique(data.y[own], return_inverse=True)[1]
    return replace(federation, data=replace(data, y=y))


def _spent(label: str, federation: Federation) -> float:
    """Return the CPU time of a client's training in its first round."""
    method, initial = methods.build(label, {"per_round": CLIENTS}), federation.initial()
    task, split = federation.task(1), federation.clients[CLIENT]
    learner = GraphLearner(Model(federation.graph, initial))
    state = ClientState(CLIENT, 1, task.spec, learner, federation.data, split.train, split.validation, split.test)
    plan = next(each for each in method.plan(task, method.start(task, initial), 1) if each.client == CLIENT)
    started = time.process_time()
    method.train(state, plan)
    return time.process_time() - started
