"""Text of a peer made visible."""

from __future__ import annotations

import pytest

from edgefl.protocol.wire.printable import printable


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("client 3 of Zürich, 計算", "client 3 of Zürich, 計算"),
        ("a\x1b[31mb", r"a\x1b[31mb"),
        ("a\r\nb\tc\x00", r"a\r\nb\tc\x00"),
        ("\x9b1A", r"\x9b1A"),
        ("abc\u202edef\u2028", r"abc\u202edef\u2028"),
        ("\ud800", r"\ud800"),
    ],
)
def test_what_is_no_character_to_look_at_is_escaped(text: str, expected: str) -> None:
    assert printable(text) == expected
