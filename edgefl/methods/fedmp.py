"""FedMP: every client trains a smaller model of the neurons with the largest weights, as many as it can afford.

The server prunes its model by the L1 norm of each neuron's weights, anew in every round. The mean is R2SP: a client's
model counts with the server's values where the client had no neurons.

In the paper a bandit learns each client's pruning ratio from the times of its rounds. Here the capacity tiers of `keep`
say it, and nothing is learnt [ours].

Source  Jiang et al., "FedMP: Federated learning through adaptive model pruning in heterogeneous edge computing" (ICDE
        2022). ALGORITHMS 7.16
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from edgefl.methods.accumulator import Accumulator
from edgefl.methods.plan import Plan
from edgefl.methods.submodel_training import SubModels
from edgefl.methods.task import MODEL, State, Task
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.neuron_norms import l1_norms, largest_neurons
from edgefl.models.neurons.neuron_set import n_act


@dataclass(frozen=True)
class FedMP(SubModels):
    """Sub-models of the neurons of largest L1 norm: w <- mean of x_k + (w - w at the neurons of client k).

    weight  weight of a client in the average: 'uniform' (1 for every client) as in the paper, or 'samples' (n_k)

    The evaluated model is the global model, or after a refresh the client's next sub-model.

    A sub-model has the frozen weights of its neurons, too, and they count in the norms. A client trains and sends the
    trained part of the sub-model.
    """

    name: ClassVar[str] = "fedmp"

    weight: Literal["samples", "uniform"] = "uniform"

    def client_plan(self, task: Task, state: State, round: int, client: int) -> Plan:
        model, share = state.arrays[MODEL], self.share(task, client)
        counts = {group: n_act(size, share) for group, size in task.spec.groups.items()}
        neurons = largest_neurons(task.spec, l1_norms(model, task.spec), counts)
        return Plan("train", round, client, neurons, {MODEL: take(model, task.spec, neurons)}, {"keep": share})

    def finish(self, task: Task, state: State, accumulator: Accumulator, round: int) -> State:
        """Average the clients' values, where a client without a coordinate counts with the server's value of it."""
        mean, everybody = accumulator.mean, sum(accumulator.mean.weights)
        if not everybody:
            return state
        new = mean.over(state.arrays[MODEL])
        for name, weight in mean.weight.items():
            old = state.arrays[MODEL][name]
            recovered = (mean.total[name] + (everybody - weight) * old) / everybody
            new[name] = np.where(weight < everybody, recovered, new[name]).astype(old.dtype)
        return State({MODEL: new})
