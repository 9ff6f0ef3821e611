"""Models with dropout in a simulation: the same values are dropped whoever computes, and again when a run goes on."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgefl.experiment.assembly import assemble
from edgefl.experiment.federation import Federation
from edgefl.experiment.settings import Experiment, Settings
from edgefl.methods import build
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.rounds import state_file
from edgefl.methods.task import State
from edgefl.models.graph import INPUT, Graph, Node
from edgefl.models.graph.operations import Conv2d, Dropout, Dropout2d, Flatten, Linear, MaxPool2d, Operation, ReLU
from edgefl.study.simulation.journal import Journal
from edgefl.study.simulation.round_loop import simulate

SMALL = Experiment(clients=16, per_round=3, rounds=2, eval_every=2, epochs=1, keep=(0.5, 1.0))
OPTIONS = {"per_round": 3, "epochs": 1, "keep": SMALL.keep, "tau": 2}
METHODS = (  # each trains in its own way
    "fedspu-es", "fedavg-ft", "pflego", "fedrecon", "fedspa", "ditto", "subfedavg", "random-dropout", "fjord",
)  # fmt: skip


def model(p: float) -> Graph:
    operations: list[Operation] = [
        Conv2d(1, 6, (3, 3)), ReLU(), Dropout2d(p), MaxPool2d((2, 2), (2, 2), ceil_mode=True), Flatten(),
        Linear(54, 12), ReLU(), Dropout(p), Linear(12, 10),
    ]  # fmt: skip
    names = [INPUT, *(f"layer{number}" for number in range(len(operations)))]
    return Graph((1, 8, 8), tuple(Node(names[i + 1], op, (names[i],)) for i, op in enumerate(operations)))


def method(name: str) -> Algorithm:
    return build(name, {**OPTIONS, "epochs": 2 if name == "subfedavg" else 1})


def break_off(log_record: dict[str, Any]) -> None:
    raise RuntimeError("broken off")


def run(
    path: Path, name: str, federation: Federation, workers: int = 1, watch: Any = lambda log_record: None
) -> dict[str, bytes]:
    """Everything that the server and the clients hold in the end."""
    journal = Journal(path)
    settings = Settings(rounds=2, eval_every=2, checkpoint_every=1, workers=workers)
    with closing(journal):
        state = simulate(method(name), federation, settings, journal, watch)
        return held(state, journal)


def held(state: State, journal: Journal) -> dict[str, bytes]:
    found = {key: array.tobytes() for key, array in state_file.flat(state.arrays).items()}
    for client in range(SMALL.clients):
        kept = journal.load_client_state(client)
        if kept:
            found |= {f"{client}/{key}": np.ascontiguousarray(array).tobytes() for key, array in kept.flat().items()}
    return found


def test_workers_and_going_on_change_no_bit_and_dropout_is_at_work_in_every_method(tmp_path: Path) -> None:
    digits = assemble(SMALL)
    with_it, without = (replace(digits, graph=model(p)) for p in (0.4, 0.0))
    for name in METHODS:
        whole = run(tmp_path / name / "whole", name, with_it)
        assert run(tmp_path / name / "three", name, with_it, workers=3) == whole, name
        with pytest.raises(RuntimeError, match="broken off"):
            run(tmp_path / name / "first", name, with_it, watch=break_off)
        assert run(tmp_path / name / "first", name, with_it) == whole, name
        assert run(tmp_path / name / "without", name, without) != whole, name
