"""Methods of other authors by name: `package.module:Class`, or the name that an installed package gives among its entry
points of the group edgefl.methods.

Names come only from this machine: the command line, the agent's settings, a run's own run.json. When a server names a
method to a device, the device looks only among the registered methods (methods/method_registry.py). So nothing is
imported because the network asked for it.
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
    """Register the method of this name, unless it is one of edgefl's methods or is registered already.

    Raises  ValueError or RequestError, with one sentence, if there is no such method, or if its own code fails.
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
    """Return the label that a text of the command line stands for, and register its method. Raises as `admit` does."""
    name = Variant.of(text).method
    if name in METHODS and (taken := [each for each in _entries() if each.name == name]):
        raise ValueError(f"method={name} is edgefl's own, and {_whose(taken)} has the same name; expected another name")
    admit(name)
    return labelled(text)


def _entries() -> list[EntryPoint]:
    """Return the entry points by which installed packages name their methods."""
    from importlib.metadata import entry_points  # the import costs time and memory, which a device saves

    return list(entry_points(group=GROUP))


def _entry(name: str) -> EntryPoint:
    """Return the one entry point of this name. Raises ValueError if no package has the name, or two have it."""
    entries = _entries()
    named = list({each.value: each for each in entries if each.name == name}.values())
    if len(named) > 1:
        raise ValueError(
            f"method={name} is the name of methods of {_whose(named)}; expected one package with this name"
        )
    if not named:
        known = [*METHODS, *sorted({each.name for each in entries})]
        raise ValueError(f"method={name}; {expected_name(name, known, 'package.module:Class')}")
    return named[0]


def _whose(entries: Iterable[EntryPoint]) -> str:
    """Name the packages, each with the class that its entry point stands for."""
    packages = ((each.dist.name if each.dist else "a package", each.value) for each in entries)
    return " and ".join(sorted(f"{package} ({value})" for package, value in packages))
