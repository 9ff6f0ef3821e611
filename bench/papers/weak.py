"""Weak devices: eight methods on the federations of the comparison, whose clients are modelled devices.

Clients and devices are both dealt in order of their ids. The first quarter of `mixed`, microcontrollers, is the tier of
.2 and a part of .4. Then come phones on LTE, Pi 4 and Orin Nano. All devices are there at every hour, no device drops
out, and rounds wait for all. So equal rounds are equal client rounds. Rates that were chosen without devices are the
rates that would be chosen with them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from bench.papers.comparison import METHODS, WORKLOADS, Method, Study, model
from edgefl.methods.budget import Cost, Effort, SubmodelOption, cost
from edgefl.methods.fedspu_cached import FedSPUCached
from edgefl.methods.task import Task
from edgefl.models.graph.operations import Shape
from edgefl.models.neurons.model_spec import ModelSpec

OURS, FEDSPU, DROPOUT = "FedSPU, cached", "FedSPU", "random dropout"
KEEPING = (FEDSPU, OURS, "FedPer", "PFLEGO")  # personal models, with something that is sent

WEAK = Study(
    "weak",
    {
        FEDSPU: METHODS[FEDSPU],
        OURS: Method("fedspu-cached", like=FEDSPU),
        DROPOUT: Method("random-dropout"),
        "FjORD": Method("fjord"),
        **{name: METHODS[name] for name in ("FedAvg-FT", "FedPer", "PFLEGO", "Local")},
    },
    {"devices": "mixed"},
    points=20,  # cheap methods end early, and the others are compared at that time
    lent=("comparison",),
)

SHAPES: dict[str, tuple[Shape, int]] = {
    "digits": ((1, 8, 8), 10),
    "speech": ((1, 49, 40), 12),
    "fashion": ((1, 28, 28), 10),
    "emnist": ((1, 28, 28), 62),
}  # by place: the shape of an input, and the number of classes


class Offered(NamedTuple):
    """The offer of the cached method to a tier, and the cost of a round there: so, by FedSPU, and with all neurons."""

    keep: float
    offer: SubmodelOption
    cost: Cost
    fedspu: Cost
    dense: Cost


def offered(workload: str) -> list[Offered]:
    """Return the offers by tier, the weakest first."""
    settings, method = WORKLOADS[workload].settings, FedSPUCached()
    graph, effort = model(WORKLOADS[workload], *SHAPES[workload]), Effort(settings["epochs"], settings["batch"])
    task = Task(ModelSpec.of(graph), clients=len(method.keep), seed=1, graph=graph)  # a client for each tier
    found = []
    for client, keep in enumerate(method.keep):
        offer = replace(method, **effort._asdict()).offer(task, client)
        found.append(
            Offered(
                keep, offer, *(cost(graph, each, effort) for each in (offer, SubmodelOption(keep), SubmodelOption(1.0)))
            )
        )
    return found
