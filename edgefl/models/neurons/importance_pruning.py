"""The change of a mask by importance: the coordinates that lower the loss most for the time that they take.

The importance of a coordinate is the mean square of its gradient. Methods measure it and decide when a mask changes.

Source  PruneFL (Jiang et al., IEEE TNNLS 2022), section IV, Alg. 2
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgefl.models.graph import Graph
from edgefl.models.neurons.mask import Bits
from edgefl.models.neurons.prune_and_grow import prune_count
from edgefl.models.neurons.top_k import magnitudes, smallest
from edgefl.models.neurons.update import Array

Vector = NDArray[np.float64]


class PruningRule(NamedTuple):
    """The rule of a change.

    rate   share of the mask that may leave: the smallest |value| of all parameters together
    ones   number of coordinates of the new mask, or None: as many as raise the importance for each unit of time
    fixed  time that no coordinate takes, where all coordinates together take 1
    """

    rate: float
    ones: int | None
    fixed: float


def reconfigured(
    values: Mapping[str, Array], bits: Mapping[str, Bits], importance: Mapping[str, Array], times: Mapping[str, float],
    rule: PruningRule,
) -> dict[str, Bits]:  # fmt: skip
    """Return the next mask: what may not leave, and the best of all other coordinates by importance over time.

    values      whole parameters. Equal magnitudes leave in the order of their positions
    bits        the present mask
    importance  mean square of the gradient of every coordinate, inside and outside of the mask
    times       time that one coordinate of each parameter takes
    """
    inside = np.concatenate([each.reshape(-1) for each in bits.values()])
    positions = np.flatnonzero(inside)
    sizes = magnitudes(np.concatenate([values[name].reshape(-1) for name in bits])[positions])
    kept = inside.copy()
    kept[positions[smallest(sizes, prune_count(rule.rate, len(positions)))]] = False
    gain = np.concatenate([importance[name].reshape(-1).astype(np.float64) for name in bits])
    time = np.concatenate([np.full(each.size, times[name]) for name, each in bits.items()])
    others = np.flatnonzero(~kept)
    order = others[np.argsort(-gain[others] / time[others], kind="stable")]
    start = float(gain[kept].sum()), rule.fixed + float(time[kept].sum())
    more = _worthwhile(gain[order], time[order], start) if rule.ones is None else rule.ones - int(kept.sum())
    kept[order[: max(0, more)]] = True
    cuts = np.cumsum([each.size for each in bits.values()])[:-1]
    parts = zip(bits.items(), np.split(kept, cuts), strict=True)
    return {name: part.reshape(each.shape) for (name, each), part in parts}


def _worthwhile(gain: Vector, time: Vector, start: tuple[float, float]) -> int:
    """Return how many coordinates, in this order, enter one after another until one does not raise gain / time.

    start  gain and time of the coordinates that may not leave
    """
    gains, times = start[0] + np.cumsum(gain) - gain, start[1] + np.cumsum(time) - time
    falls = gain * times < gains * time
    return int(np.argmax(falls)) if falls.any() else len(gain)


def shares_of_time(graph: Graph | None, bits: Mapping[str, Bits]) -> dict[str, float]:
    """Return by parameter the share of a step's multiply-adds that one coordinate takes. Without a graph all
    coordinates take the same share.
    """
    macs = dict.fromkeys(bits, 0.0)
    for node, shape in () if graph is None else [(node, graph.shapes[node.name]) for node in graph.nodes]:
        for weight, count in node.op.macs_by_weight(shape).items():
            if (name := node.full_name(weight)) in macs:
                macs[name] += count
    each = {name: count / bits[name].size or 1.0 for name, count in macs.items()}  # an Embedding multiplies nothing
    total = sum(one * bits[name].size for name, one in each.items())
    return {name: one / total for name, one in each.items()}
