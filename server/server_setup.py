"""The set-up of an experiment's server: method, model, store, coordinator, and the offer to devices.

The event loop is in event_loop.py.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from edgefl.experiment.assembled_experiment import AssembledExperiment
from edgefl.experiment.settings import Experiment
from edgefl.learning import Evaluation, GraphLearner, Samples
from edgefl.learning.losses import Loss
from edgefl.methods import Algorithm
from edgefl.methods.early_stopping import EarlyStopping
from edgefl.methods.method_label import Variant
from edgefl.models.graph import Graph, Model, Params
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.protocol.wire.messages import Welcome
from edgefl.protocol.wire.model_message import digest, packed
from edgefl.protocol.wire.model_parts import frozen_parts
from edgefl.protocol.wire.packed_model import PackedModel
from edgefl.protocol.wire.run_terms import named_run
from edgefl.server.coordinator import Coordinator
from edgefl.server.event_loop import Server
from edgefl.server.events import Record
from edgefl.server.peer import ConnectionTerms, Patience
from edgefl.server.round_rules import Rules
from edgefl.server.server_handshake import EnrolmentTerms
from edgefl.server.store import RECENT, Store
from edgefl.server.trust_files import TrustFiles

STOPPING = tuple(field.name for field in dataclasses.fields(EarlyStopping))
LATER = ("ft", "ft_part", "ft_lr", *STOPPING)  # earlier devices do not know these settings, or not in every method


def host(
    assembled: AssembledExperiment,
    store: Store,
    rules: Rules,
    keys: Mapping[int, Sequence[bytes]] | None,
    say: Callable[[str], None],
    watch: Callable[[Record], None],
    patience: Patience | None = None,
    accepting: Collection[int] = (),
    trust: TrustFiles | None = None,
    drain_s: float = 0.0,
) -> Server:
    """Return the server of an experiment with one method, resumed from `store`. See Coordinator for `accepting`, and
    Server for `trust`.
    """
    coordinator, offer = staff(assembled, store, rules, keys, accepting)
    service = ConnectionTerms(**vars(offer), patience=patience or Patience())
    return Server(coordinator, store, service, say, watch, trust, drain_s)


def staff(
    assembled: AssembledExperiment,
    store: Store,
    rules: Rules,
    keys: Mapping[int, Sequence[bytes]] | None,
    accepting: Collection[int] = (),
) -> tuple[Coordinator, EnrolmentTerms]:
    """Return the coordinator of the run and the offer to its devices, whatever carries the messages."""
    experiment, federation = assembled.experiment, assembled.federation
    ((label, algorithm),) = assembled.algorithms.items()
    method = Variant.of(label).method  # a device knows the method, and gets the label's options in Welcome
    task, initial = federation.task(experiment.rounds), federation.initial()
    store.states.still = {name: initial[name] for name in task.spec.frozen}
    common = None if federation.common is None else CommonTest(federation.graph, initial, federation.common)
    model = _packed(federation.graph, initial)
    if rules.secure is not None:
        run = named_run(store.run_id, welcome(0, experiment, method, algorithm, model, task.loss))
        rules = dataclasses.replace(rules, secure=dataclasses.replace(rules.secure, run=run))
    progress = store.load(RECENT, None if rules.asynchronous is None else rules.asynchronous.max_staleness)
    coordinator = Coordinator(task, algorithm, rules, initial, progress, common, accepting)
    offer = EnrolmentTerms(
        store.run_id,
        experiment.clients,
        keys,
        lambda client: welcome(client, experiment, method, algorithm, model, task.loss),
        model,
        lambda: secrets.token_bytes(32),
        experiment.training_samples,
        parts=frozen_parts(federation.graph, model),
        secure=() if rules.secure is None else rules.secure.offer,
    )
    return coordinator, offer


def _packed(graph: Graph, initial: Params) -> PackedModel:
    """Return the model for devices. It shares the frozen parameters, which nobody changes, and has copies of others."""
    return packed(
        Model(graph, {name: value if name in graph.frozen else value.copy() for name, value in initial.items()})
    )


def welcome(
    client: int, experiment: Experiment, name: str, algorithm: Algorithm, model: PackedModel, loss: Loss
) -> Welcome:
    """Return the description of the run for an enrolled client."""
    options: dict[str, Any] = {
        field.name: value
        for field in dataclasses.fields(algorithm)  # type: ignore[arg-type]
        if (value := getattr(algorithm, field.name)) != field.default or field.name not in LATER
        if field.name not in STOPPING or getattr(algorithm, "es", False)
    }
    return Welcome(
        client,
        experiment.clients,
        experiment.seed,
        name,
        {key: list(value) if isinstance(value, tuple) else value for key, value in options.items()},
        experiment.values,  # type: ignore[arg-type]
        (experiment.train_share, experiment.validation_share),
        len(model),
        digest(model),
        str(loss),
    )


class CommonTest:
    """An evaluation of a model on the test set that no client owns."""

    def __init__(self, graph: Graph, initial: Params, data: Samples) -> None:
        self._learner = GraphLearner(Model(graph, initial), shares_frozen=True)
        self._data, self._names = data, ModelSpec.of(graph).exchanged

    def __call__(self, params: Params) -> Evaluation:
        self._learner.write({name: params[name] for name in self._names})
        return self._learner.evaluate(self._data)
