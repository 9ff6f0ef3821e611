"""The option --backend of the commands that train. It chooses the kernels of this process and of the processes that
this process starts.
"""

from __future__ import annotations

import argparse
import os

from edgefl import kernels
from edgefl.errors import BackendError, RequestError


def add_backend(parser: argparse._ActionsContainer) -> None:
    """Add the option --backend."""
    names = tuple({**kernels.BACKENDS, **kernels.NAMED})
    what = f"kernels that train: {', '.join(names)} (default: $EDGEFL_KERNELS, or else the fastest that run here)"
    parser.add_argument("--backend", choices=names, metavar="NAME", help=what)


def use_backend(options: argparse.Namespace) -> None:
    """Remove the option from `options` and load its kernels, so that no command needs to know of the option.

    Raises  RequestError where the kernels cannot be loaded.
    """
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
