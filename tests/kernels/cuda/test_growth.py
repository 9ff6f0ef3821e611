"""Growth by all blocks, which only long lists are worth: here of many cases, with several blocks."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest

from ..calls import check_case, each
from ..cases import adversarial, large
from . import standin


@pytest.fixture
def cuda() -> ModuleType:
    return standin.backend()


@pytest.fixture
def several_blocks(cuda: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    growth = importlib.import_module("edgefl.kernels.cuda.growth")
    monkeypatch.setattr(growth, "_ALONE", 0)
    monkeypatch.setattr(growth, "_LEAST_PART", 8)
    monkeypatch.setattr(growth, "_MOST_PARTS", 5)
    return cuda


@pytest.mark.parametrize("op", ["keep_largest", "largest_places"])
def test_several_blocks_find_what_the_reference_finds(several_blocks: ModuleType, op: str) -> None:
    each((case, lambda case=case: check_case(several_blocks, case)) for case in adversarial(op)[::17] + large(op)[:1])
