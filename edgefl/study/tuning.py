"""Tuning of each method's options by validation data, before the runs that are compared.

Every combination of values is a trial: a run of its own on the first seed, in which no client has test samples. A
client's validation samples take their place, so no method sees a test label or is judged by one. The trial with the
best mean accuracy over clients wins. Among trials of equal accuracy, or without accuracies, the best mean loss wins,
and then the first trial. A trial whose clients diverge has no number and loses against any trial that has one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgefl.errors import RunError, StuckError
from edgefl.experiment import tuned_values as record
from edgefl.experiment.federation import Federation
from edgefl.experiment.run_layout import Trial
from edgefl.experiment.settings import SHARED, Experiment, Settings
from edgefl.methods import build, settings_of
from edgefl.methods.method_label import Variant, folder, label_of
from edgefl.methods.rounds.round_metrics import accepts_nobody
from edgefl.study.grid_edges import grid_edges
from edgefl.study.result_text import number, percent
from edgefl.study.simulation.engine import MakeEngine
from edgefl.study.simulation.journal import Journal
from edgefl.study.simulation.round_loop import simulate
from edgefl.study.summary import diverged_in, kind_of

FOLDER = "tuning"  # folder of the trials, in the directory of a run


def check(experiment: Experiment, federation: Federation) -> None:
    """Raise ValueError for an option that no method has, a value that is out of range, or a client of the first seed
    without validation samples.
    """
    methods = [Variant.of(label).method for label in experiment.methods]
    for name, _ in experiment.tune:
        if not any(name in settings_of(method) for method in methods):
            raise ValueError(f"tune {name}; expected an option of {', '.join(experiment.methods)}")
    for label in experiment.methods:
        for values in record.combinations(experiment.tune, label):
            build(label, {**_shared(experiment), **values})
    for client, split in enumerate(federation.clients if experiment.tune else ()):
        if not len(split.validation):
            raise ValueError(
                f"tune: client {client} has 0 validation samples; expected at least one; raise validation_share"
            )


def tune(
    experiment: Experiment,
    federation: Federation,
    settings: Settings,
    run: Path,
    begin: Callable[[Trial, int], None],
    log_record: Callable[[dict[str, Any]], None],
    engine: MakeEngine,
) -> Experiment:
    """Return the experiment with the chosen values. A directory that has a record is not tuned again. Trials continue
    from their last checkpoints.

    federation, settings  of the first seed of the runs that follow
    begin, log_record     functions that get each trial's beginning, and its rounds
    Raises                RunError if every trial of a method has diverged
    """
    if experiment.tune and not record.read(run):
        rounds = experiment.tune_rounds or experiment.rounds
        trial_settings = replace(settings, rounds=rounds, eval_every=rounds, evaluate_first=False)
        trial_settings = replace(trial_settings, refresh=0, train_scores=False, diagnose=False)
        judged = on_validation(federation)
        found = {}
        for label in experiment.methods:
            reached = []
            for values in record.combinations(experiment.tune, label):
                name = _label(label, values)
                trial = Trial(f"{FOLDER} {name}", experiment.seed, rounds, run / FOLDER / folder(name), True)
                algorithm = build(label, {**_shared(experiment), **values, "rounds": rounds})
                reached.append(
                    {"values": values, **_one(algorithm, judged, trial_settings, trial, begin, log_record, engine)}
                )
            found[label] = {"chosen": _best(label, reached), "reached": reached}
        record.write(run, {"seed": experiment.seed, "rounds": rounds, "methods": found})
    return replace(experiment, tuned=record.choices(run))


def rounds_in_all(experiment: Experiment) -> int:
    """Return the rounds of all methods, seeds and trials together, or 0 for one method, one seed and no tuning."""
    trials = sum(len(record.combinations(experiment.tune, label)) for label in experiment.methods)
    runs = experiment.seeds * len(experiment.methods)
    if runs + trials == 1:
        return 0
    return runs * experiment.rounds + trials * (experiment.tune_rounds or experiment.rounds)


def on_validation(federation: Federation) -> Federation:
    """Return the federation whose clients are tested on their validation samples. It contains no test samples."""
    clients = tuple(replace(split, test=split.validation) for split in federation.clients)
    return replace(federation, clients=clients, common=None, held_out=())


def _one(
    algorithm: Any,
    federation: Federation,
    settings: Settings,
    trial: Trial,
    begin: Callable[[Trial, int], None],
    log_record: Callable[[dict[str, Any]], None],
    engine: MakeEngine,
) -> dict[str, Any]:
    """Run a trial. Return its last scores and its number of diverged clients. The loss is None if it is not a finite
    number, or if the last round accepted no reply.
    """
    journal = Journal(trial.path)
    try:
        begin(trial, max(journal.committed.round, 0))
        simulate(algorithm, federation, settings, journal, log_record, engine=engine)
        log_records = list(journal.metrics())
    except StuckError:
        return {"loss": None, "diverged": None}
    finally:
        journal.close()
    evaluation, records = log_records[-1]["evaluation"], [record for each in log_records for record in each["clients"]]
    found, lost = evaluation[kind_of(evaluation)], len(diverged_in(records, evaluation))
    scores = {name: found[name] for name in ("accuracy", "loss") if name in found}
    return {**scores, **({"loss": None} if accepts_nobody(log_records[-1]) else {}), "diverged": lost}


def _best(label: str, reached: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the values of the best trial, or {} without trials. Raises RunError if no trial has a number."""
    if not reached:
        return {}
    finite = [each for each in reached if each["loss"] is not None]
    if not finite:
        tried = ", ".join(_text(each["values"]) for each in reached)
        raise RunError(
            f"tuning {label}: with {tried} training diverges; expected at least one value with which it does not"
        )
    best = max(finite, key=lambda each: (each.get("accuracy", 0.0), -each["loss"]))
    return dict(best["values"])


def words(run: Path) -> list[str]:
    """Return one sentence for each method about the chosen values and the results of all values, then a warning for
    each value at the edge of its grid. The list is empty if nothing was tuned.
    """
    found = record.read(run)
    if found is None:
        return []
    on = f"on validation samples of seed {found['seed']} after {found['rounds']} rounds"
    said = []
    for label, each in found["methods"].items():
        reached = ", ".join(f"{_text(one['values'])}: {_reached(one)}" for one in each["reached"])
        said.append(
            f"{label}: {_text(each['chosen'])}, chosen {on} ({reached})." if reached else f"{label}: not tuned."
        )
    return [*said, *map(str, grid_edges(found))]


def found_in(run: Path) -> dict[str, Any]:
    """Return as JSON {"tuning": the record of the tuning, with "edges", the chosen values at the edge of their grid},
    or {} if nothing was tuned.
    """
    found = record.read(run)
    return {} if found is None else {"tuning": {**found, "edges": [each.to_json() for each in grid_edges(found)]}}


def _reached(one: dict[str, Any]) -> str:
    if one["loss"] is None:
        return "diverged"
    score = percent(one["accuracy"]) if "accuracy" in one else number(one["loss"])
    return f"{score}, {one['diverged']} clients diverged" if one["diverged"] else score


def _text(values: dict[str, Any]) -> str:
    return label_of("", values).removeprefix(":").replace(":", " ")


def _shared(experiment: Experiment) -> dict[str, Any]:
    """Return the options that every method gets if it has them."""
    return {**{name: getattr(experiment, name) for name in SHARED}, **dict(experiment.options)}


def _label(label: str, values: dict[str, Any]) -> str:
    """Return the label of the trial of a method with these values."""
    method, own = Variant.of(label)
    return label_of(method, {**dict(own), **values})
