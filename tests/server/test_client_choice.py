"""Conditions on clients: what holds for whom, and which texts are no conditions."""

from __future__ import annotations

import pytest

from edgefl.server.client_choice import LONGEST, ClientChoice
from edgefl.server.client_tags import ClientTags

TAGS = ClientTags(
    {0: {"site": "3", "power": "mains"}, 1: {"site": "12"}}, [(0, "edgefl 0.10.2+abc native-avx2"), (1, "odd")]
)


@pytest.mark.parametrize(
    ("text", "fulfilled"),
    [
        ("site == 3", [0]),
        ("site == '3'", [0]),
        ("site != 3", [1]),  # a comparison with a tag that was not told does not hold
        ("site > 4", [1]),
        ("site in [3, 12]", [0, 1]),
        ("site not in [3]", [1, 2]),
        ("power == 'mains' or client == 2", [0, 2]),
        ("not power == 'mains'", [1, 2]),
        ("seen < 10", [0]),
        ("seen >= 10 and site == 12", [1]),
        ("version >= '0.9.1'", [0]),
        ("version < '0.10.10'", [0]),
        ("version < '0.10'", []),
        ("client >= 1", [1, 2]),
        ("3 == site", [0]),
        ("site == power", []),
    ],
)
def test_a_condition_holds_for_these_clients(text: str, fulfilled: list[int]) -> None:
    choice = ClientChoice.parse(text)
    assert [k for k in range(3) if choice.holds(TAGS.values(k, 10.0 * k))] == fulfilled


@pytest.mark.parametrize(
    ("text", "within_s"),
    [
        ("seen < 60", 60.0),
        ("site == 3 and seen <= 60 and seen < 90", 60.0),
        ("site == 3 and (seen < 60 or client == 1)", None),
        ("not seen < 60", None),
        ("seen > 60", None),
        ("seen < '60'", None),
    ],
)
def test_a_condition_may_limit_how_long_ago_a_client_was_heard_of(text: str, within_s: float | None) -> None:
    assert ClientChoice.parse(text).within_s == within_s


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("enroled", "'enroled'; expected all, enrolled, seen:SECONDS, or a condition such as"),
        ("site = 3", "expected all, enrolled, seen:SECONDS, or a condition such as"),
        ("", "expected all"),
        ("__import__('os').system('true') == 0", "expected the name of a tag"),
        ("site.x == 3", "expected the name of a tag"),
        ("site == True", "expected the name of a tag"),
        ("1 < site < 3", "or a condition such as"),
        ("site is 3", "expected ==, !="),
        ("site in other", "expected a list"),
        ("site == [1]", "expected the name of a tag"),
        ("(lambda: 1)() == 1", "expected the name of a tag"),
        ("site == 1 or " * 200 + "site == 1", f"expected at most {LONGEST}"),
        ("not " * 230 + "a == 1", ""),
        ("a == 1\0", "expected all"),
    ],
)
def test_what_is_no_condition_is_named(text: str, why: str) -> None:
    if not why:
        ClientChoice.parse(text)  # deep, and within what is taken
        return
    with pytest.raises(ValueError, match=r"[Ss]election|condition") as refused:
        ClientChoice.parse(text)
    assert why in str(refused.value)


def test_tags_are_told_anew() -> None:
    tags = ClientTags({})
    assert tags.tell(4, {"site": "1", "room": "a"})
    assert not tags.tell(4, {"room": "a", "site": "1"})
    assert tags.tell(4, {"site": "2"})
    assert (tags.having("site", "2"), tags.having("room", "a"), dict(tags.of(5))) == ([4], [], {})
