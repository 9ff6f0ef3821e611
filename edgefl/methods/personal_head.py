"""A client's own model in methods with personal heads: the server's body under a head of the client.

This module is not a method. The head and its label map persist on the client and never leave it.

Source  FedPer (arXiv:1912.00818) and PFLEGO, section 3.1. ALGORITHMS 6 and 7.8
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from edgefl import rng
from edgefl.errors import DataError
from edgefl.learning.batches import RepeatedBatch
from edgefl.learning.fit_options import FitOptions
from edgefl.learning.learner import Array, Evaluation, Learner, Samples
from edgefl.learning.optimizers import Optimizer
from edgefl.methods.client_state import ClientState, OwnModel
from edgefl.methods.option_checks import check
from edgefl.methods.task import BODY, State, Task
from edgefl.models.graph import Params
from edgefl.models.neurons.model_spec import ModelSpec, layer_of

HEAD = "head"  # name of W_i and its bias among the client's arrays
CLASSES = "classes"  # name of the label map among the private values: row r of the head is the r-th class

HeadInit = Literal["torch", "uniform"]


@dataclass(frozen=True)
class Personal:
    """The model of one client in one round.

    client_state  the client
    learner       learner of the body, and of a head with one output for each of the client's classes
    samples       the client's data with rows of the head as labels
    known         for each sample whether the head has a row for its class. None: the outputs are not classes
    head          names of the parameters of the head
    """

    client_state: ClientState
    learner: Learner
    samples: Samples
    known: NDArray[np.bool_] | None
    head: tuple[str, ...]

    @property
    def model(self) -> OwnModel:
        """The model as it is evaluated."""
        classes = None if self.known is None else self.client_state.private[CLASSES]
        return OwnModel(self.learner, self.samples, classes, self.known)

    @staticmethod
    def of(
        client_state: ClientState,
        body: Mapping[str, Array],
        head_init: HeadInit,
        round: int = 0,
        names: tuple[str, ...] = (),
    ) -> Personal:
        """Return this body under the client's head. A client without a head gets a new head.

        Where an example has a label, the head has an output for each class that the client trains on. Otherwise it has
        the outputs of the model, as with a label for each token. Test samples do not influence the head.

        head_init  'torch': the distribution of a new torch Linear. 'uniform': [0, 1), as in PFLEGO's released code
        round      round of the draw, where a method draws heads repeatedly
        names      names of the parameters of the head. Empty: those of the last Linear layer
        Raises     DataError if the client trains on examples of a class that its head does not have
        """
        names = names or client_state.spec.head
        if not client_state.data.loss.has_labels or client_state.data.y.ndim > 1:
            learner = client_state.learner.with_head(outputs_of(client_state.spec))
            _take_head(client_state, learner, body, head_init, round, names)
            return Personal(client_state, learner, client_state.data, None, names)
        own = np.unique(client_state.data.y[client_state.train]).tolist()
        classes = client_state.private.get(CLASSES) or own
        if new := sorted(set(own) - set(classes)):
            raise DataError(
                f"client {client_state.client} has examples of class {new[0]}; its head has classes {classes}"
            )
        learner = client_state.learner.with_head(len(classes))
        _take_head(client_state, learner, body, head_init, round, names)
        rows = np.zeros(max(int(client_state.data.y.max(initial=0)), classes[-1]) + 1, np.int32)
        rows[classes] = np.arange(len(classes))
        loss = client_state.data.loss.of_classes(classes)
        samples = Samples(
            client_state.data.x, rows[client_state.data.y], client_state.data.scale, client_state.data.shift, loss
        )
        client_state.private = {**client_state.private, CLASSES: classes}
        return Personal(client_state, learner, samples, np.isin(client_state.data.y, classes), names)

    def head_steps(self, count: int, optimizer: Optimizer, chunk: int, cut: str = "") -> None:
        """Take `count` steps of the head over all training samples, on features that are computed once.

        chunk  examples per pass through the body
        cut    name of the result that a head of several layers reads. "": the head is the last Linear layer
        """
        if count:
            features = self.learner.features(self.samples, self.client_state.train, chunk, cut)
            everything = np.arange(len(features), dtype=np.int32)
            labelled = Samples(features, self.samples.y[self.client_state.train], loss=self.samples.loss)
            head = self.learner.rest(cut) if cut else self.learner.head()
            head.fit(labelled, RepeatedBatch(everything, count), optimizer)

    def whole_steps(self, count: int, optimizer: Optimizer) -> None:
        """Take the steps of `head_steps` through the whole model in every step, as one batch of all training samples.

        It needs no name of a cut, and the time and memory of so many whole passes.
        """
        if count:
            every = RepeatedBatch(self.client_state.train, count)
            self.learner.fit(self.samples, every, optimizer, steps_of(self.head))

    def keep_head(self) -> None:
        """Keep the present head as the client's head."""
        head = {name: value.copy() for name, value in self.learner.read(self.head).items()}
        self.client_state.arrays = {**self.client_state.arrays, HEAD: head}

    def evaluate(self) -> Evaluation:
        """Evaluate the model on the client's own test samples."""
        return self.model.evaluate(self.client_state.test)


def steps_of(names: Collection[str]) -> FitOptions:
    """Return the options of steps of these parameters, in which all others keep their bits. Running statistics stay."""
    return FitOptions(trainable=frozenset(map(layer_of, names)), bn_frozen="freeze")


def head_names(spec: ModelSpec, layers: int) -> tuple[str, ...]:
    """Return the names of the parameters of a head with so many layers that have a weight, in the order of the model.

    The norms between these layers belong to the head. A head of one layer is `spec.head`.
    """
    before = _layers_before(spec)[::-1][: layers - 1]
    if not before:
        return spec.head
    names = list(spec.params)
    return tuple(names[next(at for at, name in enumerate(names) if layer_of(name) == before[-1]) :])


def check_head_layers(spec: ModelSpec, layers: int) -> None:
    """Raise ValueError if a head of so many layers with a weight leaves no such layer to the body."""
    most = len(_layers_before(spec)) + bool(spec.head)
    expected = f"at most {most - 1}, as the model has {most} layers with a weight and a body needs one of them"
    check(layers == 1 or layers < most, "head_layers", layers, expected)


def outputs_of(spec: ModelSpec) -> int:
    """Return the number of outputs of the last Linear layer."""
    return next(spec.params[name].shape[0] for name in spec.head)


def _layers_before(spec: ModelSpec) -> list[str]:
    """Return the layers of the body with a weight of two or more dimensions, in the order of the model."""
    return list(dict.fromkeys(layer_of(name) for name in spec.body if len(spec.params[name].shape) > 1))


def begin(initial: Params, task: Task, head: tuple[str, ...]) -> State:
    """Make the server's state before round 1: the body, which has all parameters but `head`.

    Raises ValueError if the model has no head besides the body, or a head that clients cannot have of their own.
    """
    spec = task.spec
    body = [name for name in spec.params if name not in head]
    if not head or not body:
        raise ValueError(f"model with head {list(head)} and body {body}; expected both")
    if constants := [name for name in head if name in spec.constants]:
        raise ValueError(
            f"model with {constants[0]} in its head, a constant or buffer of the model's code; expected a head of "
            "trained parameters alone: fedavg and fedspu take such a model"
        )
    if partial := [name for name in head if name in spec.frozen or name in spec.slices]:
        what = f"slice of {partial[0]}" if partial[0] in spec.slices else f"frozen {partial[0]}"
        raise ValueError(
            f"model with a {what} in its head; expected a head that each client can train, as with head "
            'among the patterns of --train (train="head,...")'
        )
    check_body(spec, body)
    return State({BODY: {name: initial[name] for name in body}})


def check_body(spec: ModelSpec, body: Sequence[str]) -> None:
    """Raise ValueError if no parameter of the body is trained. The body is all that clients of such a method share."""
    if not set(body) & set(spec.learned):
        raise ValueError(
            f"all {len(body)} parameters of the model's body are frozen; expected one that is trained, as "
            "clients share the body: fedavg and fedspu share a head, and local trains a head at each client"
        )


def _take_head(
    client_state: ClientState,
    learner: Learner,
    body: Mapping[str, Array],
    head_init: HeadInit,
    round: int,
    names: tuple[str, ...],
) -> None:
    """Write the body and the client's head into the learner. A client without a head gets a new one."""
    head = client_state.arrays.get(HEAD) or _draw(client_state, learner, head_init, round, names)
    learner.write({**body, **head})


def _draw(
    client_state: ClientState, learner: Learner, head_init: HeadInit, round: int, names: tuple[str, ...]
) -> dict[str, NDArray[np.float64]]:
    """Return a new head, as a function of the seed, the client and the round.

    Each layer with a weight is drawn as a new torch Linear, by its own number of inputs. A norm begins as the identity.
    """
    stream = rng.stream(client_state.seed, rng.HEAD, client_state.client, round)
    shapes = {name: value.shape for name, value in learner.read(names).items()}
    drawn = {name: stream.uniform(int(np.prod(shape))).reshape(shape) for name, shape in shapes.items()}
    if head_init == "uniform":
        return drawn
    inputs = {layer_of(name): int(np.prod(shape[1:])) for name, shape in shapes.items() if len(shape) > 1}
    found = {}
    for name, values in drawn.items():
        layer, part = layer_of(name), name.rpartition(".")[2]
        if layer in inputs:
            found[name] = (2 * values - 1) * (1 / np.sqrt(inputs[layer]))
        else:
            found[name] = np.full(values.shape, float(part in ("weight", "running_var")))
    return found
