"""Gather and scatter of parameters: what their cases do not say."""

from __future__ import annotations

from types import ModuleType

import pytest

from .cases import ordinary


def test_positions_that_are_too_large_are_refused_by_number_and_nothing_is_written(backend: ModuleType) -> None:
    args, before = (ordinary("permute").args() for _ in range(2))
    args["order"][3] = len(args["values"])
    with pytest.raises(ValueError, match=r"order.*expected places below 11"):
        backend.permute(*args.values())
    assert (args["permuted"] == before["permuted"]).all()
