"""The check of columns' units: a batch norm must be able to keep its statistics of a column, or the column
is refused.

A norm's running statistics may move by 1e12 in a round and no more (rounds/change_bound.py): so a column of spread 3e6
has all replies refused.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgefl.errors import DataError
from edgefl.experiment.data.scales import moments
from edgefl.learning import Samples
from edgefl.methods.rounds.change_bound import LARGEST
from edgefl.models.graph import Graph
from edgefl.models.graph.graph import INPUT
from edgefl.models.graph.operations import BatchNorm

SLACK = 2.0  # of LARGEST: a few steps move statistics a part of the way
REMEDY = "give --standardise (standardise=True in Python)"


def is_normalised(graph: Graph) -> bool:
    """Whether the inputs go into a batch norm."""
    return any(INPUT in node.inputs and isinstance(node.op, BatchNorm) for node in graph.nodes)


def check_columns(samples: Samples, names: Sequence[str] | None = None) -> None:
    """Raises DataError naming the widest column if a batch norm of these inputs could not keep its statistics.

    names  what the columns are called; None: they have no names
    """
    if samples.x.ndim != 2 or samples.x.dtype != np.float32 or not len(samples.x):
        return
    if max(float(samples.x.max()), -float(samples.x.min())) * abs(samples.scale) + abs(samples.shift) < LARGEST**0.5:
        return  # in little memory, for devices
    mean, spread = moments(samples.x)
    means, spreads = np.abs(np.array(mean) * samples.scale + samples.shift), np.array(spread) * abs(samples.scale)
    lengths = {"spread": float(np.sqrt(np.mean(spreads**4))), "mean": float(np.sqrt(np.mean(means**2)))}
    for name, sizes in (("spread", spreads), ("mean", means)):
        if lengths[name] > SLACK * LARGEST:
            at = int(np.argmax(sizes))
            factor, called = 10.0 ** np.floor(np.log10(sizes[at])), "" if names is None else f" ({names[at]})"
            raise DataError(
                f"column {at}{called} of x has {name} {sizes[at]:.3g}, with which no round of a model with batch norm "
                f"is accepted; expected at most 1e6: divide the column by {factor:.0e}, or {REMEDY}"
            )
