"""The measured time of training steps on this machine: a clock around a learner's `fit`. Memory is measured elsewhere.

The ways of training take turns in one process, so that a busy machine slows all ways alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from edgefl import kernels
from edgefl.learning import SGD, GraphLearner, Samples
from edgefl.learning.batches import Keyed, Listed
from edgefl.learning.fit_options import FitOptions
from edgefl.learning.losses import Loss, Targets
from edgefl.learning.memory import TrainingConfiguration
from edgefl.models.graph import Model
from edgefl.models.graph.input_ids import with_ids

BUDGET_S = 0.3  # time in seconds for one way of training
STEPS, FEWEST = 4, 3  # number of steps in one call, and smallest number of calls
LR = 1e-6  # learning rate so small that the values stay what they are, and the time does not depend on it


class StepTime(NamedTuple):
    """The median of `calls` measurements of a step and their quartiles, in seconds, and the kernels that trained."""

    seconds: float
    calls: int
    where: str
    quartiles: tuple[float, float] = (0.0, 0.0)


def time_step(model: Model, training: TrainingConfiguration) -> StepTime:
    """Return the time of one step of `training` on random inputs, after one call as a warm-up."""
    return time_steps(model, [training])[0]


def time_steps(model: Model, trainings: Sequence[TrainingConfiguration]) -> list[StepTime]:
    """Return the time of one step of each way of training on random inputs. The ways take turns after a warm-up call
    each.
    """
    calls = [_call(model, training) for training in trainings]
    found: list[list[float]] = [[] for _ in calls]
    began = time.perf_counter()
    while len(found[0]) <= FEWEST or time.perf_counter() - began < BUDGET_S * len(calls):
        for call, seconds in zip(calls, found, strict=True):
            before = time.perf_counter()
            call()
            seconds.append((time.perf_counter() - before) / STEPS)
    return [_summary(seconds[1:]) for seconds in found]


def _summary(seconds: list[float]) -> StepTime:
    low, middle, high = np.quantile(seconds, (0.25, 0.5, 0.75)).tolist()
    return StepTime(middle, len(seconds), _where(), (low, high))


def _call(model: Model, training: TrainingConfiguration) -> Callable[[], object]:
    """Return a function that trains STEPS steps on random inputs."""
    learner, graph, batch = GraphLearner(model), model.graph, training.batch
    draw = np.random.default_rng(1)
    x = draw.standard_normal((batch, *graph.input_shape), np.float32)
    x = with_ids(graph, x)
    samples = Samples(x, _targets(training.loss, draw, batch, graph.output_shape), loss=training.loss)
    batches = Listed([np.arange(batch, dtype=np.int32)] * STEPS, Keyed(1))
    options = FitOptions(training.neurons)
    return lambda: learner.fit(samples, batches, SGD(LR), options)


def _targets(loss: Loss, draw: np.random.Generator, batch: int, output: tuple[int, ...]) -> Targets:
    """Return random targets that fit the loss."""
    if loss.has_labels:
        classes, places = loss.split(output)
        return draw.integers(0, classes, (batch, *(places if prod(places) > 1 else ()))).astype(np.int32)
    return draw.integers(0, 2, (batch, *output)).astype(np.float32)


def _where() -> str:
    """Return backend, instruction set and threads as text."""
    ops = kernels.backend()
    name = kernels.name_of(ops)
    if not hasattr(ops, "threads"):
        return name
    threads = ops.threads()
    return f"{name} {ops.isa()}, {threads} {'thread' if threads == 1 else 'threads'}"
