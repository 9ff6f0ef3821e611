"""edgefl's steps as a device runs them: examples are gathered and scaled by index, gradients are exact, SGD is in
place.
"""

from __future__ import annotations

import numpy as np

import edgefl
from bench.arm.workload import LEARNING_RATE, SCALE, SEED, SHIFT, Work
from bench.native_steps import steps as native_steps
from bench.runner import Contender
from edgefl.learning import SGD, GraphLearner, Samples
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.rng import NEURONS, stream


def steps(work: Work) -> tuple[str, Contender]:
    """Return the version, and steps on the batch."""
    spec = ModelSpec.of(work.model.graph)
    neurons = None if work.keep == 1 else NeuronSet.draw(spec, work.keep, stream(SEED, NEURONS))
    samples = Samples(work.x, work.y, scale=SCALE, shift=SHIFT)
    order = np.arange(len(samples), dtype=np.int32)
    learner = GraphLearner(work.model, backend="native")
    return edgefl.__version__, native_steps(learner, samples, [order], SGD(LEARNING_RATE), neurons)
