"""The trained model of a server's run, a simulation's run or a device's directory. The directory is neither locked nor
written, so a run in progress is not disturbed. formats.py writes the files.

The model of all clients is the model of the server's state. The model of one client is the model that the method itself
evaluates (Algorithm.own): its own parameters, its head under the common body, its mask on the common model, or the
model of all clients adapted to its samples. A server has no model of a client. A device may need its server's state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from edgefl.deployment.device.device_model import method_of
from edgefl.deployment.device.state_reader import DeviceRecord, is_device, read_device
from edgefl.errors import RunError
from edgefl.experiment.assembly import assemble, built_in
from edgefl.experiment.data_meaning import read_meaning
from edgefl.experiment.federation import Federation
from edgefl.experiment.model_file import kept as model_of_run
from edgefl.experiment.run_data import data_of_run
from edgefl.experiment.run_json import EXPERIMENT
from edgefl.experiment.run_layout import Trial, run_of, trials
from edgefl.experiment.settings import Experiment
from edgefl.learning import GraphLearner, Samples
from edgefl.learning.targets import blank_targets
from edgefl.methods import Algorithm
from edgefl.methods.client_state import ClientState
from edgefl.methods.method_label import folder
from edgefl.methods.rounds.state_file import StoredClientState
from edgefl.methods.task import MODEL, State
from edgefl.models.graph import Graph, Model, Params
from edgefl.models.graph.class_axis import outputs_of_classes
from edgefl.models.graph.heads import with_classes
from edgefl.models.graph.quantization import requantized
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.trained_part import with_trained
from edgefl.server import run_history
from edgefl.study.export.original_units import in_original_units
from edgefl.study.simulation.committed_rounds import read_committed
from edgefl.study.simulation.journal import COMMIT

NOTHING = StoredClientState({}, {}, {})
HEAD_BIAS = "fc.bias"  # name in built-in models of a parameter with a value for each class


class ExportedModel(NamedTuple):
    """A trained model, its description in words, and the class of each of its outputs with the name of the class.

    classes      None: the classes of the data, in order
    class_names  None: the classes have no names
    """

    model: Model
    what: str
    classes: tuple[int, ...] | None = None
    class_names: tuple[str, ...] | None = None


class ModelSource(NamedTuple):
    """The source of a trained model: the directory, and the method, seed and client.

    path      directory of a run, or of a device's state
    client    client that owns the model. None: the model of all clients, or of the device if `path` is a device's
    method    method, if a simulation's run has several. None: its only method
    data_dir  directory of the data set's files
    seed      seed, if a simulation's run has several. None: the first seed
    run       the directory of a device's server, for methods that need what all clients share
    """

    path: Path
    client: int | None = None
    method: str | None = None
    data_dir: str | None = None
    seed: int | None = None
    run: Path | None = None


def find(source: ModelSource) -> ExportedModel:
    """Find the model. Raises RunError naming what is missing, or DataError if the run's data cannot be had."""
    if run_history.is_served(source.path):
        return _as_brought(_of_server(source), source.path)
    if is_device(source.path):
        return _of_device(source)
    if (source.path / EXPERIMENT).exists():
        return _as_brought(_of_simulation(source), source.path)
    if (source.path / COMMIT).exists():  # the path is the directory of one trial inside the directory of its run
        run, seed = run_of(source.path)
        return _as_brought(_of_simulation(source._replace(path=run, method=source.path.name, seed=seed)), run)
    raise RunError(
        f"{source.path} is neither a run nor the state of a device; expected a directory of simulate, serve or client"
    )


def _as_brought(found: ExportedModel, run: Path) -> ExportedModel:
    """Return the model in the form of the run's data and of the run's module."""
    return _with_unused(_as_in_data(found, run), run)


def _with_unused(found: ExportedModel, run: Path) -> ExportedModel:
    """Return the model with the entries of the run's original module that are not its parameters."""
    began = model_of_run(run, Experiment.of_run(run).model)
    return found if began is None else found._replace(model=found.model._replace(unused=began.unused))


def _as_in_data(found: ExportedModel, run: Path) -> ExportedModel:
    """Return the model with the labels and in the units of the run's data, as its data.json says."""
    meaning = read_meaning(run)
    model = found.model if meaning.standardised is None else in_original_units(found.model, meaning.standardised)
    is_of_labels = meaning.label_values is not None and len(meaning.label_values) > 1
    outputs = outputs_of_classes(model.graph)
    is_fitting = is_of_labels and (found.classes is not None or outputs == len(meaning.label_values or ()))
    names = meaning.names(found.classes, outputs)
    classes = meaning.classes(found.classes) if is_fitting else found.classes
    return found._replace(model=model, classes=classes, class_names=names)


def _of_server(source: ModelSource) -> ExportedModel:
    path, client = source.path, source.client
    if client is not None:
        raise RunError(
            f"{path} is the run of a server and has no model of client {client}; expected the --state of its device"
        )
    experiment, reached = Experiment.of_run(path), run_history.progress(path)
    if reached.state is None:
        raise RunError(f"{path} has no closed round; expected at least one")
    return _of_all(source, experiment, experiment.methods[0], reached.state, reached.round)


def _of_simulation(source: ModelSource) -> ExportedModel:
    path, client = source.path, source.client
    experiment = Experiment.of_run(path)
    trial = _trial(experiment, source)
    name, where, experiment = trial.method, trial.path, replace(experiment, seed=trial.seed, seeds=1)
    if client is not None and not 0 <= client < experiment.clients:
        raise RunError(f"client {client} of {path}; expected an id from 0 to {experiment.clients - 1}")
    found = read_committed(where, client)
    algorithm = experiment.algorithms()[name]
    if client is None:
        return _of_all(source, experiment, name, found.state, found.round)
    if algorithm.keeps_model and found.kept is not None and found.kept.params:
        graph = _graph(source, experiment, found.kept.params)
        base = _base(source, experiment, graph, found.state)
        client_state = _client_state(client, experiment.seed, graph, found.kept, base)
        return _of_one(name, algorithm, graph, client_state, found.state.arrays, found.round)
    federation = _federation(source, experiment)
    initial = federation.initial()
    if algorithm.keeps_state and found.kept is None:
        trained = ", ".join(map(str, found.trained)) or "none yet"
        raise RunError(
            f"client {client} of {where} has not trained by round {found.round}; expected a client that has: {trained}"
        )
    kept, split = found.kept or NOTHING, federation.clients[client]
    client_state = _client_state(
        client, experiment.seed, federation.graph, kept, algorithm.untrained(found.state, initial)
    )
    client_state.data, client_state.train, client_state.validation, client_state.test = (
        federation.data,
        split.train,
        split.validation,
        split.test,
    )
    return _of_one(name, algorithm, federation.graph, client_state, found.state.arrays, found.round)


def _graph(source: ModelSource, experiment: Experiment, params: Mapping[str, np.ndarray]) -> Graph:
    """Return the graph of the run's model, from its own file or as a built-in model for the shape of the data's
    examples. The data's files are not read if that shape is known.
    """
    model = model_of_run(source.path, experiment.model)
    if model is not None:
        return with_trained(model.graph, experiment.train)
    known = built_in(experiment, len(params[HEAD_BIAS])) if HEAD_BIAS in params else None
    return _federation(source, experiment).graph if known is None else known


def _base(source: ModelSource, experiment: Experiment, graph: Graph, state: State) -> Params:
    """Return values of the frozen parameters, which no client keeps. They are empty if no parameter is frozen."""
    if not ModelSpec.of(graph).frozen:
        return {}
    return state.arrays[MODEL] if MODEL in state.arrays else _federation(source, experiment).initial()


def _federation(source: ModelSource, experiment: Experiment) -> Federation:
    """Return the federation of a simulation's run, from the run's own copies of model and data if it keeps them."""
    path, model = source.path, model_of_run(source.path, experiment.model)
    return assemble(experiment, source.data_dir, model, data_of_run(path, experiment, source.data_dir))


def _of_device(source: ModelSource) -> ExportedModel:
    record = read_device(source.path)
    client, name, algorithm = record.welcome.client, record.welcome.method, method_of(record.welcome)
    if source.client not in (None, client):
        raise RunError(f"{source.path} is of client {client}; expected --client {client}, not {source.client}")
    if not (algorithm.keeps_state or algorithm.keeps_model):
        raise RunError(f"a device of {name} keeps no model; expected the run of its server, or of a simulation")
    arrays = {} if algorithm.keeps_model else _shared(source, record)
    client_state = _client_state(
        client, record.welcome.seed, record.initial.graph, record.last.kept, record.initial.params
    )
    return _of_one(name, algorithm, record.initial.graph, client_state, arrays, record.last.round)


def _shared(source: ModelSource, record: DeviceRecord) -> dict[str, Params]:
    """Return the part of the server's state that all clients of a device's run share."""
    if source.run is None:
        method = record.welcome.method
        raise RunError(f"a device of {method} keeps no whole model; expected --run, the directory of its server")
    if (found := run_history.run_id(source.run)) != record.run:
        raise RunError(f"{source.run} is the run {found}; expected {record.run}, the run of {source.path}")
    return run_history.final_state(source.run).arrays


def _trial(experiment: Experiment, source: ModelSource) -> Trial:
    """Find the trial of the method asked for, or of the only one, with the seed asked for, or the first one."""
    seeds = [one.seed for one in experiment.each_seed()]
    if source.seed not in (None, *seeds):
        raise RunError(f"--seed {source.seed}; expected one of {', '.join(map(str, seeds))}, which {source.path} has")
    wanted = _method(experiment, source), seeds[0] if source.seed is None else source.seed
    return next(each for each in trials(experiment, source.path) if (each.method, each.seed) == wanted)


def _method(experiment: Experiment, source: ModelSource) -> str:
    """Return the method asked for, or the only method."""
    known = ", ".join(experiment.methods)
    if source.method is None and len(experiment.methods) > 1:
        raise RunError(f"{source.path} is a run of {known}; expected --method with one of these methods")
    if source.method is None:
        return experiment.methods[0]
    for label in experiment.methods:
        if source.method in (label, folder(label)):
            return label
    raise RunError(f"--method {source.method}; expected one of {known}, which {source.path} has")


def _client_state(client: int, seed: int, graph: Graph, kept: StoredClientState, otherwise: Params) -> ClientState:
    """Return the client with what it keeps and without samples. Parameters that it does not keep are `otherwise`."""
    held = {**otherwise, **kept.params}
    params = {name: np.asarray(held[name], np.float32) for name in graph.parameters()}
    nothing, nobody = (
        np.zeros(0, np.int32),
        Samples(np.zeros((0, *graph.input_shape), np.float32), blank_targets(0, graph)),
    )
    learner = GraphLearner(Model(graph, requantized(graph, params)))
    spec = ModelSpec.of(graph)
    return ClientState(client, seed, spec, learner, nobody, nothing, nothing, nothing, kept.private, kept.arrays)


def _of_all(source: ModelSource, experiment: Experiment, method: str, state: State, round: int) -> ExportedModel:
    if MODEL not in state.arrays:
        raise RunError(f"{method} has no model of all clients; expected --client, as each client has its own model")
    graph = _graph(source, experiment, state.arrays[MODEL])
    return ExportedModel(_model(graph, state.arrays[MODEL]), f"{method}'s model of all clients after round {round}")


def _of_one(
    name: str, algorithm: Algorithm, graph: Graph, client_state: ClientState, arrays: Mapping[str, Params], round: int
) -> ExportedModel:
    if algorithm.scored(arrays) is None:
        raise RunError(f"{name} has one model for all clients; expected no --client")
    with algorithm.own(client_state, algorithm.shared(arrays)) as own:
        classes = None if own.classes is None else tuple(own.classes)
        graph = graph if classes is None else with_classes(graph, len(classes))
        graph = graph if own.neurons is None else graph.sub(own.neurons)
        model = _model(graph, own.learner.read())
    return ExportedModel(model, f"client {client_state.client}'s model of {name} after round {round}", classes)


def _model(graph: Graph, params: Mapping[str, np.ndarray]) -> Model:
    """Return a model with copies of these values."""
    copies = {name: np.array(params[name], np.float32) for name in graph.parameters()}
    return Model(graph, requantized(graph, copies))
