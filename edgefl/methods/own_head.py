"""The settings and the common verbs of methods whose clients have heads of their own on a common body.

This module is not a method. shared_body.py and head_training.py have the two ways of training, and personal_head.py has
a client's model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Literal

from edgefl.learning.learner import Array
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.client_state import ClientState, OwnModel
from edgefl.methods.option_checks import check
from edgefl.methods.personal_head import HeadInit, Personal, begin, head_layers_of, head_names, outputs_of
from edgefl.methods.plan import Plan
from edgefl.methods.task import BODY, State, Task
from edgefl.models.graph import Params
from edgefl.models.graph.heads import with_classes
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.update import Update


@dataclass(frozen=True)
class OwnHead(Algorithm):
    """The settings of methods with a common body under heads of the clients.

    head_layers  number of layers with a weight that a head has, counted from the end of the model. Norms between these
                 layers belong to the head, too. 1: the last Linear layer
    head_init    head of a client before its first round (personal_head.py)
    eval_point   'post_local' adds the test result of the client's model after training to a reply. 'none' does not
    """

    keeps_model: ClassVar[bool] = False
    keeps_state: ClassVar[bool] = True

    head_layers: int = 1
    head_init: HeadInit = "torch"
    eval_point: Literal["none", "post_local"] = "none"

    def check_head(self) -> None:
        """Raise ValueError for a value that is out of range."""
        check(self.head_layers >= 1, "head_layers", self.head_layers, "head_layers >= 1")
        fits = self.head_init == "torch" or self.head_layers == 1
        check(fits, "head_init", self.head_init, f"torch with head_layers={self.head_layers}: it draws each layer")

    def head(self, spec: ModelSpec) -> tuple[str, ...]:
        """Return the names of the parameters of a client's head."""
        return head_names(spec, self.head_layers)

    def body_names(self, spec: ModelSpec) -> tuple[str, ...]:
        head = set(self.head(spec))
        return tuple(name for name in spec.params if name not in head)

    def start(self, task: Task, initial: Params) -> State:
        """Make the state before round 1: the body. Raises ValueError for a model without a body or such a
        head, and GraphError for a last node that is not a Linear layer.
        """
        most = head_layers_of(task.spec)
        expected = f"at most {most - 1}, as the model has {most} layers with a weight and a body needs one of them"
        check(self.head_layers == 1 or self.head_layers < most, "head_layers", self.head_layers, expected)
        if task.graph is not None and task.spec.head:
            with_classes(task.graph, outputs_of(task.spec))  # a check that a client's learner can have such a head
        return begin(initial, task, self.head(task.spec))

    def sent(self, task: Task, state: State) -> dict[str, Update]:
        """Server: return the payload of a plan, which is the body."""
        return {BODY: take(state.arrays[BODY], task.spec, None, names=self.body_names(task.spec))}

    def personal(self, client_state: ClientState, body: Mapping[str, Array], round: int = 0) -> Personal:
        """Client: return this body under the client's head. `round` is that of the draw of a first head."""
        return Personal.of(client_state, body, self.head_init, round, self.head(client_state.spec))

    @contextmanager
    def own(self, client_state: ClientState, shared: Params | None) -> Iterator[OwnModel]:
        assert shared is not None
        yield self.personal(client_state, shared).model

    @contextmanager
    def judged(self, client_state: ClientState, plan: Plan) -> Iterator[OwnModel]:
        """Yield the body that the learner holds under the client's head."""
        held = client_state.learner.read(self.body_names(client_state.spec))
        with self.own(client_state, {name: value.copy() for name, value in held.items()}) as mine:
            yield mine
