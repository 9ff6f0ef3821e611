"""Learners: models on a device, and what a method may ask of them. learner.py holds the contract.

GraphLearner is imported when it is first asked for. A device that waits for its run has then no training engine in
memory: the engine takes some 2 MB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgefl import _lazily
from edgefl.learning.fit_options import FitOptions
from edgefl.learning.learner import Evaluation, FitResult, Learner, Samples
from edgefl.learning.optimizers import SGD, Adam, AdamW
from edgefl.learning.packed_inputs import pack_inputs

if TYPE_CHECKING:
    from edgefl.learning.running.graph_learner import GraphLearner

EXPORTS = {"GraphLearner": "edgefl.learning.running.graph_learner"}  # public name -> the module that defines it


if not TYPE_CHECKING:
    __getattr__ = _lazily(__name__, EXPORTS)


__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "Evaluation",
    "FitOptions",
    "FitResult",
    "GraphLearner",
    "Learner",
    "Samples",
    "pack_inputs",
]
