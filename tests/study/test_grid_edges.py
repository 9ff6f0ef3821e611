"""Chosen values that lie at the edge of the tried values, and the message about them."""

from __future__ import annotations

from typing import Any

import pytest

from edgefl.study.grid_edges import grid_edges


def record(method: str, option: str, chosen: Any, tried: list[Any]) -> dict[str, Any]:
    reached = [{"values": {option: value}, "accuracy": 0.5, "loss": 1.0} for value in tried]
    return {"seed": 1, "rounds": 5, "methods": {method: {"chosen": {option: chosen}, "reached": reached}}}


@pytest.mark.parametrize(
    ("method", "option", "chosen", "tried", "beyond"),
    [
        ("fedspu", "lr", 0.1, [0.01, 0.05, 0.1], 0.2),  # by the ratio of the last two
        ("fedspu", "lr", 0.01, [0.05, 0.01, 0.1], 0.002),
        ("fedspu", "lr", 0.05, [0.01, 0.05, 0.1], None),  # between others
        ("fedspu", "lr", 0.05, [0.05], None),  # nothing else was tried
        ("fedspu", "epochs", 8, [2, 4, 8], 16),
        ("fedspu", "epochs", 1, [1, 2], None),  # there are no fewer
        ("fedavg", "momentum", 0.0, [0.0, 0.5], None),  # nor less
        ("fedavg", "momentum", 0.5, [0.0, 0.5], None),  # the next step is 1, which is no momentum
        ("fedspu", "optimizer", "adam", ["sgd", "adam"], None),  # words have no order
        ("of-another-program", "lr", 0.1, [0.01, 0.1], 1.0),  # nothing is known of its limits
    ],
)
def test_edges(method: str, option: str, chosen: Any, tried: list[Any], beyond: float | None) -> None:
    found = grid_edges(record(method, option, chosen, tried))
    assert [edge.beyond for edge in found] == ([] if beyond is None else [pytest.approx(beyond)])


def test_nothing_was_tuned() -> None:
    assert grid_edges(None) == []
    nothing = {"methods": {"local": {"chosen": {}, "reached": []}}}
    assert grid_edges(nothing) == []


def test_an_edge_in_words_and_as_json() -> None:
    (edge,) = grid_edges(record("fedspu", "lr", 0.1, [0.01, 0.1]))
    assert str(edge) == (
        "fedspu: lr=0.1 is the largest of the values tried (0.01, 0.1); a better value may lie beyond, as lr=1."
    )
    assert edge.to_json() == {
        "method": "fedspu", "option": "lr", "value": 0.1, "tried": [0.01, 0.1], "beyond": 1.0, "side": "largest",
    }  # fmt: skip
