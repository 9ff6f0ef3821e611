"""The options of `edgefl memory`: the model, the way of training, the memory that has to suffice, and the output."""

from __future__ import annotations

import argparse
from pathlib import Path

from edgefl.cli.backend_option import add_backend
from edgefl.cli.experiment_arguments import OPTIMIZERS, SAVED, SAVED_HELP, help_of, shares
from edgefl.cli.size_arguments import extents, size
from edgefl.experiment.experiment_fields import LOSS
from edgefl.learning.memory import ACCOUNTS, METHODS
from edgefl.learning.memory.board_specs import BOARDS
from edgefl.models.graph.architectures import EXAMPLES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add all options, in groups."""
    parser.add_argument("model", metavar="MODEL|FILE", help=f"model: {', '.join(EXAMPLES)}, or a .safetensors file")
    _add_model(parser.add_argument_group("model and step"))
    _add_training(parser.add_argument_group("way of training"))
    _add_limit(parser.add_argument_group("memory that has to suffice"))
    _add_output(parser.add_argument_group("accounts and picture"))


def _add_model(model: argparse._ArgumentGroup) -> None:
    """Add the shapes of the model and of a step."""
    shape = "shape of one example (default: the shape in the paper)"
    model.add_argument("--input", type=extents, metavar="C,H,W", help=shape)
    outputs = "number of outputs of a built-in model (default: the number in the paper)"
    model.add_argument("--classes", type=int, metavar="N", help=outputs)
    batch = "number of examples in a step (default: %(default)s)"
    model.add_argument("--batch", type=int, default=16, metavar="N", help=batch)
    examples = "number of examples in the data set (default: a whole and a partial batch, or one batch for pflego)"
    model.add_argument("--examples", type=int, metavar="N", help=examples)
    model.add_argument("--loss", default="cross-entropy", help=f"{LOSS} (default: %(default)s)")


def _add_training(training: argparse._ArgumentGroup) -> None:
    """Add the trained part of the model, and the steps."""
    way = f"way of training: {', '.join(METHODS)}, or a federated method that trains so, such as fedprox or"
    training.add_argument("--method", metavar="NAME", help=f"{way} fjord:keep=.5,1 (default: fedspu)")
    keep = "shares of the neurons that are trained (default: .2,.4,.6,.8,1, or 1 for a method that trains all neurons)"
    training.add_argument("--keep", type=shares, metavar="SHARE,...", help=keep)
    training.add_argument("--train", default="", metavar="PATTERNS", help=help_of("train"))
    cut = "name of a tensor of the graph before which nothing is trained. Only the account exact has a cut."
    training.add_argument("--cut", default="", metavar="NAME", help=cut)
    density = "densities of an ERK mask, above 0 and at most 1. The option implies --method sparse."
    training.add_argument("--density", type=shares, metavar="SHARE,...", help=density)
    training.add_argument("--optimizer", choices=OPTIMIZERS, default="sgd", help="optimizer of the step (default: sgd)")
    momentum = "momentum of the optimizer sgd (default: 0)"
    training.add_argument("--momentum", type=float, default=0.0, metavar="M", help=momentum)
    saved = f"{SAVED_HELP}. Only the account exact counts it. (default: %(default)s)"
    training.add_argument("--saved", choices=SAVED, default="fp32", help=saved)
    parts = (
        "most examples that pass through the model at once. The gradients of the parts of a batch are summed before "
        "the step. Only the account exact counts it. (default: whole batches)"
    )
    training.add_argument("--micro-batch", type=int, default=0, metavar="N", help=parts)
    add_backend(training)


def _add_limit(limit: argparse._ArgumentGroup) -> None:
    """Add the size, or the board, that the training has to fit."""
    fit = "size of the memory for which the largest share and the largest batch that fit are found (for example: 24MB)"
    limit.add_argument("--fit", type=size, metavar="SIZE", help=fit)
    plan = (
        "show how a step takes less memory, if it computes parts of its forward pass again, and what work it takes. "
        "With --fit the command shows the first way in which a step fits, and the ways that were tried before it"
    )
    limit.add_argument("--plan", action="store_true", help=plan)
    boards = f"{', '.join(BOARDS)}. The size of its memory may follow, as in pi4:4GB."
    board = f"board for which the largest share and batch are found: {boards}"
    limit.add_argument("--board", metavar="BOARD", help=board)


def _add_output(output: argparse._ArgumentGroup) -> None:
    """Add the accounts that are shown, their measurement, and a picture."""
    accounts = f"accounts of memory that are shown: {', '.join(ACCOUNTS)} (default: all accounts)"
    output.add_argument("--account", type=_names, default=tuple(ACCOUNTS), metavar="NAME,...", help=accounts)
    measure = "train each row in a process of its own as well, and show the measured memory"
    output.add_argument("--measure", action="store_true", help=measure)
    tensors = "list the tensors of the arena. The list needs the account exact."
    output.add_argument("--tensors", action="store_true", help=tensors)
    picture = (
        "file for a picture of the accounts over the share of trained neurons, or with --plan of the memory over a "
        "step. The picture needs matplotlib."
    )
    output.add_argument("--plot", type=Path, metavar="FILE", help=picture)


def _names(text: str) -> tuple[str, ...]:
    for name in text.split(","):
        if name not in ACCOUNTS:
            raise argparse.ArgumentTypeError(f"{name!r}; expected some of {', '.join(ACCOUNTS)}")
    return tuple(text.split(","))
