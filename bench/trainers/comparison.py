"""Trainers in turns: that each of them trains, and what a step takes of processor time and memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from bench.runner import Contender, Effort, Timing, interleave
from bench.trainers.task import BATCHES
from bench.trainers.trainer import Trainer

OWN, FROZEN = "edgefl p=1", "edgefl p=0.2"
BARS = {OWN: 3.0, FROZEN: 5.0}  # least ratio of ONNX Runtime's time to edgefl's
JUDGED = "onnxruntime"
LEARNING_STEPS = 20 * BATCHES
FALL = 0.97  # largest ratio of the last round's mean loss to the first round's, as p = .2 learns slowly
ROUNDING = 1e-3  # relative difference that the losses of a round may have between trainers


@dataclass(frozen=True)
class Result:
    """The result of a trainer. Losses are means over a round of batches: the first, and the last before the timing."""

    trainer: str
    version: str
    step: Timing
    resident_bytes: int
    first_loss: float
    last_loss: float


def compare(trainers: Sequence[Trainer], effort: Effort) -> list[Result]:
    """Check that all train, then time them in turns. The results are in the given order, with edgefl at p = 1 first.

    Raises RuntimeError if one does not learn, or if its first losses are not edgefl's.
    """
    losses = {each.name: [each.train(1) for _ in range(LEARNING_STEPS)] for each in trainers}
    for name, found in losses.items():
        check_fall(name, found)
        check_start(name, found, losses[OWN])
    timings = interleave({each.name: _contender(each) for each in trainers}, effort, lambda: _spent_s(trainers))
    return [_result(each, timings[each.name], losses[each.name]) for each in trainers]


def check_fall(name: str, losses: Sequence[float]) -> None:
    """Raise RuntimeError if the last round's mean is not well below the first round's."""
    first, last = _mean(losses[:BATCHES]), _mean(losses[-BATCHES:])
    if not last < FALL * first:
        raise RuntimeError(
            f"{name} does not learn: loss {last:.4f} after {first:.4f}; expected below {FALL * first:.4f}"
        )


def check_start(name: str, losses: Sequence[float], own: Sequence[float]) -> None:
    """Check that equal weights give equal losses, of the first step where neurons are frozen, else of a round.

    Raises RuntimeError if they do not.
    """
    for step in range(1 if name == FROZEN else BATCHES):
        if not abs(losses[step] - own[step]) <= ROUNDING * own[step]:
            raise RuntimeError(f"{name}: loss {losses[step]:.6f} in step {step + 1}; expected edgefl's {own[step]:.6f}")


def judged(results: Sequence[Result]) -> dict[str, tuple[float, float]]:
    """Return for each share p the ratio of ONNX Runtime's time to edgefl's, and its bar, or {} without ONNX Runtime."""
    medians = {each.trainer: each.step.median_s for each in results}
    if JUDGED not in medians:
        return {}
    return {own: (medians[JUDGED] / medians[own], bar) for own, bar in BARS.items()}


def as_dict(result: Result) -> dict[str, object]:
    return asdict(result)


def _contender(trainer: Trainer) -> Contender:
    return trainer.train


def _spent_s(trainers: Sequence[Trainer]) -> float:
    """Return the processor time of all trainers. Only one of them runs at a time."""
    return sum(each.cpu_s for each in trainers)


def _result(trainer: Trainer, timing: Timing, losses: Sequence[float]) -> Result:
    first, last = _mean(losses[:BATCHES]), _mean(losses[-BATCHES:])
    return Result(trainer.name, trainer.version, timing, trainer.resident_bytes, first, last)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
