"""Bases in fewer bits: the scores of adapters on bases in float32, bfloat16 and int8, before and after a federation has
trained the adapters. Bases rounded to 4 and 2 bits are controls, which show what the comparison can see.

Seeds draw samples, the base's and the adapters' first values, and all choices of the federation. The bases of one seed
differ in the rounding alone, so the rows of a seed are pairs.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import edgefl
from bench.adapters import characters, roles
from bench.adapters.base_task import BaseTask, Parts, adapted
from bench.adapters.rounding import rounded
from edgefl.learning import SGD, GraphLearner, Samples
from edgefl.models import quantize_frozen
from edgefl.models.graph import Model

SEEDS = (1, 2, 3)
TASKS = (roles.TASK, characters.TASK)
BASES: dict[str, Callable[[Model], Model]] = {
    "float32": lambda model: model,
    "bfloat16": lambda model: quantize_frozen(model, "bfloat16"),
    "int8": lambda model: quantize_frozen(model, "int8"),
    "4 bits": lambda model: rounded(model, 4),
    "2 bits": lambda model: rounded(model, 2),
}
TIMED = ("float32", "bfloat16", "int8")  # bases that the library holds

Row = dict[str, Any]


def measured(folder: Path, repeats: int, known: Mapping[str, Row]) -> Iterator[Row]:
    """Yield a row for each task, seed and base, and for each task a row with seconds of steps.

    known  rows of the record by name. A row with these settings is not made again
    """
    for task in TASKS:
        for seed in SEEDS:
            wanted = [base for base in BASES if not _is_known(known.get(_name(task, base, seed)), task)]
            if wanted:
                yield from compared(task, seed, wanted, task.parts(seed), folder)
        if not _is_known(known.get(f"{task.name}, seconds"), task):
            yield _timed(task, task.parts(SEEDS[0]), folder, repeats)


def compared(task: BaseTask, seed: int, bases: list[str], parts: Parts, folder: Path) -> Iterator[Row]:
    """Yield the row of each base for one seed."""
    model = adapted(task, seed, parts.others, folder)
    for base in bases:
        begun, first = time.process_time(), BASES[base](model)
        yield {
            "name": _name(task, base, seed),
            "task": task.name,
            "base": base,
            "seed": seed,
            "before": score(first, parts.test),
            "after": score(federated(task, seed, first, parts.own), parts.test),
            "held": GraphLearner(first).memory()["params"],
            "adapters": sum(first.params[name].nbytes for name in _trained(first)),
            "cpu_s": round(time.process_time() - begun, 1),
            "settings": task.all_settings(),
        }


def federated(task: BaseTask, seed: int, model: Model, own: Mapping[str, Any]) -> Model:
    """Return the model with the adapters that FedAvg has trained. Its base is the very base of `model`."""
    with tempfile.TemporaryDirectory() as path:
        asked = {"directory": Path(path) / "run", "workers": 1, "progress": False, "seed": seed, **task.settings}
        run = edgefl.simulate("fedavg", model=model, data=dict(own), **asked)
        found = run.method.model.model.params
    trained = _trained(model)
    for name in model.params.keys() - trained:
        if not np.array_equal(np.asarray(model.params[name]), found[name]):
            raise RuntimeError(f"{name} has changed; expected the frozen values of the base")
    return model._replace(params={**model.params, **{name: found[name] for name in trained}})


def score(model: Model, test: Samples) -> dict[str, float]:
    """Return the mean loss of a decision, and the share of right decisions."""
    found = GraphLearner(model).evaluate(test)
    assert found.accuracy is not None
    return {"loss": round(found.loss_sum / found.examples, 6), "accuracy": round(found.accuracy, 6)}


def _timed(task: BaseTask, parts: Parts, folder: Path, repeats: int) -> Row:
    """Return the median processor seconds of a step of each base that the library holds. The bases take turns."""
    model, rows = adapted(task, SEEDS[0], parts.others, folder), np.arange(task.settings["batch"], dtype=np.int32)
    learners = {base: GraphLearner(BASES[base](model)) for base in TIMED}
    spent: dict[str, list[float]] = {base: [] for base in TIMED}
    for _ in range(4 * repeats + 1):
        for base, learner in learners.items():
            begun = time.process_time()
            learner.fit(parts.test, [rows], SGD(0.01))
            spent[base].append(time.process_time() - begun)
    seconds = {base: round(median(each[1:]), 5) for base, each in spent.items()}  # the first step binds programs
    return {"name": f"{task.name}, seconds", "task": task.name, "seconds": seconds, "settings": task.all_settings()}


def _trained(model: Model) -> set[str]:
    return model.graph.parameters().keys() - model.graph.frozen


def _name(task: BaseTask, base: str, seed: int) -> str:
    return f"{task.name}, {base}, seed {seed}"


def _is_known(row: Mapping[str, Any] | None, task: BaseTask) -> bool:
    return row is not None and row["settings"] == task.all_settings()
