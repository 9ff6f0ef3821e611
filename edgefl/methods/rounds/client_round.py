"""A client's training in a round, and what it took: time, floating point operations, and joules where the machine tells
them. The same wherever it happens.

Operations and joules are metrics of its reply, by these names. What is executed depends on the machine, so no method
reads it, and neither a state nor a replay has it: reports are made of it, and where devices are modelled, their time
(device_models/simulated_clock.py), which decides who is late there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from edgefl.learning.energy.meter import EnergyMeter, unmeasured
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.client_state import ClientState
from edgefl.methods.plan import Plan, Reply
from edgefl.models.graph import Graph

NOMINAL, EXECUTED, SEARCH = "nominal_flops", "executed_flops", "search_flops"
JOULES = "joules_"  # and the kind of source that told them: what it covers differs


def trained(
    algorithm: Algorithm,
    graph: Graph,
    client_state: ClientState,
    plan: Plan,
    clock: Callable[[], float],
    meter: Callable[[], EnergyMeter] = unmeasured,
) -> tuple[Reply, float]:
    """The result of a plan, and the seconds that it took.

    nominal_flops   as papers count a round of the method (Algorithm.flops); left out where nobody says that
    executed_flops  of the products that the learner ran to train; search_flops: to move a mask, if it did
    joules_KIND     that the whole machine took meanwhile, by that kind of source (learning/energy); left out where no
                    source tells it. A machine that trains several clients at once gives no meter, because it cannot
                    tell the joules of one client
    """
    before = client_state.learner.work()
    with meter() as spent:
        started = clock()
        reply = algorithm.train(client_state, plan)
        seconds = clock() - started
    after = client_state.learner.work()
    found = {EXECUTED: float(after.training - before.training)}
    if after.search > before.search:
        found[SEARCH] = float(after.search - before.search)
    nominal = algorithm.flops(graph, len(client_state.train)) if reply.steps else None
    if nominal is not None:
        found[NOMINAL] = float(nominal)
    if spent.joules is not None:
        found[f"{JOULES}{spent.kind}"] = spent.joules
    return replace(reply, metrics={**reply.metrics, **found}), seconds
