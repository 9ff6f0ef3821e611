"""The functions of a Python backend: the bodies in the modules of its families, each behind the checks of its row.

A body has the name and the arguments of an operation. It either computes, or it is marked with `prepares` and returns a
call that will compute. In this way, what follows from shapes is done once, and a Program runs the rest. The views of
arrays are fixed when the call is prepared, and their contents may still change. No arithmetic is done here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

from .checks import ArgumentCheck
from .signature import Signature, ordered
from .table import TABLE

Body = TypeVar("Body", bound=Callable[..., Any])
Call = tuple[Callable[..., None], tuple[Any, ...]]


class Function(NamedTuple):
    """An operation of one backend.

    call    checks the arguments, then computes
    record  returns the call that a Program keeps, whose arguments are checked now or each time that it runs
    """

    call: Callable[..., None]
    record: Callable[..., Call]


def run(call: Call) -> None:
    function, values = call
    function(*values)


def prepares(body: Body) -> Body:
    """Mark a body that returns a Call."""
    body.prepares = True  # type: ignore[attr-defined]
    return body


def functions(*families: ModuleType, checks_once: bool = False) -> dict[str, Function]:
    """Return the operations whose bodies the modules hold, by name.

    checks_once  a recorded call is checked when it is recorded, and not when it runs
    """
    bodies = {name: body for family in families for name, body in vars(family).items() if name in TABLE}
    return {name: _function(TABLE[name], body, checks_once) for name, body in bodies.items()}


def _function(row: Signature, body: Callable[..., Any], checks_once: bool) -> Function:
    check, is_prepared = ArgumentCheck(row), getattr(body, "prepares", False)

    def checked(*args: Any, **named: Any) -> Call:
        values = ordered(row, args, named)
        check(values)
        return body(*values) if is_prepared else (body, values)

    @functools.wraps(body)
    def call(*args: Any, **named: Any) -> None:
        run(checked(*args, **named))

    call.__doc__ = body.__doc__ or row.documentation
    return Function(call, checked if checks_once else lambda *args, **named: (call, ordered(row, args, named)))
