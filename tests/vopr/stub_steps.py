"""Steps without arithmetic, in place of a learner's own. They take less time than real steps, and forget nothing.

The result is drawn from a digest of all that real steps would depend on: the parameters, the samples in the order of
the batches, the optimizer and the options. So one wrong bit anywhere gives other parameters, as in real training. The
result is not a better model: half of each trained parameter stays, and the rest is drawn.
"""

from __future__ import annotations

import hashlib

import numpy as np

from edgefl.learning.batches import keyed, runs
from edgefl.learning.fit_options import FitOptions
from edgefl.learning.learner import Array, Batches, FitResult, Samples
from edgefl.learning.optimizers import Optimizer
from edgefl.learning.running.workspace import Workspace
from edgefl.models.graph import Graph
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.trainable_parameters import TrainableParameters
from edgefl.models.neurons.trainable_slice import WHOLE

STEPS_AT_ONCE = 256  # batches that are asked for together
HALF, WORD = np.float32(0.5), np.float32(2**16)


class StubSteps:
    """This has the interface of TrainingSteps, by which a learner takes its steps."""

    def __init__(self, graph: Graph, spec: ModelSpec, workspace: Workspace) -> None:
        self._spec, self._store = spec, workspace.store
        self._names = sorted(spec.params)

    def fit(self, samples: Samples, batches: Batches, optimizer: Optimizer, options: FitOptions) -> FitResult:
        """Move the parameters that the options select. The loss is drawn from (0, 1]."""
        trainable = TrainableParameters.of(self._spec, options.trainable)
        rows = [row for run in runs(batches, STEPS_AT_ONCE) for row in run]
        examples = sum(map(len, rows))
        everything = np.concatenate(rows)
        said = (optimizer, options.delta, options.bn_frozen, keyed(batches), list(map(len, rows)), samples.scale)
        found = hashlib.shake_128(repr(said).encode() + trainable.content)
        found.update(samples.x[everything].tobytes() + samples.y[everything].tobytes())
        mu, centre = options.pull or (0.0, {})
        found.update(repr(mu).encode())
        for arrays in (self._store.weights, centre, options.linear or {}):
            for name in self._names if arrays else ():
                found.update(arrays[name].tobytes())
        self._move(trainable, found)
        loss = (1 + int.from_bytes(found.digest(4), "little")) / 2**32
        return FitResult(loss * examples, examples, len(rows))

    def _move(self, trainable: TrainableParameters, key: hashlib._Hash) -> None:
        """Draw the trained parameters from a digest."""
        weights, begin = self._store.weights, 0
        drawn = _uniform(key, sum(weights[name].size for name in self._names))
        for name, part in trainable.blocks(self._spec).items():
            whole = weights.read(name)
            begin, new = begin + whole.size, whole * HALF + drawn[begin : begin + whole.size].reshape(whole.shape)
            if part != WHOLE:
                at, found = part.flat(whole.shape), new.reshape(-1)
                new = whole.copy()
                new.reshape(-1)[at] = found[at]
            weights.set(name, new)
            self._store.clear(name)


def _uniform(key: hashlib._Hash, size: int) -> Array:
    """Return float32 numbers from -0.5 up to but not including 0.5, drawn from a digest."""
    words = np.frombuffer(key.digest(2 * size), "<u2").astype(np.float32)
    return words / WORD - HALF
