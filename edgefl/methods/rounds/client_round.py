"""A client's training in a round, with its time, its floating point operations, and joules where the machine reports
them.

It does not depend on where the client runs. Operations and joules are metrics of the client's reply, by the names
below. What is executed depends on the machine. So no method reads it, and it is neither in a state nor in a replay. It
serves reports. Where devices are modelled, it also gives their time (device_models/simulated_clock.py), which decides
who is late.
"""

from __future__ import annotations

from collections.abc import Callable

from edgefl.learning.energy.meter import EnergyMeter, unmeasured
from edgefl.methods import early_stopping
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.client_state import ClientState
from edgefl.methods.plan import Plan, Reply, measured
from edgefl.models.graph import Graph

NOMINAL, EXECUTED, SEARCH = "nominal_flops", "executed_flops", "search_flops"
JOULES = "joules_"  # the kind of the source follows, because kinds cover different parts of a machine


def trained(
    algorithm: Algorithm,
    graph: Graph,
    client_state: ClientState,
    plan: Plan,
    clock: Callable[[], float],
    meter: Callable[[], EnergyMeter] = unmeasured,
) -> tuple[Reply, float]:
    """Train a client by a plan, and return its reply and the seconds that the training took.

    nominal_flops   operations of a round as papers count them (Algorithm.flops). Left out where the method does not say
    executed_flops  operations of the products that the learner ran to train
    search_flops    operations of the search that moved a mask, if there was one
    joules_KIND     joules of the whole machine meanwhile, by that kind of source (learning/energy). Left out where no
                    source reports them. A machine that trains several clients at once gives no meter, because it cannot
                    tell the joules of one client
    """
    before = client_state.learner.work()
    with meter() as spent:
        started = clock()
        reply = early_stopping.train(algorithm, client_state, plan)
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
    return measured(reply, found), seconds
