"""The request of a program, in any accepted form, as an experiment, a model and data. Nothing is run or written here.

A method is a name, a label (methods/method_label.py) or an Algorithm. A model is a torch module, an edgefl model, the
name of a built-in model or a file. Data are a name, a file or arrays.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from edgefl.errors import GraphError, RunError, expected_name, former_name
from edgefl.experiment import model_file, user_methods
from edgefl.experiment.array_data import OwnData, own_data, own_file
from edgefl.experiment.default_settings import ALL, with_defaults, with_everybody, with_settings_of_data
from edgefl.experiment.device_models.device_assignment import read as read_devices
from edgefl.experiment.frame_data import COLUMNS
from edgefl.experiment.presets import preset as settings_of_preset
from edgefl.experiment.program_data import arrays_in, is_frame
from edgefl.experiment.run_data import data_of, settings_for
from edgefl.experiment.settings import FORMER, SHARED, Experiment, check_kind, is_like
from edgefl.learning.losses import Loss
from edgefl.learning.predictor import Predictor
from edgefl.learning.targets import default_loss
from edgefl.methods import METHODS, Algorithm, build, having, labelled, settings_of
from edgefl.methods.method_label import Variant, label_of, labels_in, written
from edgefl.methods.method_registry import OWN, take_in
from edgefl.models.graph import Model
from edgefl.models.graph.model_files import refuse_foreign
from edgefl.study.loss_objects import is_torch_loss, loss_text
from edgefl.study.trained_model import TrainedModel
from edgefl.study.words_of_others import HERE, check_optimizer, shown

ELSEWHERE = ("methods", "data", "model", "options", "tune", "tuned")  # fields of Experiment that are not settings here
OF_ARRAYS = ("axes", "missing")  # settings that say how arrays are to be read
EXAMPLES = 2  # examples with which a torch module is traced


class ResolvedExperiment(NamedTuple):
    """An experiment, and the model and the data that its settings name by their content, or None."""

    experiment: Experiment
    model: Model | None
    own: OwnData | None


def asked(
    method: Any = None,
    model: Any = None,
    data: Any = None,
    data_dir: str | os.PathLike[str] | None = None,
    preset: str | None = None,
    settings: Mapping[str, Any] = {},
) -> ResolvedExperiment:
    """Return the experiment that was asked for, completed by the defaults of the data.

    method    name, label or Algorithm, or several. None: the default comparison
    model     model as for `edgefl.simulate`. None: the built-in model for the data
    data      data as for `edgefl.simulate`. None: the default data set
    settings  fields of Experiment, or hyper-parameters of the methods, by name
    Raises    ValueError naming what cannot be had, DataError, GraphError, OSError or RunError for data and models.
    """
    columns = {key: settings[key] for key in COLUMNS if key in settings} if is_frame(data) else {}
    settings = {key: value for key, value in settings.items() if key not in columns}
    about = {name: str(settings[name]) for name in OF_ARRAYS if settings.get(name)}
    name, own = _data(data, columns, about)
    labels = Experiment.methods if method is None else tuple(labels_of(method))
    chosen = {} if preset is None else settings_of_preset(preset, name)
    plain, options = _settings(labels, settings)
    options = {**dict(chosen.pop("options", ())), **options}
    kept = _model(model, name, own, data_dir, plain)
    chosen |= plain | {"data": name, "methods": labels, "options": tuple(sorted(options.items()))}
    if own is None:
        chosen = with_everybody(chosen, Experiment(), data_dir)
    elif chosen.get("clients") == ALL:
        if own.data.groups is None:
            raise ValueError("clients=all with data without groups; expected (x, y, groups), or a number of clients")
        del chosen["clients"]  # every group of such data is a client anyway
    chosen["model"] = kept if isinstance(kept, str) else model_file.name_of(kept)
    of_data = None
    if own is not None:
        arrays = data_of(with_settings_of_data(chosen, Experiment()), own=own)
        of_data = settings_for(arrays, chosen.get("held_out", 0))
    experiment = with_defaults(chosen, of_data)
    return ResolvedExperiment(experiment, None if isinstance(kept, str) else kept, own)


def labels_of(method: Any) -> list[str]:
    """Return the labels of one method or several, from text with commas, an Algorithm, its class, or a mix of these.

    Fields of an Algorithm that differ from the defaults of its class are its own options. It shares all other options
    with the other methods.
    """
    if isinstance(method, str):
        return [user_methods.label(text) for text in labels_in([method])]
    if isinstance(method, Algorithm) or (isinstance(method, type) and issubclass(method, Algorithm)):
        return [labelled(_label(method if isinstance(method, Algorithm) else method()))]
    if isinstance(method, Iterable):
        return [label for each in method for label in labels_of(each)]
    raise ValueError(f"method={method!r}; expected a name, an Algorithm, or several of them")


def _label(method: Algorithm) -> str:
    named = {name: _differing(method, name) for name in METHODS if type(METHODS[name]()) is type(method)}
    if not named:
        return _own_label(method)
    name = min(named, key=lambda name: len(named[name]))
    return label_of(name, named[name])


def _own_label(method: Algorithm) -> str:
    """Register a method of the program's own. Return its label, with its known name or the path of its class."""
    kind = type(method)
    name = next((name for name, known in OWN.items() if known is kind), f"{kind.__module__}:{kind.__qualname__}")
    take_in(name, kind)
    return label_of(name, _differing(method, name))


def _differing(method: Algorithm, name: str) -> dict[str, Any]:
    """Return the hyper-parameters, without the run's rounds, that differ from that method's own defaults."""
    defaults = settings_of(name)
    return {key: getattr(method, key) for key in defaults if key != "rounds" and getattr(method, key) != defaults[key]}


def _settings(labels: Sequence[str], given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields of Experiment among these settings, and the hyper-parameters. Raises ValueError for a name that
    is neither, or that the methods do not have.
    """
    methods = [Variant.of(label).method for label in labels]
    known = {each.name for each in fields(Experiment)} - set(ELSEWHERE)
    hyper: dict[str, Any] = {}
    for method in reversed(methods):
        hyper |= settings_of(method)
    plain, options = {}, {}
    for key, value in {**given, **given.get("options", {})}.items():
        name = FORMER.get(key, key)
        if name != key:
            warnings.warn(former_name(f"{key}=", f"{name}="), DeprecationWarning, stacklevel=4)
        if name == "options":
            continue
        if name == "tune":
            plain[name] = _tried(value, hyper)
        elif name in known:
            plain[name] = _plain(name, value)
            if name in SHARED and name != "rounds":
                having(methods, name, written(plain[name]))
        elif name in hyper:
            options[name] = _like(name, value, hyper[name])
            having(methods, name, written(options[name]), by_all=True)
        elif any(name in build(method, {}).former for method in methods):
            having(methods, name, written(value))
        else:
            told = f"here it is {HERE[name]}" if name in HERE else expected_name(name, sorted({*known, *hyper}))
            raise ValueError(f"{name}={shown(value)} is not a setting; {told}")
    return plain, options


def _tried(given: Mapping[str, Any], hyper: Mapping[str, Any]) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    """Return the tuned hyper-parameters, and the values that are tried for each."""
    for name in given:
        if name not in hyper:
            raise ValueError(f"tune {name}; {expected_name(name, sorted(hyper))}")
    lists = {name: _listed(value) for name, value in given.items()}
    lists = {name: value if isinstance(value, list) else [value] for name, value in lists.items()}
    return tuple(sorted((name, tuple(_like(name, each, hyper[name]) for each in lists[name])) for name in lists))


def _plain(name: str, value: Any) -> Any:
    """Return the value for a field of Experiment, in the type of the field."""
    if isinstance(value, Loss):
        return str(value)
    if name == "loss" and (is_torch_loss(value) or callable(value)):
        return loss_text(value)
    if name == "clients" and value == ALL:
        return ALL
    if name == "train" and (value is None or isinstance(value, list | tuple)):
        return ",".join(map(str, value or ()))  # without a value it is the empty text
    if name == "devices" and isinstance(value, str | os.PathLike):
        return read_devices(os.fspath(value))
    listed = _listed(value)
    if isinstance(getattr(Experiment, name), tuple) and not isinstance(listed, list):
        listed = [listed]
    try:
        check_kind(name, listed)
    except RunError as error:
        raise ValueError(str(error)) from None
    if name == "loss" and listed:
        return str(Loss.parse(listed))
    return tuple(listed) if isinstance(listed, list) else listed


def _listed(value: Any) -> Any:
    """Convert numbers of numpy to Python's, and tuples and arrays to lists."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


def _like(name: str, value: Any, default: Any) -> Any:
    """Return a hyper-parameter's value. Raises ValueError for another type than the default has."""
    listed = _listed(value)
    if name == "optimizer":
        check_optimizer(value)
    if isinstance(default, tuple):
        found = listed if isinstance(listed, list) else [listed]
        if all(is_like(each, 1.0) for each in found):
            return tuple(float(each) for each in found)
    elif default is None or is_like(listed, default):
        return float(listed) if isinstance(default, float) else listed
    raise ValueError(f"{name}={shown(value)}; expected {type(default).__name__}, as {default!r}")


def _data(data: Any, columns: Mapping[str, Any], about: Mapping[str, str]) -> tuple[str, OwnData | None]:
    """Return the name of the data in the settings, and the arrays if the data are arrays.

    columns  settings that name columns of a DataFrame
    about    settings that say how arrays are read, by the names of data/npz.py
    """
    if data is None:
        return Experiment.data, None
    if isinstance(data, str | os.PathLike):
        kept = own_file(data, about.get("axes", ""))
        return (os.fspath(data), None) if kept is None else (kept.name, kept)
    own = own_data({**arrays_in(data, columns), **about})
    return own.name, own


def _model(
    model: Any, data: str, own: OwnData | None, data_dir: str | os.PathLike[str] | None, settings: Mapping[str, Any]
) -> str | Model:
    """Return the name of a built-in model, "" for the model that fits the data, or a model with weights.

    settings  the fields of Experiment that were given
    """
    if model is None:
        return ""
    if isinstance(model, TrainedModel | Predictor):
        return _of_all(model)
    if isinstance(model, Model):
        return model
    if isinstance(model, str | os.PathLike):
        text = os.fspath(model)
        refuse_foreign(text)
        return model_file.read(Path(text)) if text.endswith(model_file.SUFFIX) else text
    if is_torch(model):
        from edgefl.torch.users_module import model_of

        samples = data_of(with_settings_of_data({**settings, "data": data}, Experiment()), data_dir, own)
        stated = str(own.arrays.get("axes", "")) if own is not None else ""
        loss = Loss.parse(settings["loss"]) if settings.get("loss") else default_loss(samples.y)
        inputs = samples.x[:EXAMPLES].astype(np.float32) * np.float32(samples.scale) + np.float32(samples.shift)
        return model_of(model, inputs, settings.get("axes", "") or stated, loss)
    raise GraphError(
        f"model is {type(model).__name__}; expected a torch.nn.Module, a Model, a trained model, a name or "
        "FILE.safetensors"
    )


def _of_all(trained: TrainedModel | Predictor) -> Model:
    """Return a trained model to continue from. Raises GraphError if its outputs are the classes of one client alone."""
    if trained.classes is not None:
        own = ", ".join(map(str, trained.classes))
        raise GraphError(f"model {trained!r} has outputs only for the classes {own}; expected a model of all classes")
    return trained.model


def is_torch(model: Any) -> bool:
    """Return whether a model is a torch module. torch is not imported to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)
