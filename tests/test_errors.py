"""Names that nobody knows: the nearest known names, or all of them."""

from __future__ import annotations

import pytest

from edgefl.errors import expected_name, nearest

METHODS = ["fedspu", "fedavg", "fedavg-ft", "local"]


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("fedavgg", ["fedavg", "fedavg-ft"]),
        ("FedAvg", ["fedavg", "fedavg-ft"]),
        ("fedspuu", ["fedspu"]),
        ("loca", ["local"]),
        ("banana", []),
        ("", []),
    ],
)
def test_near_names_are_found_whatever_their_case(name: str, near: list[str]) -> None:
    assert nearest(name, METHODS) == near


@pytest.mark.parametrize(
    ("name", "more", "said"),
    [
        ("loca", "", "the nearest is local"),
        ("fedavgg", "FILE", "the nearest are fedavg, fedavg-ft"),
        ("banana", "", "expected one of fedspu, fedavg, fedavg-ft, local"),
        ("banana", "FILE", "expected one of fedspu, fedavg, fedavg-ft, local, or FILE"),
    ],
)
def test_a_sentence_ends_with_the_nearest_or_with_all(name: str, more: str, said: str) -> None:
    assert expected_name(name, METHODS, more) == said
