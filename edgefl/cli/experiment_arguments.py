"""The options that describe an experiment, in groups by purpose. experiment_options.py makes the experiment that the
options stand for.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import get_args, get_type_hints

from edgefl.cli.former_option import add_former
from edgefl.experiment.data.column_choice import AXES, MISSING
from edgefl.experiment.data.file_formats import FILES
from edgefl.experiment.data.partition_by_name import PARTITIONS
from edgefl.experiment.default_settings import ALL
from edgefl.experiment.presets import NAMES as PRESETS
from edgefl.experiment.presets import defaults
from edgefl.experiment.settings import SPLITS, Experiment
from edgefl.learning.losses import LOSSES
from edgefl.methods import METHODS
from edgefl.methods.aggregation import AGGREGATIONS
from edgefl.methods.local_steps import LocalSteps
from edgefl.methods.rounds.change_bound import BOUNDS
from edgefl.models.graph.architectures import NAMES
from edgefl.protocol.codec import FORMATS

LOSS_HELP = (
    f"loss that training minimises: {', '.join(LOSSES)}. A loss may have settings, as in huber:delta=0.5, "
    "bce:pos_weight=2, cross-entropy:weight=1,3 or cross-entropy:ignore_index=0."
)
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
REFRESH_HELP = (
    "number of epochs of an extra training, after which every client's model is evaluated once more. The training "
    "starts from the newest values of the server, and its result is then discarded. (default: 0)"
)
EVAL_EVERY_HELP = (
    "number of rounds from one evaluation of all clients' models to the next. The last round is always evaluated. An "
    "evaluation costs a forward pass over every client's test samples, and with fedavg-ft also an epoch of training on "
    "every client. The figures of time and bytes do not count evaluations. (default: a twentieth of the rounds, and "
    "round 1 is evaluated as well)"
)
DATA_DIR = (
    "directory that is searched first for the files of a data set. The directory $EDGEFL_DATA, the cache and the "
    "system's data sets are searched next."
)
STANDARDISE = (
    "shift and scale every input column, and every numeric target, by its centre and its spread. Exported models take "
    "and give the data's own units."
)
GROUP_HELP = (
    "column or array that names the person or the place that a sample comes from. Every group becomes a client, "
    "unless --partition or --clients says otherwise. For image files, give a regular expression with brackets around "
    "the group."
)
MISSING_HELP = (
    "treatment of a sample that has no value in some column: refuse the data, drop the sample, or fill in the mean of "
    "the training samples (default: refuse)"
)
ROUND_SECONDS_HELP = (
    "time in seconds that a device's training may take in a round. The server then chooses the share of neurons by the "
    "throughput that the device has measured. The option needs the method fedspu-cached and `edgefl serve`. (default: "
    "no limit)"
)
TRAIN_HELP = (
    "trained part of the model, as patterns over names of parameters that are separated by commas (for example: "
    "blocks.11.*,*.bias). The words head, biases, norms and last:K stand for usual parts, a pattern that begins with - "
    "takes away, and rows and columns in brackets choose a slice, as in fc.weight[0:8] and fc.weight[:, 0:32]. All "
    "other parameters are frozen: no step moves them, and no message of a round carries them. "
    "(default: all parameters that the model does not freeze)"
)
DATA_HELP = f"name of a data set, or samples of your own. They may be {FILES}."
PRESET_HELP = (
    "settings of a publication: paper for FedSPU, code for the code released with FedSPU, fedumf for FedUmf, "
    "pflego-high, pflego-medium and pflego-no for PFLEGO by its degree of personalisation, or fedspa for FedSpa "
    "(default: no preset)"
)


def add_experiment(parser: argparse.ArgumentParser) -> None:
    """Add the options to the parser.

    An option that is not given is absent from the result. So a resumed run can tell an option that repeats the
    default from an option that was not given.
    """
    for title, add in (
        ("what to run", _add_what),
        ("data", _add_data),
        ("clients and their samples", _add_clients),
        ("model and training", _add_training),
        ("settings of methods, and their tuning", _add_settings),
        ("evaluation", _add_evaluation),
        ("aggregation of replies", _add_aggregation),
        ("asynchronous rounds", _add_asynchronous),
    ):
        add(parser.add_argument_group(title, argument_default=argparse.SUPPRESS))


def unlist(parser: argparse.ArgumentParser, uses: Callable[[str], bool]) -> None:
    """Hide the options that a command does not use from its help, among the options that were added so far.

    The command accepts the hidden options, so that one line of options serves `partition`, `serve` and `simulate`.
    """
    for action in parser._actions:
        if not any(map(uses, action.option_strings)):
            action.help = argparse.SUPPRESS


def _add_what(what: argparse._ArgumentGroup) -> None:
    what.add_argument("--method", action="append", metavar="NAME", help=METHOD_HELP)
    what.add_argument("--rounds", type=int, metavar="N", help=f"number of rounds {_default('rounds')}")
    what.add_argument("--seed", type=int, metavar="N", help=f"seed of all random numbers {_default('seed')}")
    what.add_argument("--preset", choices=PRESETS, metavar="NAME", help=PRESET_HELP)


def _add_data(data: argparse._ArgumentGroup) -> None:
    """Add the data to train on, and how a file of the user's own is read (experiment/data/column_choice.py)."""
    own = f"{DATA_HELP} (default: digits, which comes with the package)"
    data.add_argument("--data", metavar="NAME|FILE", help=own)
    learnt = (
        "column or array that the model learns to predict, where x stands for the inputs themselves "
        "(default: label, or else y)"
    )
    data.add_argument("--label", metavar="NAME", help=learnt)
    data.add_argument("--group", metavar="NAME", help=GROUP_HELP)
    data.add_argument("--time", metavar="NAME", help="column or array with the time of each sample, for --split time")
    dropped = "names of columns that the model does not read, separated by commas"
    data.add_argument("--drop", metavar="NAME,...", type=names, help=dropped)
    axes = f"order of the axes of the array x: {', '.join(AXES)} (default: NF or NL, NHW or NCHW, by their number)"
    data.add_argument("--axes", metavar="AXES", help=axes)
    data.add_argument("--standardise", action="store_true", help=STANDARDISE)
    scaled = "width and height in pixels to which images are scaled (default: images keep their size)"
    data.add_argument("--image-size", type=int, metavar="N", help=scaled)
    data.add_argument("--missing", choices=MISSING, help=MISSING_HELP)


def _add_clients(clients: argparse._ArgumentGroup) -> None:
    """Add the number of clients, their samples, and the samples for their tests."""
    number = f"number of clients, or `all` to make every group of the data a client {_default('clients')}"
    clients.add_argument("--clients", type=count_or_all, metavar="N", help=number)
    chosen = f"number of clients that are selected in a round, at most all clients {_default('per_round')}"
    clients.add_argument("--per-round", type=int, metavar="N", help=chosen)
    spread = f"way in which the samples are partitioned among the clients: {PARTITIONS} {_default('partition')}"
    clients.add_argument("--partition", metavar="HOW", help=spread)
    fewest = "smallest number of samples with which a group becomes a client (default: 0)"
    clients.add_argument("--fewest", type=int, metavar="N", help=fewest)
    pool = "merge the published test part of the data set into the clients' data"
    clients.add_argument("--pool", action="store_true", help=pool)
    tests = "partition the published test part among the clients as well. The option needs --partition classes:K."
    clients.add_argument("--partition-test", action="store_true", help=tests)
    add_former(clients, "--deal-test", "--partition-test", is_flag=True)
    split = "way in which a client's samples are split for training and test: at random, or by time with the newest "
    clients.add_argument("--split", choices=SPLITS, help=f"{split}samples for the test (default: random)")
    share = f"share of a client's samples that the client trains on {_default('train_share')}"
    clients.add_argument("--train-share", type=float, metavar="SHARE", help=share)
    held = f"share of a client's training samples that is held out for validation {_default('validation_share')}"
    clients.add_argument("--validation-share", type=float, metavar="SHARE", help=held)


def _add_training(training: argparse._ArgumentGroup) -> None:
    model = f"{', '.join(NAMES)}, or FILE.safetensors, from whose weights training starts"
    training.add_argument(
        "--model", metavar="NAME|FILE", help=f"model: {model} (default: a model that suits the data's shape)"
    )
    training.add_argument("--train", metavar="PATTERNS", help=TRAIN_HELP)
    tiers = (
        f"shares of neurons that clients train, above 0 and at most 1, one for each capacity tier {_default('keep')}"
    )
    training.add_argument("--keep", type=shares, metavar="SHARE,...", help=tiers)
    passes = f"number of times that a client goes through its training samples in a round {_default('epochs')}"
    training.add_argument("--epochs", type=int, metavar="N", help=passes)
    training.add_argument("--batch", type=int, metavar="N", help=f"number of samples in a batch {_default('batch')}")
    training.add_argument("--lr", type=float, metavar="RATE", help=f"learning rate of the clients {_default('lr')}")
    training.add_argument("--loss", help=f"{LOSS_HELP} (default: the loss that suits the data's labels)")
    steps = "optimizer of the clients' training, for the methods that have an optimizer (default: sgd)"
    training.add_argument("--optimizer", choices=OPTIMIZERS, help=steps)
    falls = "schedule by which the learning rate changes from round to round (default: exponential)"
    training.add_argument("--schedule", choices=SCHEDULES, help=falls)
    training.add_argument("--saved", choices=SAVED, help=f"{SAVED_HELP} (default: fp32)")
    training.add_argument("--round-seconds", metavar="S", help=ROUND_SECONDS_HELP)
    sent = f"number format of the values that clients and server send each other: {', '.join(FORMATS)}"
    training.add_argument("--values", choices=FORMATS, metavar="FORMAT", help=f"{sent} {_default('values')}")


def _add_settings(settings: argparse._ArgumentGroup) -> None:
    """Add hyper-parameters of methods by their names, and the tuning of hyper-parameters."""
    any_of = (
        "value of a hyper-parameter for every method that has it (for example: mu=0.1). Repeat the option to set more."
    )
    settings.add_argument("--set", action="append", metavar="NAME=VALUE", help=any_of)
    settings.add_argument("--tune", action="append", metavar="NAME=VALUE,VALUE", help=TUNE_HELP)
    trial = "number of rounds of each trial of --tune (default: as many as --rounds)"
    settings.add_argument("--tune-rounds", type=int, metavar="N", help=trial)


def _add_evaluation(evaluation: argparse._ArgumentGroup) -> None:
    evaluation.add_argument("--eval-every", type=int, metavar="ROUNDS", help=EVAL_EVERY_HELP)
    evaluation.add_argument("--refresh", type=int, metavar="EPOCHS", help=REFRESH_HELP)
    held = "number of further clients that own samples and never take part. Each evaluation adapts the server's model "
    evaluation.add_argument("--held-out", type=int, metavar="N", help=f"{held}to them and tests it (default: 0)")
    about = "write gradient norms, the overlap of clients' parts and the drift of masks into the records of evaluated "
    evaluation.add_argument("--diagnose", action="store_true", help=f"{about}rounds")
    scores = "evaluate the models on the clients' training samples as well"
    evaluation.add_argument("--train-scores", action="store_true", help=scores)


def _add_aggregation(replies: argparse._ArgumentGroup) -> None:
    """Add the way in which the server treats the replies of a round."""
    mean = f"way in which the server averages the replies of a round: {AGGREGATIONS} {_default('aggregation')}"
    replies.add_argument("--aggregation", metavar="MEAN", help=mean)
    add_former(replies, "--fold", "--aggregation")
    bound = f"treatment of a reply that moves a parameter too far: {BOUNDS} {_default('bound')}"
    replies.add_argument("--bound", metavar="WHAT", help=bound)
    most = "largest number of samples by which a client's reply is weighted (default: the most that a client has)"
    replies.add_argument("--max-examples", type=int, metavar="N", help=most)


def _add_asynchronous(rounds: argparse._ArgumentGroup) -> None:
    """Add the settings of rounds that do not wait for all their clients."""
    size = "number of accepted replies that close a round, while the other clients go on with their tasks. At most "
    most = "--per-round clients have a task at a time. With 0 a round waits for its clients."
    rounds.add_argument("--buffer", type=int, metavar="N", help=f"{size}{most} {_default('buffer')}")
    falls = "effect of a reply's staleness s, the number of rounds that were closed since its task was sent. With "
    how = (
        "step:A, (1 + s)^-A multiplies the change of the reply. With weight:A, it multiplies the weight of the reply. "
    )
    rounds.add_argument(
        "--staleness", metavar="HOW", help=f"{falls}{how}With none, staleness has no effect. {_default('staleness')}"
    )
    oldest = "largest staleness of a reply. An older task is given up, and its reply counts as late."
    rounds.add_argument("--max-staleness", type=int, metavar="N", help=f"{oldest} {_default('max_staleness')}")


def _default(name: str) -> str:
    """Return the end of a help text: the default of a setting, for digits and for other data where they differ."""
    ours, other = _words(getattr(Experiment, name)), defaults("").get(name)
    if other is None or _words(other) == ours:
        return f"(default: {ours})"
    return f"(default: {ours} for digits, {_words(other)} for other data)"


def _words(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def names(text: str) -> tuple[str, ...]:
    """Read names that are separated by commas."""
    return tuple(filter(None, text.split(",")))


def count_or_all(text: str) -> int | str:
    """Read a number, or the word `all`. Raises ArgumentTypeError for anything else."""
    try:
        return text if text == ALL else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}; expected a number, or {ALL}") from None


def shares(text: str) -> tuple[float, ...]:
    """Read numbers that are separated by commas. Raises ArgumentTypeError for anything else."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}; expected numbers separated by commas") from None
