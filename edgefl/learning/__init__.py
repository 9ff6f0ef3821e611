"""Learners: models on a device, and what a method may ask of them. learner.py holds the contract."""

from edgefl.learning.fit_options import FitOptions
from edgefl.learning.learner import Evaluation, FitResult, Learner, Samples
from edgefl.learning.optimizers import SGD, Adam, AdamW
from edgefl.learning.running.graph_learner import GraphLearner

__all__ = ["SGD", "Adam", "AdamW", "Evaluation", "FitOptions", "FitResult", "GraphLearner", "Learner", "Samples"]
