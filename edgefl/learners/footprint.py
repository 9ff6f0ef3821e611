"""What a training step will take in memory, from its plan: nothing is allocated or run. Exact for everything listed.

Not counted: the kernels' packing scratch (GraphLearner.memory reports it), the data set and the Python process itself.
"""

from __future__ import annotations

import math

from edgefl.graph import Graph
from edgefl.learners.arena import aligned
from edgefl.learners.base import Delta
from edgefl.learners.lowering import lower
from edgefl.learners.updates import Terms
from edgefl.selection import NeuronSet
from edgefl.spec import ModelSpec


def plan_bytes(
    graph: Graph,
    batch: int,
    neurons: NeuronSet | None = None,
    *,
    delta: Delta = "exact",
    terms: Terms | None = None,
    float_bytes: int = 4,
) -> dict[str, int]:
    """Bytes of a training step: params, arena (activations, saved values, gradients), states (velocities), indices.

    batch    examples per step
    neurons  trained neurons; None: all
    """
    spec = ModelSpec.of(graph)
    plan = lower(graph, spec, batch, neurons, delta=delta, terms=terms, float_bytes=float_bytes)
    return {
        "params": sum(aligned(math.prod(param.shape) * float_bytes) for param in spec.params.values()),
        "arena": plan.arena_bytes,
        "states": plan.state_bytes(float_bytes),
        "indices": plan.index_bytes(),
    }
