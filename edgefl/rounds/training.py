"""A client's training in a round, and what it took: time, and floating point operations. The same wherever it happens.

Operations are metrics of its reply, by these names. What is executed depends on the instruction set, so no method
reads it, and neither a state nor a replay has it: reports are made of it, and where devices are modelled, their time
(virtual/clock.py), which decides who is late there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from edgefl.algorithms.base import Algorithm, Local, Plan, Reply
from edgefl.graph import Graph

NOMINAL, EXECUTED, SEARCH = "nominal_flops", "executed_flops", "search_flops"


def trained(
    algorithm: Algorithm, graph: Graph, local: Local, plan: Plan, clock: Callable[[], float]
) -> tuple[Reply, float]:
    """What comes of a plan, and the seconds of it.

    nominal_flops   as papers count a round of the method (Algorithm.flops); left out where nobody says that
    executed_flops  of the products that the learner ran to train; search_flops: to move a mask, if it did
    """
    before, started = local.learner.work(), clock()
    reply = algorithm.train(local, plan)
    seconds, after = clock() - started, local.learner.work()
    found = {EXECUTED: float(after.training - before.training)}
    if after.search > before.search:
        found[SEARCH] = float(after.search - before.search)
    nominal = algorithm.flops(graph, len(local.train)) if reply.steps else None
    if nominal is not None:
        found[NOMINAL] = float(nominal)
    return replace(reply, metrics={**reply.metrics, **found}), seconds
