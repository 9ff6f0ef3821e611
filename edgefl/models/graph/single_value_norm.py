"""The search for a batch normalisation over single values: one that sees one value per channel in a sample.

The variance of one value is 0, so a training step over such a layer needs a batch of at least two samples.
learning/running/batch_minimum.py says what a learner does with batches of one sample.
"""

from __future__ import annotations

import math
from functools import lru_cache

from edgefl.models.graph.graph import Graph
from edgefl.models.graph.operations import BatchNorm1d, BatchNorm2d

LEAST_BATCH = 2  # samples in a training step of a graph that normalises over single values


@lru_cache(maxsize=64)
def single_value_norm(graph: Graph) -> str:
    """Return the name of the first batch normalisation that sees one value per channel in a sample, or ""."""
    for node in graph.nodes:
        is_batch_norm = isinstance(node.op, BatchNorm1d | BatchNorm2d)
        if is_batch_norm and math.prod(graph.shapes[node.name][1:]) == 1:
            return node.name
    return ""
