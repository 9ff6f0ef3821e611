"""What a method's server works on: the task that is agreed before round 1, and the state between rounds.

Payload names are here too: every message and every state uses them. Not what a round sends (plan.py).
Source: ARCHITECTURE, "The types that carry everything".
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any
from warnings import warn

from edgefl.learning.losses import CROSS_ENTROPY, Loss
from edgefl.methods.throughput import Throughput
from edgefl.models.graph import Graph, Params
from edgefl.models.neurons.model_spec import ModelSpec

MODEL = "model"  # the payload's name for the model's parameters

BODY = "body"  # and for those of all but its head, where every client has a head of its own


@dataclass(frozen=True)
class Task:
    """What server and clients agree on before round 1: the model, how many clients are registered, and the seed.

    limits      largest share of active neurons that a client is willing to train; those not listed have none
    examples    for training, of all clients together; 0: not known
    rounds      of the whole run, for what is annealed over it; 0: not known
    candidates  clients that may be chosen in the round that is being planned; None: all
    lost        clients that have lost what they kept, or some of it, since they last trained
    loss        what all minimise; outputs: how many the model has
    graph       the model's, for what is counted on it; None: not known
    throughputs the throughput of each client that has measured one, as it holds in the round that is being planned
    """

    spec: ModelSpec
    clients: int
    seed: int
    limits: Mapping[int, float] = field(default_factory=dict)
    examples: int = 0
    rounds: int = 0
    candidates: AbstractSet[int] | None = None
    lost: AbstractSet[int] = frozenset()
    loss: Loss = CROSS_ENTROPY
    outputs: int = 0
    graph: Graph | None = field(default=None, repr=False)
    throughputs: Mapping[int, Throughput] = field(default_factory=dict)

    @property
    def decisions(self) -> int:
        """How many decisions of one example are right or wrong; 0: the loss has no decisions."""
        return self.loss.decisions(self.outputs)

    @property
    def paces(self) -> Mapping[int, Throughput]:
        """`throughputs` under its name of before."""
        warn("Task.paces is called throughputs now", FutureWarning, stacklevel=2)
        return self.throughputs


@dataclass
class State:
    """All that the server of a method must keep between rounds: named sets of arrays, and plain JSON values.

    Evaluated are arrays[MODEL], the model of all clients, and arrays[BODY] under the head of each client.
    """

    arrays: dict[str, Params]
    values: dict[str, Any] = field(default_factory=dict)
