"""python -m bench.builds_worker MODEL SHARE: training steps of one build, a turn for each line that it reads.

It answers a line with the CPU seconds of a step. The folder in which it is started decides which build it is.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import edgefl
from bench.native_steps import steps
from bench.runner import Clock, Contender, clock_for, filling
from edgefl.learning import SGD, GraphLearner, Samples
from edgefl.models.graph import Model
from edgefl.models.graph.architectures import EXAMPLES, build
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.rng import INIT, NEURONS, stream

BATCH = 16
POOL = 4  # batches of distinct examples
SEED = 1
TURN_S = 0.04


def main() -> None:
    if Path(edgefl.__file__).resolve().parent.parent != Path.cwd().resolve():
        raise SystemExit(f"edgefl came from {edgefl.__file__}; expected it in {Path.cwd()}")
    run, clock = contender(sys.argv[1], float(sys.argv[2])), clock_for(1)
    repeats = filling(run, TURN_S, clock)
    for _ in sys.stdin:
        print(turn(run, repeats, clock), flush=True)


def turn(run: Contender, repeats: int, clock: Clock) -> float:
    """Return the CPU seconds of a step."""
    begin = clock()
    run(repeats)
    return (clock() - begin) / repeats


def contender(name: str, keep: float) -> Contender:
    """Return steps of the model `name` with a share `keep` of its neurons trained."""
    shape, classes = EXAMPLES[name]
    graph = build(name, shape, classes)
    values = np.random.default_rng(SEED)
    x = values.integers(0, 256, (POOL * BATCH, *shape), np.uint8)
    samples = Samples(x, values.integers(0, classes, len(x), np.int32), scale=2 / 255, shift=-1.0)
    batches = np.split(values.permutation(len(x)).astype(np.int32), POOL)
    neurons = None if keep == 1 else NeuronSet.draw(ModelSpec.of(graph), keep, stream(SEED, NEURONS))
    learner = GraphLearner(Model(graph, graph.init(stream(SEED, INIT))), backend="native")
    return steps(learner, samples, batches, SGD(lr=0.01), neurons)


if __name__ == "__main__":
    main()
