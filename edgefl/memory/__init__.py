"""Memory of training, as labelled accounts: arithmetic on graphs and schedules. Only measure.py asks a process."""

from edgefl.memory.accounts import ACCOUNTS, estimate
from edgefl.memory.fit import Choice, best, fit
from edgefl.memory.footprint import Footprint
from edgefl.memory.training import METHODS, Method, Training

__all__ = ["ACCOUNTS", "METHODS", "Choice", "Footprint", "Method", "Training", "best", "estimate", "fit"]
