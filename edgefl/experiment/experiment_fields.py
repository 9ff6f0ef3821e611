"""The settings of an experiment, each with its type, its default value and its description, in the order of run.json.

Nothing is checked or computed here (settings.py). What a default of "" or 0 stands for is said in the description.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from edgefl.experiment.data.column_choice import AXES, MISSING
from edgefl.experiment.data.file_formats import FILES
from edgefl.experiment.data.partition_by_name import PARTITIONS
from edgefl.experiment.device_models.device_assignment import NAMES as DEVICES
from edgefl.experiment.setting_description import one_of, setting
from edgefl.experiment.tuned_values import Choices, Grid
from edgefl.learning.losses import LOSSES
from edgefl.methods.aggregation import AGGREGATIONS
from edgefl.methods.rounds.change_bound import BOUNDS
from edgefl.models.graph.architectures import NAMES as MODELS
from edgefl.protocol.codec import FORMATS

SPLITS = ("random", "time")
DATA = "data"  # groups of options of the command line
CLIENTS = "clients and their samples"
TRAINING = "model and training"
TUNING = "settings of methods, and their tuning"
EVALUATION = "evaluation"
AGGREGATION = "aggregation of replies"
ASYNCHRONOUS = "asynchronous rounds"
WHAT = "what to run"
GROUPS = (WHAT, DATA, CLIENTS, TRAINING, TUNING, EVALUATION, AGGREGATION, ASYNCHRONOUS)

LOSS = (
    f"loss that training minimises: {one_of(tuple(LOSSES))}. A loss may have settings, as in huber:delta=0.5, "
    "bce:pos_weight=2, cross-entropy:weight=1,3 or cross-entropy:ignore_index=0."
)
TRAIN = (
    "trained part of the model, as patterns over names of parameters that are separated by commas (for example: "
    "blocks.11.*,*.bias). The words head, biases, norms and last:K stand for usual parts, a pattern that begins with - "
    "takes away, and rows and columns in brackets choose a slice, as in fc.weight[0:8] and fc.weight[:, 0:32]. All "
    "other parameters are frozen: no step moves them, and no message of a round carries them."
)
EVAL_EVERY = (
    "number of rounds from one evaluation of all clients' models to the next. The last round is always evaluated. An "
    "evaluation costs a forward pass over every client's test samples, and with fedavg-ft also an epoch of training on "
    "every client. The figures of time and bytes do not count evaluations."
)
REFRESH = (
    "number of epochs of an extra training, after which every client's model is evaluated once more. The training "
    "starts from the newest values of the server, and its result is then discarded."
)
STANDARDISE = (
    "shift and scale every input column, and every numeric target, by its centre and its spread. Exported models take "
    "and give the data's own units."
)
GROUP = (
    "column or array that names the person or the place that a sample comes from. Every group becomes a client, "
    "unless --partition or --clients says otherwise. For image files, give a regular expression with brackets around "
    "the group."
)
MISSING_VALUES = (
    "treatment of a sample that has no value in some column: refuse the data, drop the sample, or fill in the mean of "
    "the training samples"
)
DATA_SETS = f"name of a data set, or samples of your own. They may be {FILES}."
STALENESS = (
    "effect of a reply's staleness s, the number of rounds that were closed since its task was sent. With step:A, "
    "(1 + s)^-A multiplies the change of the reply. With weight:A, it multiplies the weight of the reply. With none, "
    "staleness has no effect."
)
BUFFER = (
    "number of accepted replies that close a round, while the other clients go on with their tasks. At most "
    "--per-round clients have a task at a time. With 0 a round waits for its clients."
)
DEADLINE = (
    "time in virtual seconds after which a round is closed and later replies are left out. The option needs --devices."
)
HELD_OUT = (
    "number of further clients that own samples and never take part. Each evaluation adapts the server's model to "
    "them and tests it"
)
DIAGNOSE = (
    "write gradient norms, the overlap of clients' parts and the drift of masks into the records of evaluated rounds"
)
TESTS = "partition the published test part among the clients as well. The option needs --partition classes:K."
SPLIT = (
    "way in which a client's samples are split for training and test: at random, or by time with the newest samples "
    "for the test"
)


@dataclass(frozen=True)
class ExperimentFields:
    """The settings of an experiment. The default values are the demonstration that `edgefl simulate` gives."""

    methods: tuple[str, ...] = setting(("fedspu", "local", "fedavg-ft", "fedavg"), "labels of the methods")
    data: str = setting("digits", DATA_SETS, DATA, metavar="NAME|FILE", default="digits, which comes with the package")
    model: str = setting(
        "",
        f"model: {one_of(MODELS)}, or FILE.safetensors, from whose weights training starts",
        TRAINING,
        metavar="NAME|FILE",
        default="a model that suits the data's shape",
    )

    rounds: int = setting(30, "number of rounds", WHAT, metavar="N")
    seed: int = setting(1, "seed of all random numbers", WHAT, metavar="N")
    seeds: int = setting(
        1,
        "number of runs of every method, with the seeds seed, seed + 1, ...",
        option="--seeds",
        metavar="N",
        is_left_out=True,
    )

    label: str = setting(
        "",
        "column or array that the model learns to predict, where x stands for the inputs themselves",
        DATA,
        metavar="NAME",
        default="label, or else y",
        is_left_out=True,
    )
    group: str = setting("", GROUP, DATA, metavar="NAME", default="", is_left_out=True)
    time: str = setting(
        "",
        "column or array with the time of each sample, for --split time",
        DATA,
        metavar="NAME",
        default="",
        is_left_out=True,
    )
    drop: tuple[str, ...] = setting(
        (),
        "names of columns that the model does not read, separated by commas",
        DATA,
        metavar="NAME,...",
        default="",
        is_left_out=True,
    )
    axes: str = setting(
        "",
        f"order of the axes of the array x: {one_of(AXES)}",
        DATA,
        metavar="AXES",
        default="NF or NL, NHW or NCHW, by their number",
        is_left_out=True,
    )
    image_size: int = setting(
        0,
        "width and height in pixels to which images are scaled",
        DATA,
        metavar="N",
        default="images keep their size",
        is_left_out=True,
    )
    missing: str = setting("", MISSING_VALUES, DATA, choices=MISSING, default="refuse", is_left_out=True)
    standardise: bool = setting(False, STANDARDISE, DATA, is_left_out=True)

    clients: int = setting(
        20,
        "number of clients, or `all` to make every group of the data a client",
        CLIENTS,
        metavar="N",
        kind="int | Literal['all']",
    )
    per_round: int = setting(
        5, "number of clients that are selected in a round, at most all clients", CLIENTS, metavar="N"
    )
    partition: str = setting(
        "dirichlet:0.1",
        f"way in which the samples are partitioned among the clients: {PARTITIONS}",
        CLIENTS,
        metavar="HOW",
    )
    fewest: int = setting(
        0, "smallest number of samples with which a group becomes a client", CLIENTS, metavar="N", is_left_out=True
    )
    pool: bool = setting(False, "merge the published test part of the data set into the clients' data", CLIENTS)
    partition_test: bool = setting(False, TESTS, CLIENTS, former="--deal-test")
    split: str = setting("random", SPLIT, CLIENTS, choices=SPLITS, is_left_out=True)
    train_share: float = setting(0.7, "share of a client's samples that the client trains on", CLIENTS, metavar="SHARE")
    validation_share: float = setting(
        0.1, "share of a client's training samples that is held out for validation", CLIENTS, metavar="SHARE"
    )

    train: str = setting(
        "",
        TRAIN,
        TRAINING,
        metavar="PATTERNS",
        default="all parameters that the model does not freeze",
        kind="str | Sequence[str] | None",
        is_left_out=True,
    )
    keep: tuple[float, ...] = setting(
        (0.2, 0.4, 0.6, 0.8, 1.0),
        "shares of neurons that clients train, above 0 and at most 1, one for each capacity tier",
        TRAINING,
        metavar="SHARE,...",
    )
    epochs: int = setting(
        5, "number of times that a client goes through its training samples in a round", TRAINING, metavar="N"
    )
    batch: int = setting(16, "number of samples in a batch", TRAINING, metavar="N")
    lr: float = setting(0.05, "learning rate of the clients", TRAINING, metavar="RATE")
    loss: str = setting(
        "",
        LOSS,
        TRAINING,
        metavar="LOSS",
        default="the loss that suits the data's labels",
        kind="str | Loss | Callable[..., object]",
        is_left_out=True,
    )
    values: str = setting(
        "float32",
        f"number format of the values that clients and server send each other: {one_of(FORMATS)}",
        TRAINING,
        metavar="FORMAT",
        choices=FORMATS,
    )

    options: tuple[tuple[str, Any], ...] = setting((), "hyper-parameters of the methods by name")
    tune: Grid = setting((), "hyper-parameters to tune, and the values to try for each", is_left_out=True)
    tune_rounds: int = setting(
        0,
        "number of rounds of each trial of --tune",
        TUNING,
        metavar="N",
        default="as many as --rounds",
        is_left_out=True,
    )
    tuned: Choices = setting((), "values that the tuning has chosen, which tuned.json has and not run.json")

    eval_every: int | None = setting(
        None,
        EVAL_EVERY,
        EVALUATION,
        metavar="ROUNDS",
        default="a twentieth of the rounds, and round 1 is evaluated as well",
    )
    evaluate_first: bool = setting(False, "evaluate the models after round 1, too", is_left_out=True)
    refresh: int = setting(0, REFRESH, EVALUATION, metavar="EPOCHS", is_left_out=True)
    held_out: int = setting(0, HELD_OUT, EVALUATION, metavar="N", is_left_out=True)
    diagnose: bool = setting(False, DIAGNOSE, EVALUATION, is_left_out=True)
    train_scores: bool = setting(
        False, "evaluate the models on the clients' training samples as well", EVALUATION, is_left_out=True
    )

    aggregation: str = setting(
        "mean",
        f"way in which the server averages the replies of a round: {AGGREGATIONS}",
        AGGREGATION,
        metavar="MEAN",
        former="--fold",
    )
    bound: str = setting(
        "refuse", f"treatment of a reply that moves a parameter too far: {BOUNDS}", AGGREGATION, metavar="WHAT"
    )
    max_examples: int | None = setting(
        None,
        "largest number of samples by which a client's reply is weighted",
        AGGREGATION,
        metavar="N",
        default="the most that a client has",
    )

    buffer: int = setting(0, BUFFER, ASYNCHRONOUS, metavar="N", is_left_out=True)
    staleness: str = setting("step:0.5", STALENESS, ASYNCHRONOUS, metavar="HOW", is_left_out=True)
    max_staleness: int = setting(
        10,
        "largest staleness of a reply. An older task is given up, and its reply counts as late.",
        ASYNCHRONOUS,
        metavar="N",
        is_left_out=True,
    )

    devices: str = setting(
        "",
        "devices whose virtual seconds and joules are counted for every client: "
        f"{one_of(DEVICES)}, or a file of profiles of your own",
        option="--devices",
        metavar="NAME|FILE.toml",
        default="no devices",
        kind="str | os.PathLike[str]",
        is_left_out=True,
    )
    deadline_s: float = setting(
        0.0, DEADLINE, option="--deadline", metavar="SECONDS", default="no limit", is_left_out=True
    )
    checkpoint_every: int = setting(
        10, "number of rounds from one checkpoint to the next", option="--checkpoint-every", metavar="ROUNDS"
    )
