"""The options that describe an experiment, in groups by purpose. experiment_options.py makes the experiment that the
options stand for.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import Field, fields
from typing import Any, get_args, get_type_hints

from edgefl.cli.former_option import add_former
from edgefl.experiment.default_settings import ALL
from edgefl.experiment.experiment_fields import GROUPS, TRAINING, TUNING, WHAT
from edgefl.experiment.presets import NAMES as PRESETS
from edgefl.experiment.presets import defaults
from edgefl.experiment.setting_description import description_of
from edgefl.experiment.settings import OF_NONE, Experiment
from edgefl.methods import METHODS
from edgefl.methods.local_steps import LocalSteps

OPTIMIZERS, SCHEDULES, SAVED = (
    get_args(get_type_hints(LocalSteps)[name]) for name in ("optimizer", "schedule", "saved")
)
SAVED_HELP = (
    "number format of the activations that are saved for the backward pass: fp32, or fp16 for the activations that "
    "need less memory as float16"
)
METHOD_CHOICE = f"one of {', '.join(METHODS)}, or package.module:Class of your own"
METHOD_HELP = (
    "name of a method, such as fedspu or fedavg, or package.module:Class of your own. `edgefl methods` lists the names "
    "and describes the methods. NAME:OPTION=VALUE gives one method an option of its own, as in fedspu:keep=1. `edgefl "
    "serve` takes one method, and `edgefl simulate` takes several methods, "
    "separated by commas. (default: fedspu-es for `edgefl serve`, otherwise "
    f"{','.join(Experiment.methods)})"
)
TUNE_HELP = (
    "hyper-parameter to tune, and the values to try (for example: lr=0.01,0.05). Each method that has the "
    "hyper-parameter gets the value that is best on the clients' validation samples of the first seed. If the option "
    "is repeated, all combinations are tried. (default: nothing is tuned)"
)
DATA_DIR = (
    "directory that is searched first for the files of a data set. The directory $EDGEFL_DATA, the cache and the "
    "system's data sets are searched next."
)
ROUND_SECONDS_HELP = (
    "time in seconds that a device's training may take in a round. The server then chooses the share of neurons by the "
    "throughput that the device has measured. The option needs the method fedspu-cached and `edgefl serve`. (default: "
    "no limit)"
)
PRESET_HELP = (
    "settings of a publication: paper for FedSPU, code for the code released with FedSPU, fedumf for FedUmf, "
    "pflego-high, pflego-medium and pflego-no for PFLEGO by its degree of personalisation, or fedspa for FedSpa "
    "(default: no preset)"
)


def add_experiment(parser: argparse.ArgumentParser) -> None:
    """Add the options to the parser: the options of the fields of Experiment, and the options of methods.

    An option that is not given is absent from the result. So a resumed run can tell an option that repeats the
    default from an option that was not given.
    """
    for title in GROUPS:
        group = parser.add_argument_group(title, argument_default=argparse.SUPPRESS)
        if title == WHAT:
            group.add_argument("--method", action="append", metavar="NAME", help=METHOD_HELP)
        if title == TUNING:
            _add_settings(group)
        for each in fields(Experiment):
            if description_of(each).group == title:
                add_setting(group, each.name)
        if title == WHAT:
            group.add_argument("--preset", choices=PRESETS, metavar="NAME", help=PRESET_HELP)
        if title == TRAINING:
            _add_optimizer(group)


def add_setting(group: argparse._ArgumentGroup, name: str) -> None:
    """Add the option of a setting: its field's name, type, default value and description."""
    each = _field(name)
    about = description_of(each)
    option = about.option or f"--{name.replace('_', '-')}"
    more: dict[str, Any] = {"dest": name, "default": argparse.SUPPRESS}
    if each.default is False:
        more |= {"action": "store_true", "help": about.meaning}
    else:
        more |= {"type": _reader(name, each.default), "help": help_of(name), "metavar": about.metavar or None}
        more |= {"choices": about.choices} if about.choices else {}
    group.add_argument(option, **more)
    if about.former:
        add_former(group, about.former, option, is_flag=each.default is False)


def help_of(name: str) -> str:
    """Return the help of a setting: its meaning, and its default value."""
    about = description_of(_field(name))
    default = default_of(name) if about.default is None else about.default
    return f"{about.meaning} (default: {default})" if default else about.meaning


def _field(name: str) -> Field[Any]:
    (found,) = (each for each in fields(Experiment) if each.name == name)
    return found


def _reader(name: str, default: object) -> Callable[[str], Any]:
    """Return what reads the text of an option, by the type of the setting's default value."""
    if name == "clients":
        return count_or_all
    if isinstance(default, tuple):
        return shares if default and isinstance(default[0], float) else names
    return type(OF_NONE[name] if default is None else default)


def unlist(parser: argparse.ArgumentParser, uses: Callable[[str], bool]) -> None:
    """Hide the options that a command does not use from its help, among the options that were added so far.

    The command accepts the hidden options, so that one line of options serves `partition`, `serve` and `simulate`.
    """
    for action in parser._actions:
        if not any(map(uses, action.option_strings)):
            action.help = argparse.SUPPRESS


def _add_optimizer(training: argparse._ArgumentGroup) -> None:
    """Add hyper-parameters that most methods have, as options of their own."""
    steps = "optimizer of the clients' training, for the methods that have an optimizer (default: sgd)"
    training.add_argument("--optimizer", choices=OPTIMIZERS, help=steps)
    falls = "schedule by which the learning rate changes from round to round (default: exponential)"
    training.add_argument("--schedule", choices=SCHEDULES, help=falls)
    training.add_argument("--saved", choices=SAVED, help=f"{SAVED_HELP} (default: fp32)")
    training.add_argument("--round-seconds", metavar="S", help=ROUND_SECONDS_HELP)


def _add_settings(settings: argparse._ArgumentGroup) -> None:
    """Add hyper-parameters of methods by their names, and the tuning of hyper-parameters."""
    any_of = (
        "value of a hyper-parameter for every method that has it (for example: mu=0.1). Repeat the option to set more."
    )
    settings.add_argument("--set", action="append", metavar="NAME=VALUE", help=any_of)
    settings.add_argument("--tune", action="append", metavar="NAME=VALUE,VALUE", help=TUNE_HELP)


def default_of(name: str) -> str:
    """Return the default value of a setting in words, for digits and for other data where they differ."""
    ours, other = _words(getattr(Experiment, name)), defaults("").get(name)
    if other is None or _words(other) == ours:
        return ours
    return f"{ours} for digits, {_words(other)} for other data"


def _words(value: object) -> str:
    if value is False:
        return ""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def count_or_all(text: str) -> int | str:
    """Read a number, or the word `all`. Raises ArgumentTypeError for anything else."""
    try:
        return text if text == ALL else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}; expected a number, or {ALL}") from None


def names(text: str) -> tuple[str, ...]:
    """Read names that are separated by commas."""
    return tuple(filter(None, text.split(",")))


def shares(text: str) -> tuple[float, ...]:
    """Read numbers that are separated by commas. Raises ArgumentTypeError for anything else."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}; expected numbers separated by commas") from None
