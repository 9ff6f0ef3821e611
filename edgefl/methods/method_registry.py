"""The registry of methods from outside edgefl: the classes that this process has registered, by name.

experiment/user_methods.py finds such classes. Nothing is imported here.
"""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass
from inspect import isabstract, isclass
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

from edgefl.methods.algorithm import Algorithm

OWN: dict[str, type[Algorithm]] = {}  # class by the name under which it was registered
LONGEST_NAME = 64  # longest name in characters that a message to a device has
FLAGS = ("keeps_model", "keeps_state")
PLAIN = (bool, int, float, str)


def take_in(name: str, thing: object) -> None:
    """Register a class as the method of this name. Raises ValueError that says what is wrong if it is not a method."""
    if len(name) > LONGEST_NAME:
        raise ValueError(f"method={name} has {len(name)} characters; expected at most {LONGEST_NAME}")
    if not isclass(thing) or not issubclass(thing, Algorithm):
        raise ValueError(f"method={name} is {_what(thing)}; expected a class that inherits from edgefl's Algorithm")
    OWN[name] = _checked(name, thing)


def _checked(name: str, kind: type[Algorithm]) -> type[Algorithm]:
    if "__dataclass_params__" not in vars(kind) or not cast(Any, kind).__dataclass_params__.frozen:
        raise ValueError(f"method={name} is a class without @dataclass(frozen=True); expected it on {kind.__name__}")
    if isabstract(kind):
        lacking = ", ".join(sorted(kind.__abstractmethods__))
        raise ValueError(f"method={name} lacks {lacking}; expected the verbs start, plan, aggregate, finish and train")
    for flag in FLAGS:
        if not isinstance(getattr(kind, flag, None), bool):
            raise ValueError(f"method={name} does not say {flag}; expected {flag}: ClassVar[bool] = True, or False")
    _check_options(name, kind)
    return kind


def _check_options(name: str, kind: type[Algorithm]) -> None:
    """Raise ValueError for a hyper-parameter that has no default, or whose type cannot be written as text."""
    assert is_dataclass(kind)
    try:
        hints = get_type_hints(kind)
    except NameError as error:
        raise ValueError(f"method={name} has a type that is not imported ({error}); expected imported names") from error
    for each in fields(kind):
        if each.default is MISSING and each.default_factory is MISSING:
            raise ValueError(f"method={name} has {each.name} without a default; expected a default value")
        if not _is_plain(hints[each.name]):
            shown = getattr(hints[each.name], "__name__", hints[each.name])
            raise ValueError(
                f"method={name} has {each.name} of type {shown}; expected bool, int, float, str, a Literal of texts, "
                "or tuple[float, ...]"
            )
    if "per_round" not in hints:
        raise ValueError(f"method={name} has no per_round; expected how many clients a round selects")


def _is_plain(kind: Any) -> bool:
    if get_origin(kind) is Literal:
        return all(isinstance(choice, str) for choice in get_args(kind))
    return kind in PLAIN or kind == tuple[float, ...]


def _what(thing: object) -> str:
    return f"the class {thing.__name__}" if isclass(thing) else f"{type(thing).__name__} {thing!r:.40}"
