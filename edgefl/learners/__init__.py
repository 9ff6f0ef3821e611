"""Learners: models on a device, and what a method may ask of them. base.py holds the contract."""

from edgefl.learners.base import Evaluation, FitResult, Learner, Samples
from edgefl.learners.optimizers import SGD, Adam, AdamW
from edgefl.learners.running.graph_learner import GraphLearner

__all__ = ["SGD", "Adam", "AdamW", "Evaluation", "FitResult", "GraphLearner", "Learner", "Samples"]
