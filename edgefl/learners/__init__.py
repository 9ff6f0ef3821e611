"""Learners: models on a device, and what a method may ask of them. base.py holds the contract."""

from edgefl.learners.base import SGD, Evaluation, FitResult, Learner, Samples
from edgefl.learners.running.graph_learner import GraphLearner

__all__ = ["SGD", "Evaluation", "FitResult", "GraphLearner", "Learner", "Samples"]
