"""The options that describe an experiment, shared by the commands that need one, and the experiment they stand for."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

from edgefl.cli.former_option import add_former
from edgefl.errors import RunError
from edgefl.experiment import model_file
from edgefl.experiment.data.column_choice import AXES, MISSING
from edgefl.experiment.data.file_formats import FILES
from edgefl.experiment.data.partition_by_name import PARTITIONS
from edgefl.experiment.default_settings import ALL, with_defaults, with_everybody
from edgefl.experiment.device_models.device_assignment import read as read_devices
from edgefl.experiment.presets import NAMES as PRESETS
from edgefl.experiment.presets import defaults, preset
from edgefl.experiment.run_extension import GROWING, check_growth
from edgefl.experiment.run_json import read_provenances
from edgefl.experiment.settings import SHARED, SPLITS, Experiment
from edgefl.experiment.user_methods import admit, label
from edgefl.learning.losses import LOSSES, Loss
from edgefl.methods import METHODS, parse
from edgefl.methods.aggregation import AGGREGATIONS
from edgefl.methods.local_steps import LocalSteps
from edgefl.methods.method_label import Variant, labels_in
from edgefl.methods.rounds.change_bound import BOUNDS
from edgefl.methods.rounds.provenance import other_provenances
from edgefl.models.graph import Model
from edgefl.models.graph.architectures import NAMES
from edgefl.models.graph.model_files import refuse_foreign
from edgefl.protocol.codec import FORMATS

LOSS_HELP = f"{', '.join(LOSSES)}, with settings as in huber:delta=0.5, bce:pos_weight=2 or cross-entropy:weight=1,3"
OPTIMIZERS, SCHEDULES, SAVED = (
    get_args(get_type_hints(LocalSteps)[name]) for name in ("optimizer", "schedule", "saved")
)
SAVED_HELP = "as what values wait for the backward pass: as they are, or as float16 where that takes less memory"
METHOD_HELP = (
    f"one of {', '.join(METHODS)}, or package.module:Class of your own; of `simulate` several, separated by commas; "
    "NAME:OPTION=VALUE is a row with options of its own, as fedspu:keep=1"
)
TUNE_HELP = (
    "for each method that has this option choose one of these values, by the clients' validation samples of the first "
    "seed; given several times, among all combinations"
)
REFRESH_HELP = (
    "evaluate every client's model once more, after it has taken the newest values that the server would send it and "
    "has trained for so many epochs, of which nothing is kept"
)
EVAL_EVERY_HELP = (
    "number of rounds from one evaluation of all clients' models to the next; the last round is always evaluated; "
    "default: a twentieth of the rounds, and round 1 is evaluated, too. An evaluation costs a forward pass over every "
    "client's test samples (of fedavg-ft an epoch of training on every client besides), and no figure of time or bytes "
    "counts it"
)
STANDARDISE = (
    "train on columns, and on numbers to be learnt, in units of their spread; exported models take and give the data's "
    "own units"
)
MODELS = f"one of {', '.join(NAMES)}, or FILE.safetensors, whose weights training starts from"


def add_experiment(parser: argparse.ArgumentParser) -> None:
    """The options. One that is not given is absent from the result, so that a resumed run can tell."""
    _add_what(parser.add_argument_group("what to run", argument_default=argparse.SUPPRESS))
    _add_training(parser.add_argument_group("training", argument_default=argparse.SUPPRESS))
    _add_aggregation(parser.add_argument_group("what the server does with replies", argument_default=argparse.SUPPRESS))


def unlist(parser: argparse.ArgumentParser, uses: Callable[[str], bool]) -> None:
    """Help leaves out the options so far that a command does not use; it accepts them, so that one line of options
    serves `partition`, `serve` and `simulate`.
    """
    for action in parser._actions:
        if not any(map(uses, action.option_strings)):
            action.help = argparse.SUPPRESS


def _add_what(what: argparse._ArgumentGroup) -> None:
    what.add_argument("--method", action="append", help=METHOD_HELP)
    what.add_argument("--data", help=f"data set by name, or {FILES}; default: digits, which comes with the package")
    _add_reading(what)
    what.add_argument("--model", help=f"{MODELS}; default: chosen by the shape of the data")
    what.add_argument("--partition", help=f"{PARTITIONS}; {_default('partition')}")
    what.add_argument(
        "--clients", type=count_or_all, help=f"how many, or all: one for each group; {_default('clients')}"
    )
    what.add_argument("--fewest", type=int, metavar="N", help="leave out groups that have fewer samples")
    what.add_argument("--pool", action="store_true", help="merge the published test part into the clients' data")
    what.add_argument(
        "--partition-test",
        action="store_true",
        help="partition the published test part among the clients as well (with classes:K)",
    )
    add_former(what, "--deal-test", "--partition-test", is_flag=True)
    what.add_argument("--seed", type=int, help=_default("seed"))
    what.add_argument(
        "--preset",
        choices=PRESETS,
        help="take the settings of the FedSPU paper, of its released code, of the FedUmf paper, of the PFLEGO paper by "
        "degree of personalisation, or of the FedSpa paper",
    )


def _add_reading(what: argparse._ArgumentGroup) -> None:
    """Of a file of one's own: fields of data/column_choice.py's."""
    learnt = "column of a table, or array, that is to be learnt; default: label or y"
    what.add_argument("--label", metavar="NAME", help=learnt)
    people = (
        "the one that says whom a sample comes from: every group becomes a client, unless --partition or --clients "
        "says otherwise. Of image files a regular expression with brackets around the group"
    )
    what.add_argument("--group", metavar="NAME", help=people)
    what.add_argument("--time", metavar="NAME", help="the one that says when, for --split time")
    what.add_argument("--drop", metavar="NAME,...", type=names, help="columns that are no inputs")
    axes = f"of the array x: {', '.join(AXES)}; default: NF or NL, NHW, NCHW"
    what.add_argument("--axes", metavar="AXES", help=axes)
    what.add_argument("--standardise", action="store_true", help=STANDARDISE)
    what.add_argument("--image-size", type=int, metavar="N", help="scale images to N x N pixels")
    without = (
        "what is done about samples without a value of some feature: refuse them (default), drop them, or take the "
        "mean of the training samples"
    )
    what.add_argument("--missing", choices=MISSING, help=without)


def _add_training(training: argparse._ArgumentGroup) -> None:
    training.add_argument("--rounds", type=int, help=_default("rounds"))
    training.add_argument(
        "--per-round", type=int, help=f"clients selected in a round; {_default('per_round')}, never more than there are"
    )
    training.add_argument("--keep", type=shares, help="share of neurons that each capacity tier trains, e.g. .2,.6,1")
    training.add_argument("--epochs", type=int, help=_default("epochs"))
    training.add_argument("--batch", type=int, help=_default("batch"))
    training.add_argument("--lr", type=float, help=_default("lr"))
    training.add_argument("--loss", help=f"{LOSS_HELP}; default: the one that the data's targets ask for")
    training.add_argument("--optimizer", choices=OPTIMIZERS, help="of the methods that have one; default: sgd")
    training.add_argument(
        "--schedule", choices=SCHEDULES, help="of the learning rate over rounds; default: exponential"
    )
    training.add_argument("--saved", choices=SAVED, help=f"{SAVED_HELP}; default: fp32")
    training.add_argument(
        "--round-seconds",
        metavar="S",
        help="of training that a device's round may take, by what it has measured of itself: of fedspu-cached, served",
    )
    training.add_argument(
        "--split",
        choices=SPLITS,
        help="part a client's samples by chance (default), or by time: the newest test",
    )
    training.add_argument("--train-share", type=float, metavar="SHARE", help=_default("train_share"))
    training.add_argument(
        "--validation-share", type=float, metavar="SHARE", help="share of a client's training samples to hold out"
    )
    training.add_argument("--values", choices=FORMATS, help="number format of the payloads")
    training.add_argument("--set", action="append", metavar="NAME=VALUE", help="set any hyper-parameter of a method")
    training.add_argument("--eval-every", type=int, metavar="ROUNDS", help=EVAL_EVERY_HELP)
    training.add_argument("--tune", action="append", metavar="NAME=VALUE,VALUE", help=TUNE_HELP)
    training.add_argument("--tune-rounds", type=int, metavar="N", help="rounds of such a trial; default: as --rounds")
    training.add_argument("--refresh", type=int, metavar="EPOCHS", help=REFRESH_HELP)
    training.add_argument("--train-scores", action="store_true", help="evaluate on clients' training samples too")


def _add_aggregation(replies: argparse._ArgumentGroup) -> None:
    replies.add_argument("--aggregation", metavar="MEAN", help=f"{AGGREGATIONS}; {_default('aggregation')}")
    add_former(replies, "--fold", "--aggregation")
    replies.add_argument(
        "--bound", metavar="WHAT", help=f"on how far a reply moves a parameter: {BOUNDS}; {_default('bound')}"
    )
    replies.add_argument(
        "--max-examples",
        type=int,
        metavar="N",
        help="clients that have more samples for training count as with so many",
    )


def _default(name: str) -> str:
    """The default of a setting in words, for the digits and for other data where they differ."""
    ours, other = getattr(Experiment, name), defaults("").get(name)
    return f"default: {ours}" if other in (None, ours) else f"default: {ours} for digits, otherwise {other}"


def names(text: str) -> tuple[str, ...]:
    """An option's value of names separated by commas."""
    return tuple(filter(None, text.split(",")))


def count_or_all(text: str) -> int | str:
    """An option's value: a number, or `all`."""
    try:
        return text if text == ALL else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}; expected a number, or {ALL}") from None


def shares(text: str) -> tuple[float, ...]:
    """An option's value of numbers separated by commas."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}; expected numbers separated by commas") from None


def requested(
    options: Mapping[str, Any], resume: Path | None, may_grow: bool = False, data_dir: str | None = None
) -> tuple[Experiment, Model | None]:
    """`experiment_of`, and the model that a file has; None where the experiment names a built-in one.

    A file's model goes by its content: a resumed run takes its own copy, and another file of the same content agrees.
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
    """The experiment that was asked for, or the one of the resumed run if the options given agree with it.

    options   what `add_experiment` parsed and nothing else
    may_grow  a resumed run may be asked for more rounds or seeds than it has
    data_dir  directory of the data set's files, which are read where all its groups are to be clients
    Raises    ValueError naming a value that is out of range, RunError naming a setting that the run does not have.
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
    """As text of one line; of a file's content the first."""
    first, *more = str(value).strip().splitlines() or [""]
    return f"{first} ..." if more else first


def _given(options: Mapping[str, Any], base: Experiment, is_new: bool) -> dict[str, Any]:
    """The options that were given, as fields of Experiment; `base` says which methods and data there are otherwise.

    is_new  all methods of a new run must have a hyper-parameter that is set; earlier ones were not held to that
    """
    given = dict(options)
    if "method" in given:
        if not labels_in(given["method"]):
            raise ValueError(f"--method {','.join(given['method'])!r}; expected {METHOD_HELP.partition(';')[0]}")
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
    """What `--tune text` stands for."""
    name, equals, values = text.partition("=")
    if not (equals and values):
        raise ValueError(f"--tune {text}; expected NAME=VALUE,VALUE")
    found = tuple(parse(methods, name, value) for value in values.split(","))
    if name == "rounds" or isinstance(found[0], tuple):
        raise ValueError(f"--tune {text}; expected an option of a method that is one number or word")
    return name, found


def _check_used(given: Mapping[str, Any], methods: Sequence[str]) -> None:
    """Raises ValueError for an option of training that none of the methods has."""
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
    """Says on stderr where the run, or one of its devices, had another version or instruction set than this process."""
    if why := other_provenances([*read_provenances(run), *devices]):
        print(f"{run} was {why}", file=sys.stderr)
