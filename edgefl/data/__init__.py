"""Data sets: readers of the official file formats, found on this machine or downloaded and checked."""

from edgefl.data.catalog import NAMES, load
from edgefl.data.dataset import DataSet

__all__ = ["NAMES", "DataSet", "load"]
