"""run.toml: the settings of a simulation as a file that a person writes or changes, and that `edgefl simulate` reads.

    methods = ["fedspu", "fedavg"]      or method = "fedspu,fedavg"
    data = "digits"                     a name, or the path of a file, relative to run.toml. model and devices can be
                                        paths as well
    rounds = 60
    [options]                           hyper-parameters of the methods
    momentum = 0.9
    [tune]                              hyper-parameters that validation data choose for each method
    lr = [0.01, 0.1]

The keys are the fields of Experiment. `preset` and `data_dir` may be there as well. A field that is left out has its
default. Every run writes a run.toml that repeats the run, bit for bit. A run knows its own settings by run.json
(run_json.py).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from edgefl.errors import RequestError, RunError, expected_name, former_name
from edgefl.experiment import model_file
from edgefl.experiment.array_data import KEPT
from edgefl.experiment.default_settings import ALL
from edgefl.experiment.settings import FORMER, PAIRS, SHARED, Experiment, check_kind
from edgefl.methods import settings_of
from edgefl.methods.method_label import Variant
from edgefl.system import toml
from edgefl.system.durable_files import write_atomically
from edgefl.system.settings_text import read_settings_text

RUN_CONFIGURATION = "run.toml"
DEVICES = "devices.toml"  # file in the same directory with the user's own devices
BESIDE = {"method": "", "preset": "", "data_dir": ""}  # keys with texts that are not fields of Experiment
FIRST_LINE = "# edgefl simulate run.toml  repeats this run"


def write(run: Path, experiment: Experiment, data_dir: str | os.PathLike[str] | None = None) -> None:
    """Write the file that repeats the run, and the file of the user's own devices, unless they have this content."""
    texts = {RUN_CONFIGURATION: text_of(experiment, data_dir)}
    if _is_text(experiment.devices):
        texts[DEVICES] = experiment.devices
    for name, text in texts.items():
        path, content = run / name, text.encode()
        if not path.exists() or path.read_bytes() != content:
            write_atomically(path, content)


def text_of(experiment: Experiment, data_dir: str | os.PathLike[str] | None = None) -> str:
    """Return the settings as TOML. They name the run's copies of a model or of arrays. Other paths are absolute."""
    values = {name: value for name, value in experiment.to_json().items() if value is not None}
    values = {FORMER.get(name, name): value for name, value in values.items()}
    tables = {name: dict(values.pop(name)) for name in PAIRS if values.get(name)}
    values.pop("options", None)
    for name in unused(experiment.methods):
        del values[name]
    if experiment.model.startswith(model_file.NAMED):
        values["model"] = model_file.COPY
    if not KEPT.fullmatch(experiment.data) and Path(experiment.data).suffix and Path(experiment.data).exists():
        values["data"] = str(Path(experiment.data).absolute())
    if _is_text(experiment.devices):
        values["devices"] = DEVICES
    if data_dir is not None:
        values["data_dir"] = str(Path(data_dir).absolute())
    lines = [FIRST_LINE, *_assignments(values)]
    for name, table in tables.items():
        lines += ["", f"[{name}]", *_assignments(table)]
    return "\n".join(lines) + "\n"


def read(path: Path) -> dict[str, Any]:
    """Return the settings of a file in the form that the command line has. They are then read like options of a
    command.

    Raises  RequestError naming the file and the first key that is unknown or has another kind of value.
    """
    found = _parsed(path)
    for name in FORMER.keys() & found.keys():
        print(f"warning: {path}: {former_name(name, FORMER[name])}", file=sys.stderr)
        found[FORMER[name]] = found.pop(name)
    known = {each.name for each in fields(Experiment) if each.name != "tuned"} | BESIDE.keys()
    for name, value in found.items():
        if name not in known:
            raise RequestError(f"{path}: {name} is not a setting; {expected_name(name, sorted(known))}")
        _check(path, name, value)
    return _as_given(path.parent, found)


def _as_given(folder: Path, found: dict[str, Any]) -> dict[str, Any]:
    methods = found.pop("methods", [])
    if "method" in found:
        methods = [*methods, found.pop("method")]
    given: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}
    for name in ("data", "model", "data_dir", "devices"):
        text = given.get(name, "")
        if (
            text
            and not _is_text(text)
            and not Path(text).is_absolute()
            and (folder / text).exists()
            and (Path(text).suffix or os.sep in text)
        ):
            given[name] = str(folder / text)
    chosen, tried = (_texts(given.pop(name, {})) for name in PAIRS)
    lists = {"method": methods, "set": chosen, "tune": tried}
    return {**given, **{name: texts for name, texts in lists.items() if texts}}


def _is_text(devices: str) -> bool:
    """Return whether `devices` is the content of a file, and not a name."""
    return "\n" in devices


def _check(path: Path, name: str, value: Any) -> None:
    if name in BESIDE and not isinstance(value, str):
        raise RequestError(f"{path}: {name}={value!r}; expected text")
    if name in PAIRS and not isinstance(value, Mapping):
        raise RequestError(f"{path}: {name}={value!r}; expected a table, [{name}]")
    if name in BESIDE or name in PAIRS or (name, value) == ("clients", ALL):
        return
    try:
        check_kind(name, value)
    except RunError as error:
        raise RequestError(f"{path}: {error}") from None


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return toml.parse(read_settings_text(path))
    except OSError as error:
        raise RequestError(f"{path} cannot be read ({error.strerror}); expected settings as TOML") from None
    except ValueError as error:
        raise RequestError(f"{path} cannot be read ({error}); expected settings as TOML") from None


def unused(labels: Iterable[str]) -> set[str]:
    """Return the shared settings that no method with one of these labels has."""
    used = {name for label in labels for name in settings_of(Variant.of(label).method)}
    return set(SHARED) - used - {"rounds"}


def _assignments(values: Mapping[str, Any]) -> list[str]:
    return [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in values.items()]


def _texts(table: Mapping[str, Any]) -> list[str]:
    return [f"{name}={_text(value)}" for name, value in table.items()]


def _text(value: Any) -> str:
    """Write a hyper-parameter as `--set NAME=VALUE` has it."""
    if isinstance(value, list):
        return ",".join(map(_text, value))
    return json.dumps(value) if isinstance(value, bool) else str(value)
