"""The contents of an experiment: its settings, its data, and the federation of clients that follow from them.

data            readers of data files, data sets by name, and partitions among clients
device_models   clients as modelled devices: speed, link, energy, hours, and a clock that counts

The rounds are run elsewhere: study/simulation without a network, server and deployment over sockets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgefl import _lazily

if TYPE_CHECKING:
    from edgefl.experiment.data.dataset import DataSet
    from edgefl.experiment.settings import Experiment

EXPORTS = {  # public name -> the module that defines it, which is read when the name is first asked for
    "DataSet": "edgefl.experiment.data.dataset",
    "Experiment": "edgefl.experiment.settings",
}


if not TYPE_CHECKING:
    __getattr__ = _lazily(__name__, EXPORTS)


__all__ = ["DataSet", "Experiment"]
