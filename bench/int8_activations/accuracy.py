"""The accuracy of a trained model on data that it has not seen: in float32, with int8 weights, and with int8
activations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.int8 import Case, inputs, parted, trained
from bench.int8_activations.learners import ACTIVATIONS, FLOAT32, WEIGHTS, learners
from edgefl.experiment.data.catalog import load


@dataclass(frozen=True)
class Accuracy:
    """Shares of the test images that are right, and shares whose label is that of float32."""

    data: str
    model: str
    images: int
    float32: float
    weights: float
    activations: float
    weights_same: float
    activations_same: float
    largest_change: float  # of a logit by the rounding of activations, over the largest logit


def measure(case: Case, data_dir: str | None = None) -> Accuracy:
    """Train the model of a case, and let the three ways label the test images."""
    data = parted(load(case.data, data_dir))
    assert data.x_test is not None
    x, y = inputs(data, data.x_test), data.y_test
    logits = {way: learner.predict(x) for way, learner in learners(trained(case, data)).items()}
    labels = {way: found.argmax(1) for way, found in logits.items()}
    right = [float((labels[way] == y).mean()) for way in (FLOAT32, WEIGHTS, ACTIVATIONS)]
    same = [float((labels[way] == labels[FLOAT32]).mean()) for way in (WEIGHTS, ACTIVATIONS)]
    change = float(np.abs(logits[ACTIVATIONS] - logits[WEIGHTS]).max() / np.abs(logits[WEIGHTS]).max())
    return Accuracy(case.data, case.model, len(x), *right, *same, change)
