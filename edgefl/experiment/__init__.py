"""The contents of an experiment: its settings, its data, and the federation of clients that follow from them.

data            readers of data files, data sets by name, and partitions among clients
device_models   clients as modelled devices: speed, link, energy, hours, and a clock that counts

The rounds are run elsewhere: study/simulation without a network, server and deployment over sockets.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgefl.experiment.data.dataset import DataSet
    from edgefl.experiment.settings import Experiment

EXPORTS = {  # public name -> the module that defines it, which is read when the name is first asked for
    "DataSet": "edgefl.experiment.data.dataset",
    "Experiment": "edgefl.experiment.settings",
}


def __getattr__(name: str) -> Any:
    if name not in EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(EXPORTS[name]), name)


__all__ = ["DataSet", "Experiment"]
