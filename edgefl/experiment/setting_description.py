"""The description of a setting, which users read beside its name, its type and its default value.

The options of the command line, the types of `edgefl.simulate` (simulate_settings.py) and the page docs/settings.md
follow from these descriptions. experiment_fields.py has the settings themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import Field, dataclass, field
from typing import Any, TypeVar, cast

T = TypeVar("T")
KEY = "description"  # of a field's metadata


@dataclass(frozen=True)
class SettingDescription:
    """The description of one setting.

    meaning      the setting as a noun phrase. Further sentences may follow
    group        title of the group of options of the command line. Empty: `edgefl simulate` has the option elsewhere,
                 or there is no option
    option       option of the command line, such as --deadline. Empty: the name of the setting
    metavar      what stands for the value in the help. Empty: the option is a flag, or has choices
    choices      the values that are allowed, if they are few
    default      the default value in words. None: the default value itself
    kind         type of the value in Python. Empty: the type of the field
    is_left_out  whether run.json leaves the default value out, because older runs do not know the setting
    former       former option of the command line, or ""
    """

    meaning: str
    group: str = ""
    option: str = ""
    metavar: str = ""
    choices: tuple[str, ...] = ()
    default: str | None = None
    kind: str = ""
    is_left_out: bool = False
    former: str = ""


def setting(value: T, meaning: str, group: str = "", **more: Any) -> T:
    """Return a field of a dataclass whose default is this value, with this description, for type checkers as the value.

    more  fields of SettingDescription
    """
    found: Any = field(default=value, metadata={KEY: SettingDescription(meaning, group, **more)})
    return cast(T, found)


def description_of(each: Field[Any]) -> SettingDescription:
    """Return the description of a field that `setting` has made."""
    found: SettingDescription = each.metadata[KEY]
    return found


def one_of(values: Sequence[str]) -> str:
    """Return the values as words of a help text."""
    return ", ".join(values)
