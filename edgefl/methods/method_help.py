"""The help of a method and of its settings, from the docstrings of the method's file and classes. A device does not
need the help.

A class's docstring has a line per setting: its name, two spaces or more, and what the setting is. Further lines of the
text have the same indent as the text.
"""

from __future__ import annotations

import inspect
import re
import sys
from dataclasses import dataclass, fields
from typing import Any

from edgefl.methods import METHODS, settings_of
from edgefl.methods.method_registry import OWN

SETTING = re.compile(r"(\w+) {2,}(\S.*)")
OF_RUN = "rounds"  # a setting of the run, which no method's settings change
COMMON = {  # texts of settings that most methods have, used where a docstring has no text
    "batch": "number of examples in a step",
    "betas": "decay rates of the two moments of adam and adamw, as in torch",
    "body_lr": "learning rate of the common body",
    "decay_every": "number of rounds between two steps of the schedule 'step'",
    "epochs": "number of passes over a client's own data in a round",
    "eps": "number that is added to the root of the second moment of adam and adamw, as in torch",
    "es": "a client stops early, by the losses on its validation data",
    "head_lr": "learning rate of the personal head",
    "lr": "learning rate of round 1",
    "lr_decay": "factor by which the learning rate changes from round to round",
    "lr_floor": "smallest learning rate of the schedule 'cosine'",
    "momentum": "momentum of the optimizer sgd",
    "nesterov": "the momentum is Nesterov's",
    "per_round": "number of clients that a round chooses",
    "weight_decay": "factor of the weights that is added to their gradient",
}


@dataclass(frozen=True)
class SettingHelp:
    """The help of one setting: its name, its default value, and its text. The text is "" where no docstring has one."""

    name: str
    default: Any
    text: str


@dataclass(frozen=True)
class MethodHelp:
    """The help of one method: its name, one sentence about it, a longer text, and its settings by name."""

    name: str
    line: str
    text: str
    settings: tuple[SettingHelp, ...]


def method_help(name: str) -> MethodHelp:
    """Return the help of the method with this name. Raises ValueError for an unknown name."""
    defaults = settings_of(name)
    kind = type((METHODS.get(name) or OWN[name])())
    texts = {**COMMON, **setting_texts(kind)}
    shown = [(key, value) for key, value in sorted(defaults.items()) if key != OF_RUN]
    settings = tuple(SettingHelp(key, value, texts.get(key, "")) for key, value in shown)
    about = inspect.cleandoc(sys.modules[kind.__module__].__doc__ or kind.__doc__ or "")
    return MethodHelp(name, _first_sentence(about) + _variant(kind, defaults), about, settings)


def _variant(kind: Any, defaults: dict[str, Any]) -> str:
    """Return the settings in which a method differs from its class, as " Here with es=True.", or "" if it does not."""
    own = {each.name: each.default for each in fields(kind)}
    other = [f"{key}={value}" for key, value in defaults.items() if value != own[key]]
    return f" Here with {', '.join(other)}." if other else ""


def setting_texts(kind: type) -> dict[str, str]:
    """Return the text of each setting from the docstrings of a class and of its base classes. The class goes first."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        found.update(_texts(inspect.cleandoc(each.__dict__.get("__doc__") or "")))
    return found


def _texts(doc: str) -> dict[str, str]:
    found: dict[str, str] = {}
    last, indent = "", 0
    for line in doc.splitlines():
        if match := SETTING.fullmatch(line.rstrip()):
            last, indent = match[1], match.start(2)
            found[last] = match[2]
        elif last and line.startswith(" " * indent) and line.strip():
            found[last] += " " + line.strip()
        else:
            last = ""
    return found


def _first_sentence(text: str) -> str:
    paragraph = " ".join(text.partition("\n\n")[0].split())
    return re.split(r"(?<=\.) ", paragraph, maxsplit=1)[0]
