"""The figures of one row: its runs, added up. Nothing is printed or kept here."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import edgefl
from bench.fine_tuning.parts import SETTINGS, Part
from edgefl.learning.memory import TrainingConfiguration, estimate
from edgefl.learning.memory.training_setup import Method
from edgefl.models.graph import Graph, Model
from edgefl.models.neurons.trained_part import with_trained
from edgefl.study.memory_meter import NATIVE, measure
from edgefl.study.summary import Summary

OWN = ("refreshed", "personal", "adapted")  # kinds of a client's own model, the one that is reported first
GLOBAL = "global_local"
WAYS: dict[str, Method] = {"fedspu": "fedspu", "pflego": "pflego"}  # ways of training; all other methods train in full
DIGITS = 5  # significant digits of a recorded figure


class RoundClock:
    """The processor time of rounds, which a run tells when they close. The rounds of an evaluation do not count."""

    def __init__(self, clients: int) -> None:
        self.clients, self.seconds = clients, list[float]()
        self._last = 0, 0.0

    def __call__(self, record: Mapping[str, Any]) -> None:
        before, begun = self._last
        self._last = record["round"], time.process_time()
        if record["round"] == before + 1 and before and not record.get("evaluation"):
            self.seconds.append((self._last[1] - begun) / self.clients)


def measured(part: Part, model: Model, data: tuple[Any, Any], folder: Path, settings: Mapping[str, Any]) -> Any:
    """Run a row and return its figures. A run that was interrupted goes on from its last checkpoint."""
    clock, begun = RoundClock(settings["per_round"]), time.process_time()
    run = edgefl.simulate(
        part.method, model=model, data=data, directory=folder, workers=1, progress=False, on_round=clock, **settings
    )
    spent_s = time.process_time() - begun
    summaries = [of[0] for of in run.summaries.values()]
    graph = with_trained(model.graph, part.train)
    return rounded({
        **part._asdict(),
        "rates": settings["tune"][part.rate],
        "chosen": dict(run.tuned[part.method])[part.rate],
        **figures(summaries),
        "client_round_s": median(clock.seconds) if clock.seconds else None,
        "spent_s": spent_s,
        **memory(graph, part.method, SETTINGS["batch"], run.experiment.keep),
        "settings": {name: value for name, value in settings.items() if name not in ("train", "tune")},
    })  # fmt: skip


def figures(summaries: Sequence[Summary]) -> dict[str, Any]:
    """Return the means over seeds of accuracies and bytes, and the accuracy of each seed."""
    own = [accuracies(each.evaluation, OWN) for each in summaries]
    common = [accuracies(each.evaluation, (GLOBAL,)) for each in summaries]
    return {
        "own": mean([mean(each) for each in own]),
        "own_worst": mean([worst_tenth(each) for each in own]),
        "own_seeds": [mean(each) for each in own],
        "global": mean([mean(each) for each in common]) if all(common) else None,
        "global_worst": mean([worst_tenth(each) for each in common]) if all(common) else None,
        "payload_bytes": mean([each.payload_bytes for each in summaries]),
        "frozen_bytes": summaries[0].frozen_bytes,
        "client_rounds": sum(each.client_rounds for each in summaries),
    }


def accuracies(evaluation: Mapping[str, Any], kinds: Sequence[str]) -> list[float]:
    """Return the accuracy of every client on its own test samples, of the first of these kinds of models that there
    is. The list is empty without any of them.
    """
    found = next((evaluation[kind] for kind in kinds if kind in evaluation), {"correct": (), "examples": ()})
    return [correct / examples for correct, examples in zip(found["correct"], found["examples"], strict=True)]


def worst_tenth(values: Sequence[float]) -> float:
    """Return the mean over the worst tenth of the clients, whose number is rounded up."""
    return mean(sorted(values)[: math.ceil(len(values) / 10)])


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def memory(graph: Graph, method: str, batch: int, keep: Sequence[float]) -> dict[str, Any]:
    """Return the memory of a training step by the account `exact`, of the device with the smallest share of neurons
    and of the one with the largest, and the largest resident set of a process that trains as the latter does.
    """
    way = WAYS.get(method, "full")
    shares = (min(keep), max(keep)) if way == "fedspu" else (1.0, 1.0)
    small, large = (TrainingConfiguration("", graph, batch, way, share) for share in shares)
    readings = {each.account: each.total for each in measure(large, NATIVE)}
    return {
        "memory_bytes": [estimate("exact", each).total for each in (small, large)],
        "resident_bytes": readings["peak"],
    }


def rounded(value: Any) -> Any:
    """Return JSON values with few digits."""
    if isinstance(value, Mapping):
        return {name: rounded(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(each) for each in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
