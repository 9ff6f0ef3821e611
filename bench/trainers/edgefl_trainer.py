"""edgefl's process: python -m bench.trainers.edgefl_trainer FOLDER KEEP. A step gathers and scales its batch, too."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import edgefl
from bench.trainers import task, turns
from edgefl.learning import SGD, FitOptions, GraphLearner, Samples
from edgefl.models.graph import Model
from edgefl.models.graph.architectures import build
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.rng import NEURONS, stream


def main(folder: Path, keep: float) -> None:
    turns.pin()
    given = task.read(folder)
    graph = build("lenet5", task.SHAPE, task.CLASSES)
    neurons = None if keep == 1 else NeuronSet.draw(ModelSpec.of(graph), keep, stream(task.SEED, NEURONS))
    learner = GraphLearner(Model(graph, given.weights), backend="native")
    samples = Samples(given.x, given.y, scale=task.SCALE, shift=task.SHIFT)
    rows = np.split(np.arange(len(samples), dtype=np.int32), task.BATCHES)

    def train(batches: list[int]) -> float:
        picked = [rows[batch % task.BATCHES] for batch in batches]
        return learner.fit(samples, picked, SGD(task.LEARNING_RATE), FitOptions(neurons)).loss_sum / (
            task.BATCH * len(picked)
        )

    turns.serve(edgefl.__version__, train)


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
