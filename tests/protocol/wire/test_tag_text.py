"""Tags of devices as text, and what is wrong with a bad tag."""

from __future__ import annotations

from typing import Any

import pytest

from edgefl.protocol.wire.tag_text import checked_tags, parse_tags


def test_tags_are_names_with_values() -> None:
    assert parse_tags([]) == {}
    assert parse_tags(["site=north:3/a", "a.b+c-d_1=X"]) == {"site": "north:3/a", "a.b+c-d_1": "X"}
    assert checked_tags({"n" * 64: "v" * 64}) == {"n" * 64: "v" * 64}
    assert len(parse_tags([f"n{number}=v" for number in range(32)])) == 32


@pytest.mark.parametrize(
    ("texts", "error"),
    [
        (["site"], "'site' is not a tag; expected NAME=VALUE"),
        (["=north"], "a tag has the name ''; expected 1 to 64 characters of letters, digits and _ . : / + -"),
        (["site="], "tag site has the value ''; expected 1 to 64 characters"),
        (["si te=north"], "a tag has the name 'si te'"),
        (["site=a=b"], "tag site has the value 'a=b'"),
        (["site=n\u00f6rd"], "tag site has the value 'n\u00f6rd'"),
        (["site=north\n"], r"tag site has the value 'north\\n'"),
        (["n" * 65 + "=v"], "a tag has the name 'nnn"),
        (["n=" + "v" * 65], "tag n has the value 'vvv"),
        (["site=a", "site=b"], "tag site comes twice, as 'a' and 'b'; expected each name once"),
        ([f"n{number}=v" for number in range(33)], "33 tags; expected at most 32"),
    ],
)
def test_bad_tag_is_named(texts: list[str], error: str) -> None:
    with pytest.raises(ValueError, match=error.replace("+", r"\+").replace(". :", r"\. :")):
        parse_tags(texts)


@pytest.mark.parametrize("tags", [{3: "v"}, {"n": 3}, {"n": None}])
def test_tag_that_is_no_text_is_named(tags: dict[Any, Any]) -> None:
    with pytest.raises(ValueError, match="tag"):
        checked_tags(tags)
