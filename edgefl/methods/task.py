"""The task that server and clients agree on before round 1, and the server's state between rounds.

Payload names are here too, because every message and every state uses them. plan.py has what a round sends.

Source  ARCHITECTURE, "The types that carry everything"
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from math import prod
from typing import Any
from warnings import warn

from edgefl.errors import former_name
from edgefl.learning.losses import CROSS_ENTROPY, Loss
from edgefl.learning.scores import place_score
from edgefl.methods.throughput import Throughput
from edgefl.models.graph import Graph, Params
from edgefl.models.neurons.model_spec import ModelSpec

MODEL = "model"  # the payload's name for the model's parameters

BODY = "body"  # the payload's name for the parameters without the head, where every client has its own head


@dataclass(frozen=True)
class Task:
    """The agreement of server and clients before round 1: the model, the number of registered clients, and the seed.

    spec         model: its parameters and its neurons
    clients      number of registered clients
    seed         seed of the run
    limits       largest share of active neurons that a client is willing to train. A client that is not listed has no
                 limit
    examples     number of training samples of all clients together. 0: not known
    rounds       number of rounds of the whole run, for schedules over the run. 0: not known
    candidates   clients that may be chosen in the round that is being planned. None: all clients
    lost         clients that have lost some of their state since they last trained
    loss         loss that all clients minimise
    outputs      number of outputs of the model
    graph        graph of the model, for counting operations on it. None: not known
    throughputs  throughput of each client that has measured one, for the round that is being planned
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
        """The number of decisions of one example that are right or wrong. 0 if the loss has no decisions."""
        if self.graph is None:
            return self.loss.decisions(self.outputs)
        channels, places = self.loss.split(self.graph.output_shape)
        return self.loss.decisions(channels, prod(places))

    @property
    def place_score(self) -> str:
        """The name of the score of tokens or pixels (learning/scores.py), or "" where an example has one label."""
        return "" if self.graph is None else place_score(self.loss, self.graph.output_shape)

    @property
    def paces(self) -> Mapping[int, Throughput]:
        """The former name of `throughputs`."""
        warn(former_name("Task.paces", "throughputs"), FutureWarning, stacklevel=2)
        return self.throughputs


@dataclass
class State:
    """Everything that the server of a method keeps between rounds: named sets of arrays, and plain JSON values.

    The evaluated models are arrays[MODEL], the model of all clients, or arrays[BODY] with the head of each client.
    """

    arrays: dict[str, Params]
    values: dict[str, Any] = field(default_factory=dict)
