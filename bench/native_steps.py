"""Training steps of a learner as its fit makes them, without what a fit does once before its first step.

A fit first makes checks, ids and states. They take .2 to 1 ms in small models, and 4 ms and more in VGG11 (CPU time,
measured). This is a few per cent of a round, and as much as the step itself where a turn is a step long.
"""

from __future__ import annotations

import numpy as np

from bench.runner import Contender
from edgefl.learning import SGD, FitOptions, GraphLearner, Samples
from edgefl.learning.fit_options import Trainable
from edgefl.learning.learner import Batches


def steps(learner: GraphLearner, samples: Samples, batches: Batches, sgd: SGD, trained: Trainable = None) -> Contender:
    """Return a contender whose repetitions are steps over these batches, all of one size, in turn. It makes the first
    fit.
    """
    rows = np.stack(batches)
    learner.fit(samples, batches, sgd, FitOptions(trained))
    (session,) = learner._workspace.sessions.values()
    (bound,) = session.programs.values()

    def run(repeats: int) -> None:
        bound.program.run_batches(bound.index, rows[np.arange(repeats) % len(rows)])

    return run
