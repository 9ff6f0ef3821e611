"""The check of columns' units: a column is refused if a batch norm could not keep its statistics of the column.

The server lets a norm's running statistics move by at most 1e12 in a round (rounds/change_bound.py). With a column of
standard deviation 3e6 it would therefore refuse all replies.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgefl.errors import DataError
from edgefl.experiment.data.dataset import Array
from edgefl.experiment.data.scales import moments
from edgefl.learning import Samples
from edgefl.methods.rounds.change_bound import LARGEST
from edgefl.models.graph import Graph
from edgefl.models.graph.graph import INPUT
from edgefl.models.graph.operations import BatchNorm

SLACK = 2.0  # factor by which LARGEST may be exceeded, as few steps move statistics only a part of the way
REMEDY = "give --standardise (standardise=True in Python)"


def is_normalised(graph: Graph) -> bool:
    """Return whether the inputs go into a batch norm."""
    return any(INPUT in node.inputs and isinstance(node.op, BatchNorm) for node in graph.nodes)


def constant_in_clients(x: Array, clients: Sequence[Array]) -> list[int]:
    """The columns that have one value within each client, and not the same value in all clients. A batch norm sees no
    spread in such a column, whichever client trains, so a model of all clients takes it for enormous where it differs.

    x        float32 [N, F]
    clients  for each client, the indices of its training samples
    """
    first = x[[rows[0] for rows in clients if len(rows)]]
    is_open = (first != first[0]).any(0)
    for value, rows in zip(first, [rows for rows in clients if len(rows)], strict=True):
        if not is_open.any():
            break
        is_open &= (x[rows] == value).all(0)
    return [int(each) for each in np.flatnonzero(is_open)]


def check_columns(samples: Samples, names: Sequence[str] | None = None) -> None:
    """Raise DataError naming the widest column if a batch norm of these inputs could not keep its statistics.

    names  the names of the columns. None: the columns have no names
    """
    if samples.x.ndim != 2 or samples.x.dtype != np.float32 or not len(samples.x):
        return
    if max(float(samples.x.max()), -float(samples.x.min())) * abs(samples.scale) + abs(samples.shift) < LARGEST**0.5:
        return  # a quick test that needs little memory, for devices
    mean, spread = moments(samples.x)
    means, spreads = np.abs(np.array(mean) * samples.scale + samples.shift), np.array(spread) * abs(samples.scale)
    lengths = {"spread": float(np.sqrt(np.mean(spreads**4))), "mean": float(np.sqrt(np.mean(means**2)))}
    for name, sizes in (("spread", spreads), ("mean", means)):
        if lengths[name] > SLACK * LARGEST:
            at = int(np.argmax(sizes))
            factor, called = 10.0 ** np.floor(np.log10(sizes[at])), "" if names is None else f" ({names[at]})"
            raise DataError(
                f"column {at}{called} of x has {name} {sizes[at]:.3g}, and so no round of a model with batch norm "
                f"would be accepted; expected at most 1e6: divide the column by {factor:.0e}, or {REMEDY}"
            )
