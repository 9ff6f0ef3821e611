"""The option --backend of the commands that train: the kernels of this process and of the processes that it starts."""

from __future__ import annotations

import argparse
import os

from edgefl import kernels
from edgefl.errors import BackendError, RequestError


def add_backend(parser: argparse._ActionsContainer) -> None:
    """The option."""
    names = tuple({**kernels.BACKENDS, **kernels.NAMED})
    what = "kernels that train; default: $EDGEFL_KERNELS, or else the fastest kernels that run here"
    parser.add_argument("--backend", choices=names, metavar="NAME", help=f"{', '.join(names)}: {what}")


def use_backend(options: argparse.Namespace) -> None:
    """Takes the option out: commands need not know of it. Raises RequestError where its kernels cannot be loaded."""
    name = vars(options).pop("backend", None)
    if name is None:
        return
    os.environ["EDGEFL_KERNELS"] = name
    try:
        kernels.backend()
    except BackendError as error:
        others = ", ".join(each for each in kernels.BACKENDS if each != name)
        why = error.__cause__ or error
        raise RequestError(f"--backend {name} cannot be used here ({why}); expected another: {others}") from error
