"""The experiment that the options of a command stand for. The options are declared in experiment_arguments.py."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgefl.cli.experiment_arguments import METHOD_CHOICE
from edgefl.errors import RunError
from edgefl.experiment import model_file
from edgefl.experiment.default_settings import with_defaults, with_everybody
from edgefl.experiment.device_models.device_assignment import read as read_devices
from edgefl.experiment.presets import preset
from edgefl.experiment.run_extension import GROWING, check_growth
from edgefl.experiment.run_json import read_provenances
from edgefl.experiment.settings import SHARED, Experiment
from edgefl.experiment.user_methods import admit, label
from edgefl.learning.losses import Loss
from edgefl.methods import parse
from edgefl.methods.method_label import Variant, labels_in
from edgefl.methods.rounds.provenance import other_provenances
from edgefl.models.graph import Model
from edgefl.models.graph.model_files import refuse_foreign


def requested(
    options: Mapping[str, Any], resume: Path | None, may_grow: bool = False, data_dir: str | None = None
) -> tuple[Experiment, Model | None]:
    """Return the result of `experiment_of`, and the model of a model file. The model is None for a built-in model.

    A model of a file is identified by its content. A resumed run takes its own copy, and accepts another file of the
    same content.
    """
    given, path = dict(options), str(options.get("model", ""))
    if not path.endswith(model_file.SUFFIX):
        refuse_foreign(path)
        experiment, model = experiment_of(given, resume, may_grow, data_dir), None
    else:
        model = model_file.read(Path(path))
        given["model"] = model_file.name_of(model)
        if resume is not None and (began := Experiment.of_run(resume).model) != given["model"]:
            raise RunError(f"{resume} was run with model={began}; {path} is {given['model']}; expected the same model")
        experiment = experiment_of(given, resume, may_grow, data_dir)
    return experiment, model if resume is None else model_file.kept(resume, experiment.model)


def experiment_of(
    options: Mapping[str, Any], resume: Path | None, may_grow: bool = False, data_dir: str | None = None
) -> Experiment:
    """Return the experiment that was asked for, or the experiment of the resumed run if the given options agree with
    it.

    options   what `add_experiment` parsed and nothing else
    may_grow  a resumed run may be asked for more rounds or seeds than it has
    data_dir  directory of the data set's files, which are read where all its groups are to be clients
    Raises    ValueError naming a value that is out of range, RunError naming a setting that the run does not have
    """
    stored = Experiment() if resume is None else Experiment.of_run(resume)
    given = _given(options, stored, is_new=resume is None)
    given = with_everybody(given, stored, data_dir, is_new=resume is None)
    if resume is None:
        return with_defaults(given)
    if may_grow:
        wanted = replace(stored, **{name: given.pop(name) for name in GROWING if name in given})
        check_growth(resume, stored, wanted)
    else:
        wanted = stored
    for name, value in given.items():
        if value != getattr(stored, name):
            raise RunError(
                f"{resume} was run with {name}={_brief(getattr(stored, name))}, not {_brief(value)}; "
                "expected the same settings"
            )
    return wanted


def _brief(value: object) -> str:
    """Return the value as text of one line. The content of a file is cut to its first line."""
    first, *more = str(value).strip().splitlines() or [""]
    return f"{first} ..." if more else first


def _given(options: Mapping[str, Any], base: Experiment, is_new: bool) -> dict[str, Any]:
    """Return the given options as fields of Experiment. `base` has the methods and the data where the options name no
    others.

    is_new  all methods of a new run must have a hyper-parameter that is set; an earlier run may break this rule
    """
    given = dict(options)
    if "method" in given:
        if not labels_in(given["method"]):
            raise ValueError(f"--method {','.join(given['method'])!r}; expected {METHOD_CHOICE}")
        given["methods"] = tuple(map(label, labels_in(given.pop("method"))))
    methods = [Variant.of(each).method for each in given.get("methods", base.methods)]
    for method in methods:
        admit(method)
    if is_new:
        _check_used(given, methods)
    if "preset" in given:
        given = {**preset(given.pop("preset"), given.get("data", base.data)), **given}
    if given.get("loss"):
        given["loss"] = str(Loss.parse(given["loss"]))
    if "devices" in given:
        given["devices"] = read_devices(given["devices"])
    chosen = dict(given.get("options", base.options))
    named = [
        f"{name}={given.pop(name)}" for name in ("optimizer", "schedule", "saved", "round_seconds") if name in given
    ]
    for text in [*named, *given.pop("set", ())]:
        name, value = _assignment(text)
        if name in SHARED:
            given[name] = parse(methods, name, value)
        else:
            chosen[name] = parse(methods, name, value, by_all=is_new)
    given["options"] = tuple(sorted(chosen.items()))
    if "tune" in given:
        given["tune"] = tuple(sorted(_tried(methods, text) for text in given["tune"]))
    return given


def _tried(methods: list[str], text: str) -> tuple[str, tuple[Any, ...]]:
    """Return the option and the values that `--tune text` stands for."""
    name, equals, values = text.partition("=")
    if not (equals and values):
        raise ValueError(f"--tune {text}; expected NAME=VALUE,VALUE")
    found = tuple(parse(methods, name, value) for value in values.split(","))
    if name == "rounds" or isinstance(found[0], tuple):
        raise ValueError(f"--tune {text}; expected an option of a method that is one number or word")
    return name, found


def _check_used(given: Mapping[str, Any], methods: Sequence[str]) -> None:
    """Raise ValueError for an option of training that every chosen method lacks."""
    for name in (name for name in SHARED if name in given and name != "rounds"):
        parse(methods, name, _written(given[name]))


def _written(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--set {text}; expected NAME=VALUE")
    return name, value


def say_who_made(run: Path, devices: Iterable[str] = ()) -> None:
    """Say on stderr where the run, or one of its devices, had another version or instruction set than this process."""
    if why := other_provenances([*read_provenances(run), *devices]):
        print(f"{run} was {why}", file=sys.stderr)
