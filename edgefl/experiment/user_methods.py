"""Methods of other authors by name: `package.module:Class`, or the name that an installed package gives among its entry
points of the group edgefl.methods.

Names come from whoever sits here: the command line, the agent's settings, a run's own run.json. A device that a server
names one to looks it up in what was taken in (methods/method_registry.py), so nothing is imported because the network
said so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from edgefl.errors import expected_name
from edgefl.experiment.user_code import found, users_code
from edgefl.methods import METHODS, labelled
from edgefl.methods.method_label import Variant
from edgefl.methods.method_registry import OWN, take_in

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "edgefl.methods"


def admit(name: str) -> None:
    """Takes in the method of this name, unless it is one of edgefl's or is in already.

    Raises  ValueError or RequestError, one sentence, if there is none, if it is no method, or if its own code fails.
    """
    if name in METHODS or name in OWN:
        return
    if ":" in name and not all(name.rpartition(":")):
        raise ValueError(f"method={name}; expected NAME, NAME:OPTION=VALUE or package.module:Class")
    entry = None if ":" in name else _entry(name)
    with users_code(f"method={name}"):
        thing = found(name) if entry is None else entry.load()
    take_in(name, thing)


def label(text: str) -> str:
    """The label that a text of the command line stands for; its method is taken in. Raises as `admit` does."""
    name = Variant.of(text).method
    if name in METHODS and (taken := [each for each in _entries() if each.name == name]):
        raise ValueError(f"method={name} is edgefl's own, and {_whose(taken)} has that name, too; expected another")
    admit(name)
    return labelled(text)


def _entries() -> list[EntryPoint]:
    """The names that installed packages give their methods."""
    from importlib.metadata import entry_points  # takes its time and memory, which a device saves

    return list(entry_points(group=GROUP))


def _entry(name: str) -> EntryPoint:
    """The one entry point of this name."""
    entries = _entries()
    named = list({each.value: each for each in entries if each.name == name}.values())
    if len(named) > 1:
        raise ValueError(f"method={name} is that of {_whose(named)}; expected one package that has it")
    if not named:
        known = [*METHODS, *sorted({each.name for each in entries})]
        raise ValueError(f"method={name}; {expected_name(name, known, 'package.module:Class')}")
    return named[0]


def _whose(entries: Iterable[EntryPoint]) -> str:
    """The packages, and what they mean."""
    packages = ((each.dist.name if each.dist else "a package", each.value) for each in entries)
    return " and ".join(sorted(f"{package} ({value})" for package, value in packages))
