"""The text of a device's tags: NAME=VALUE, as owners write them. attendance_messages.py has the message of the tags."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from edgefl.protocol.wire.attendance_messages import MOST_TAGS

WORD = re.compile(r"[A-Za-z0-9_.:/+-]{1,64}")
EXPECTED = "1 to 64 characters of letters, digits and _ . : / + -"


def checked_tags(tags: Mapping[object, object]) -> dict[str, str]:
    """Return the tags, values by name. Raises ValueError naming the first bad name or value, or too many tags."""
    found: dict[str, str] = {}
    for name, value in tags.items():
        if not isinstance(name, str) or not WORD.fullmatch(name):
            raise ValueError(f"a tag has the name {name!r}; expected {EXPECTED}")
        if not isinstance(value, str) or not WORD.fullmatch(value):
            raise ValueError(f"tag {name} has the value {value!r}; expected {EXPECTED}")
        found[name] = value
    if len(found) > MOST_TAGS:
        raise ValueError(f"{len(found)} tags; expected at most {MOST_TAGS}")
    return found


def parse_tags(texts: Iterable[str]) -> dict[str, str]:
    """Return the tags of texts NAME=VALUE. Raises ValueError for another text, and for a name that comes twice."""
    found: dict[object, object] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign:
            raise ValueError(f"{text!r} is not a tag; expected NAME=VALUE")
        if name in found:
            raise ValueError(f"tag {name} comes twice, as {found[name]!r} and {value!r}; expected each name once")
        found[name] = value
    return checked_tags(found)
