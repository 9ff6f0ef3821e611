"""The memory of training, as labelled accounts, by arithmetic on graphs and schedules. Only memory_meter.py measures a
process.
"""

from edgefl.learning.memory.accounts import ACCOUNTS, estimate
from edgefl.learning.memory.fit import BatchSizeFit, best, fit
from edgefl.learning.memory.footprint import Footprint
from edgefl.learning.memory.training_setup import METHODS, Method, TrainingConfiguration

__all__ = [
    "ACCOUNTS",
    "METHODS",
    "BatchSizeFit",
    "Footprint",
    "Method",
    "TrainingConfiguration",
    "best",
    "estimate",
    "fit",
]
