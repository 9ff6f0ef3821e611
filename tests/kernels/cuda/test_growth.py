"""Growth by all blocks, which only long lists are worth: of many cases, with several blocks, and of one long list."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest

from ..calls import check_case, each
from ..cases import Case, adversarial, large
from ..cases_growth import part
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


@pytest.mark.parametrize("values", [None, 2])
@pytest.mark.parametrize(("size", "count", "capacity"), [(90_000, 33_000, 34_000), (150_000, 20_000, 60_000)])
def test_long_list(cuda: ModuleType, size: int, count: int, capacity: int, values: int | None) -> None:
    for first in (0, 40_003):
        setting = (size, first, count, capacity, values)
        check_case(cuda, Case("keep_largest", f"long-{setting}", lambda rng, s=setting: part(rng, *s)))
