"""Random Dropout, or federated dropout: every client of a round trains a random smaller model, which is written back.

A client trains the neurons that FedSPU would draw for it in this round, and the payloads have as many bytes as
FedSPU's. The other neurons do not exist in the smaller model. So a step has the arithmetic of the smaller model, and a
client keeps nothing.

The paper has one share for all clients, and it compresses messages, which is left out here. Tiers and `scale` are ours.

Source  Caldas et al., "Expanding the reach of federated learning by reducing client resource requirements" (2018).
        ALGORITHMS 7.14
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from edgefl.learning.learner import Learner
from edgefl.methods.client_state import ClientState
from edgefl.methods.neuron_draws import NeuronDraws
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.submodel_training import SubModels, cut, planned, put_back
from edgefl.methods.task import MODEL, State, Task
from edgefl.models.graph.operations import Kind
from edgefl.models.neurons.block_index import Axes
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.update import Update, values

FROZEN: tuple[Kind, ...] = ("frozen",)


@dataclass(frozen=True)
class RandomDropout(NeuronDraws, SubModels):
    """Random sub-models: a client trains the neurons that are drawn for it, as a smaller model.

    scale  whether the remaining inputs of a layer stand for the missing inputs as well: in a client's model every
           weight that multiplies n of m inputs is m / n times the server's weight. The paper does not scale

    The evaluated model is the global model, or after a refresh the client's next sub-model.

    A sub-model has the frozen weights of its neurons, too. A client trains and sends the trained part of the sub-
    model.
    """

    name: ClassVar[str] = "random-dropout"
    sums_only: ClassVar[bool] = True
    asynchronous: ClassVar[bool] = True

    scale: bool = False

    # The server.

    def chosen(self, task: Task, round: int) -> list[int]:
        everybody = range(task.clients)
        return self.take_part(task, everybody, self.per_round, round, lambda client: self.share(task, client))

    def client_plan(self, task: Task, state: State, round: int, client: int) -> Plan:
        p = self.share(task, client)
        neurons = NeuronSet.draw(task.spec, p, self.drawing(task, client, p, round))
        payload = take(state.arrays[MODEL], task.spec, neurons)
        return Plan("train", round, client, neurons, {MODEL: payload}, {"keep": p})

    # The client.

    def train(self, client_state: ClientState, plan: Plan) -> Reply:
        neurons, smaller = planned(plan), self.smaller(client_state, plan)
        fit = smaller.fit(client_state.data, self.batches(client_state, plan.round), self.local_optimizer(plan.round))
        put_back(client_state.learner, smaller, neurons)
        trained = client_state.learner.take(neurons)
        payload = scaled(trained, client_state.spec, np.true_divide) if self.scale else trained
        return self.answer(client_state, plan, fit, {MODEL: payload}, smaller)

    def smaller(self, client_state: ClientState, plan: Plan) -> Learner:
        """Return the learner of a plan's neurons, with the values that the plan brings."""
        sent = plan.payload[MODEL]
        whole, spec = client_state.learner, client_state.spec
        whole.write(scaled(sent, spec, np.multiply) if self.scale else sent)
        smaller = cut(whole, planned(plan))
        if self.scale and smaller is not whole:  # the device's frozen weights are not scaled yet
            still = whole.take(planned(plan), kinds=FROZEN)
            smaller.write(values(scaled(still, spec, np.multiply)))
        return smaller


def scaled(update: Update, spec: ModelSpec, by: np.ufunc) -> Update:
    """Return the update with its weights scaled for the inputs that their layers lack.

    `by` multiplies or divides a weight by the layer's number of inputs in the whole model over the number in the
    update.
    """
    blocks = dict(update.blocks)
    for name, axis in spec.inputs.items():
        if name not in blocks:
            continue
        index = blocks[name].index
        ids = (index.rows, index.cols)[axis] if isinstance(index, Axes) else None
        if ids is not None:
            blocks[name] = replace(blocks[name], values=by(blocks[name].values, ids.length / ids.count), change=None)
    return Update(blocks)
