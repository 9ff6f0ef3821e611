"""A run that continues with more rounds or more seeds than it began with. No other setting of the run can change.

The added rounds are bit for bit the rounds of a run that had them from the beginning. This fails for a method whose
work in a round depends on the number of rounds (`Algorithm.needs_rounds`), as with a cosine of the learning rate or
FedSpa's search. Such a run is refused. Each seed is a run of its own. A run with one seed cannot get more seeds,
because its directories have no seed in their names (run_layout.py).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from edgefl.errors import RunError
from edgefl.experiment.run_json import EXPERIMENT, change_settings
from edgefl.experiment.settings import Experiment

GROWING = ("rounds", "seeds")


def evaluated_as_before(run: Path, wanted: Experiment) -> Experiment:
    """Return the experiment with the evaluation rounds of the run in this directory, if there is such a run and
    `wanted` does not set evaluation rounds itself.

    Raises  RunError if the run's settings are damaged.
    """
    if wanted.eval_every is not None or not (run / EXPERIMENT).exists():
        return wanted.with_evaluation_rounds()
    stored = Experiment.of_run(run)
    return replace(wanted, eval_every=stored.eval_every, evaluate_first=stored.evaluate_first)


def let_grow(run: Path, wanted: Experiment) -> None:
    """Give the run in this directory the rounds and seeds of `wanted`, if nothing else differs and the run may grow.

    Raises  RunError if the run may not grow. If other settings differ, nothing is done.
    """
    stored = Experiment.of_run(run)
    wanted = replace(wanted.with_evaluation_rounds(), tuned=stored.tuned)
    if stored != wanted and _differs_in_size(stored, wanted):
        check_growth(run, stored, wanted)
        change_settings(run, wanted.to_json())


def goes_on(run: Path, wanted: Experiment) -> bool:
    """Return whether nothing but rounds and seeds differs between the run in this directory and `wanted`."""
    stored = Experiment.of_run(run)
    return _differs_in_size(stored, replace(wanted.with_evaluation_rounds(), tuned=stored.tuned))


def _differs_in_size(stored: Experiment, wanted: Experiment) -> bool:
    return replace(stored, **{name: getattr(wanted, name) for name in GROWING}) == wanted


def check_growth(run: Path, stored: Experiment, wanted: Experiment) -> None:
    """Raise RunError naming the first setting that the run cannot get."""
    for name in GROWING:
        old, new = getattr(stored, name), getattr(wanted, name)
        if new < old:
            raise RunError(f"{run} was run with {name}={old}, not {new}; expected at least {old}")
    if wanted.rounds > stored.rounds:
        if stored.buffer:
            raise RunError(
                f"{run} was run with rounds={stored.rounds}, not {wanted.rounds}, and ended with open tasks of its "
                f"buffer={stored.buffer}; expected rounds={stored.rounds}, or a new run"
            )
        for method, algorithm in stored.algorithms().items():
            if algorithm.needs_rounds:
                raise RunError(
                    f"{run} was run with rounds={stored.rounds}, not {wanted.rounds}, and what {method} does in a "
                    f"round depends on the number of rounds; expected rounds={stored.rounds}, or a new run"
                )
        if stored.tune and not stored.tune_rounds:
            raise RunError(
                f"{run} was tuned over rounds={stored.rounds}, not {wanted.rounds}; expected as many, or a new run"
            )
    if wanted.seeds > stored.seeds == 1:
        raise RunError(
            f"{run} was run with seeds=1, not {wanted.seeds}; expected seeds=1, or a new run, because "
            "directories of a run with one seed have no place for a second one"
        )
