"""A run that goes on with more than it was begun with: more rounds, or more seeds. Nothing else of it can change.

More rounds are the rounds that it would have had from the beginning, bit for bit, unless a method's work in a round
depends on how many there are (`Algorithm.needs_rounds`): a cosine of the learning rate, FedSpa's search. That would be
a run that nobody could begin, so it is refused. Seeds are runs of their own; a run of one has other directories.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from edgefl.errors import RunError
from edgefl.experiment.run_json import EXPERIMENT, change_settings
from edgefl.experiment.settings import Experiment

GROWING = ("rounds", "seeds")


def evaluated_as_before(run: Path, wanted: Experiment) -> Experiment:
    """The experiment that is evaluated after the rounds that the run in this directory has been evaluated after, if
    there is such a run and `wanted` does not say after which rounds.

    Raises  RunError if the run's settings are damaged.
    """
    if wanted.eval_every is not None or not (run / EXPERIMENT).exists():
        return wanted.with_evaluation_rounds()
    stored = Experiment.of_run(run)
    return replace(wanted, eval_every=stored.eval_every, evaluate_first=stored.evaluate_first)


def let_grow(run: Path, wanted: Experiment) -> None:
    """Gives the run in this directory the rounds and seeds of `wanted`, if that is all that differs and it may.

    Raises  RunError if it may not. Where other settings differ nothing is done.
    """
    stored = Experiment.of_run(run)
    wanted = replace(wanted.with_evaluation_rounds(), tuned=stored.tuned)
    if stored != wanted and _differs_in_size(stored, wanted):
        check_growth(run, stored, wanted)
        change_settings(run, wanted.to_json())


def goes_on(run: Path, wanted: Experiment) -> bool:
    """Whether nothing but rounds and seeds differs between the run in this directory and `wanted`."""
    stored = Experiment.of_run(run)
    return _differs_in_size(stored, replace(wanted.with_evaluation_rounds(), tuned=stored.tuned))


def _differs_in_size(stored: Experiment, wanted: Experiment) -> bool:
    return replace(stored, **{name: getattr(wanted, name) for name in GROWING}) == wanted


def check_growth(run: Path, stored: Experiment, wanted: Experiment) -> None:
    """Raises RunError naming the first setting that cannot be had."""
    for name in GROWING:
        old, new = getattr(stored, name), getattr(wanted, name)
        if new < old:
            raise RunError(f"{run} was run with {name}={old}, not {new}; expected the same or more")
    if wanted.rounds > stored.rounds:
        for method, algorithm in stored.algorithms().items():
            if algorithm.needs_rounds:
                raise RunError(
                    f"{run} was run with rounds={stored.rounds}, not {wanted.rounds}, and what {method} does in a "
                    "round depends on how many there are; expected the same, or a new run"
                )
        if stored.tune and not stored.tune_rounds:
            raise RunError(
                f"{run} was tuned over rounds={stored.rounds}, not {wanted.rounds}; expected the same, or a new run"
            )
    if wanted.seeds > stored.seeds == 1:
        raise RunError(f"{run} was run with seeds=1, not {wanted.seeds}; expected the same, or a new run")
