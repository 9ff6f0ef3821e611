"""The time of a training step on this machine, measured: a clock around a learner's `fit`. Not its memory."""

from __future__ import annotations

import statistics
import time
from typing import NamedTuple

import numpy as np

from edgefl import kernels
from edgefl.learning import SGD, GraphLearner, Samples
from edgefl.learning.batches import Keyed, Listed
from edgefl.learning.fit_options import FitOptions
from edgefl.learning.losses import Loss, Targets
from edgefl.learning.memory import TrainingConfiguration
from edgefl.models.graph import Model

BUDGET_S = 0.3  # for one way of training
STEPS, FEWEST = 4, 3  # in one call, and calls however long they take
LR = 1e-6  # the numbers stay what they are; the time does not depend on it


class StepTime(NamedTuple):
    """The median of `calls` measurements of a step, in seconds, and the kernels that took it."""

    seconds: float
    calls: int
    where: str


def time_step(model: Model, training: TrainingConfiguration) -> StepTime:
    """The time of one step of `training` on random inputs, after one call that makes ready."""
    learner, graph, batch = GraphLearner(model), model.graph, training.batch
    draw = np.random.default_rng(1)
    x = draw.standard_normal((batch, *graph.input_shape), np.float32)
    if graph.vocabulary is not None:
        x = draw.integers(0, graph.vocabulary, x.shape).astype(np.float32)
    samples = Samples(x, _targets(training.loss, draw, batch, graph.output_shape[0]), loss=training.loss)
    batches = Listed([np.arange(batch, dtype=np.int32)] * STEPS, Keyed(1))
    found: list[float] = []
    began = time.perf_counter()
    while len(found) <= FEWEST or time.perf_counter() - began < BUDGET_S:
        before = time.perf_counter()
        learner.fit(samples, batches, SGD(LR), FitOptions(training.neurons))
        found.append((time.perf_counter() - before) / STEPS)
    return StepTime(statistics.median(found[1:]), len(found) - 1, _where())


def _targets(loss: Loss, draw: np.random.Generator, batch: int, outputs: int) -> Targets:
    """Random ones that fit the loss."""
    if loss.has_labels:
        return draw.integers(0, outputs, batch).astype(np.int32)
    return draw.integers(0, 2, (batch, outputs)).astype(np.float32)


def _where() -> str:
    """Backend, instruction set and threads."""
    ops = kernels.backend()
    name = kernels.name_of(ops)
    if not hasattr(ops, "threads"):
        return name
    threads = ops.threads()
    return f"{name} {ops.isa()}, {threads} {'thread' if threads == 1 else 'threads'}"
