"""No text of a message reaches a terminal raw: control characters in every text of every message, on both sides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from edgefl.errors import ProtocolError
from edgefl.protocol.wire import messages
from edgefl.protocol.wire.handshake import Role
from edgefl.protocol.wire.messages import Message, PayloadSpec
from edgefl.protocol.wire.peer_text import LONGEST_SHOWN, PeerText, of_peer, whole
from tests.protocol.wire.conversation import CONVERSATION, EXAMPLES, TRAIN, VERDICT, pair_in

HOSTILE = "\x1b[31m\n\r\x9b1A\u202e\u2028"
ESCAPED = r"\x1b[31m\n\r\x9b1A\u202e\u2028"
WHOLE = {  # every text that a message can have is in one of these
    **EXAMPLES,
    type(TRAIN): msgspec.structs.replace(TRAIN, expects={"model": PayloadSpec("planned", None)}),
    type(VERDICT): msgspec.structs.replace(VERDICT, reason="why"),
}


def changed(value: Any) -> Iterator[tuple[str, Any]]:
    """The value once for each text in it, with that text hostile."""
    if isinstance(value, str):
        yield "", HOSTILE
    elif isinstance(value, dict):
        for name, each in value.items():
            rest = {other: item for other, item in value.items() if other != name}
            yield f".{name} as a name", {HOSTILE: each, **rest}
            yield from ((f".{name}{at}", {**value, name: found}) for at, found in changed(each))
    elif isinstance(value, list | tuple):
        for i, each in enumerate(value):
            yield from ((f"[{i}]{at}", [*value[:i], found, *value[i + 1 :]]) for at, found in changed(each))
    elif isinstance(value, Struct):
        for name in value.__struct_fields__:
            for at, found in changed(getattr(value, name)):
                yield f".{name}{at}", msgspec.structs.replace(value, **{name: found})


def sent(kind: type[Message]) -> tuple[Role, str]:
    """Return who sends such a message in the conversation, and the state of both sides before it."""
    states = {"Hello": "greeting", "Challenge": "challenging", "Enrol": "proving", "Welcome": "deciding"}
    at = next(i for i, (_, message) in enumerate(CONVERSATION) if type(message) is kind)
    return CONVERSATION[at][0], states.get(kind.__name__, "ready")


CASES = [(type(each), at, found) for each in WHOLE.values() for at, found in changed(each)]


def test_every_message_with_text_is_among_the_cases() -> None:
    wordless = {
        "Enrol",
        "ModelRequest",
        "ModelChunk",
        "ThroughputReport",
        "Evaluated",
        "AdaptationReport",
        "OverlapReport",
        "ModelParts",
        "PartialModelRequest",
        "SecureOffer",
        "RosterPart",
        "GroupReady",
        "GroupRequest",
        "ComeAgain",
    }
    assert {kind.__name__ for kind, _, _ in CASES} == {kind.__name__ for kind in messages.TYPES.values()} - wordless
    assert len(CASES) == 24


@pytest.mark.parametrize(("kind", "at", "message"), CASES, ids=[f"{kind.__name__}{at}" for kind, at, _ in CASES])
def test_what_the_other_side_prints_has_no_control_character(kind: type[Message], at: str, message: Message) -> None:
    sender, state = sent(kind)
    try:
        (received,) = pair_in(state).forge_message(sender, message)
    except ProtocolError as error:  # of a field that has few values, or must be as before
        assert str(error).isprintable(), str(error)
        return
    texts = list(texts_of(received))
    assert all(type(text) is PeerText for text in texts)
    assert any(ESCAPED in text for text in texts)
    for text in texts:
        for shown in (str(text), f"{text}", f"{text:>9}", f"{text!r}", "".join(["a ", text]), text + "", "%s" % text):  # noqa: UP031
            assert shown.isprintable(), shown
    assert repr(received).isprintable()


def texts_of(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from (*texts_of(name), *texts_of(each))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from texts_of(each)
    elif isinstance(value, Struct):
        for name in value.__struct_fields__:
            yield from texts_of(getattr(value, name))


def test_text_without_such_characters_is_as_it_was() -> None:
    text = PeerText("client 3 of Z\u00fcrich, \u8a08\u7b97")
    assert text == "client 3 of Z\u00fcrich, \u8a08\u7b97" == PeerText(text)
    assert {text: 1}["client 3 of Z\u00fcrich, \u8a08\u7b97"] == 1
    assert (type(whole(text)), of_peer(3.5), of_peer(None)) == (str, 3.5, None)


def test_a_long_text_is_shown_in_part_and_compared_in_whole() -> None:
    text = PeerText("x" * 5000)
    assert (len(str(text)), len(f"{text}"), str(text)[-4:]) == (LONGEST_SHOWN, LONGEST_SHOWN, "x...")
    assert (text == "x" * 5000, len(whole(text))) == (True, 5000)


def test_a_message_that_was_received_is_sent_on_whole() -> None:
    found = messages.decode(messages.NUMBERS[type(TRAIN)], messages.encode(TRAIN))
    assert messages.encode(found) == messages.encode(TRAIN)
