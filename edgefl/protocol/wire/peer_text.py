"""Text that a peer wrote, as a type: what a message's text becomes when the message is decoded. Not what it means."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, structs

from edgefl.protocol.wire.printable import printable

LONGEST_SHOWN = 1000  # characters of one text of a peer


class PeerText(str):
    """Text that a peer wrote. What could steer a terminal is an escape sequence from the beginning, so that nobody can
    forget it, however the text comes to be printed: by str, by format or joined to other text.

    str and format show LONGEST_SHOWN characters of it at most. Comparing and looking up take the whole text.
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
    """All characters of a text, as a plain str."""
    return str.__str__(text) if isinstance(text, PeerText) else text


def of_peer(value: Any) -> Any:
    """A decoded value with each text in it as PeerText: names, keys and elements, too."""
    match value:
        case str():
            return PeerText(value)
        case dict():
            return {of_peer(name): of_peer(each) for name, each in value.items()}
        case list() | tuple():
            return type(value)(map(of_peer, value))
        case Struct():
            found = {name: of_peer(each) for name, each in structs.asdict(value).items()}
            return structs.replace(value, **found)
    return value
