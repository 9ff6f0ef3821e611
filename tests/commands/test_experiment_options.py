"""The experiment that options stand for: what was given, and what is taken for the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgefl.commands import cli
from edgefl.commands.experiment_options import experiment_of


@pytest.mark.parametrize(
    ("options", "per_round"),
    [
        ({}, 5),
        ({"clients": 6}, 5),
        ({"clients": 4}, 4),
        ({"clients": 4, "per_round": 2}, 2),
        ({"clients": 12, "data": "mnist"}, 10),
        ({"clients": 6, "data": "mnist"}, 6),
    ],
    ids=str,
)
def test_no_more_clients_a_round_by_default_than_there_are(options: dict[str, Any], per_round: int) -> None:
    assert experiment_of(options, None).per_round == per_round


@pytest.mark.parametrize("options", [{"per_round": 5}, {"set": ["per_round=5"]}], ids=str)
def test_a_number_of_clients_a_round_that_was_given_is_not_lowered(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="per_round=5; expected 1 <= per_round <= 4 clients"):
        experiment_of({"clients": 4, **options}, None)


def test_no_clients_are_refused() -> None:
    with pytest.raises(ValueError, match="clients=0; expected clients >= 1"):
        experiment_of({"clients": 0}, None)


def test_four_devices_are_dealt_their_samples(tmp_path: Path) -> None:
    assert cli.main(["deal", "--clients", "4", "--out", str(tmp_path)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"device-000{client}.npz" for client in range(4)]
