"""A type for text that a peer wrote. Each text of a message gets this type when the message is decoded."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, structs

from edgefl.protocol.wire.printable import printable

WITHOUT_TEXT = frozenset((bytes, bool, int, float, type(None)))  # types whose values hold no text

LONGEST_SHOWN = 1000  # characters shown of one text of a peer


class PeerText(str):
    """Text that a peer wrote, in which characters that could steer a terminal are escape sequences from the beginning.

    So nobody can forget to escape the text, whether `str`, `format` or a join prints it. `str` and `format` show at
    most LONGEST_SHOWN characters. Comparisons and look-ups take the whole text.
    """

    __slots__ = ()

    def __new__(cls, text: str) -> PeerText:
        return super().__new__(cls, printable(whole(text)))

    def __str__(self) -> str:
        text = whole(self)
        return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 3]}..."

    def __format__(self, format_spec: str) -> str:
        return format(str(self), format_spec)


def whole(text: str) -> str:
    """Return all characters of a text, as a plain str."""
    return str.__str__(text) if isinstance(text, PeerText) else text


def of_peer(value: Any) -> Any:
    """Return a decoded value with each text in it as PeerText, including names, keys and elements."""
    if type(value) in WITHOUT_TEXT:  # most values of a message, and a match is slow
        return value
    match value:
        case str():
            return PeerText(value)
        case dict():
            return {of_peer(name): of_peer(each) for name, each in value.items()}
        case list() | tuple():
            return type(value)(map(of_peer, value))
        case Struct():
            fields = [(name, getattr(value, name)) for name in value.__struct_fields__]
            found = {name: of_peer(each) for name, each in fields if type(each) not in WITHOUT_TEXT}
            return structs.replace(value, **found) if found else value
    return value
