"""Convolutions of several tiles of every kind in each direction, whole and in parts, with ragged edges and groups."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import ModuleType

import pytest

from ..calls import check_case, each
from ..cases import Case
from ..cases_convolution import Geometry, forward, grad_input, grad_weight, saved_groups
from . import standin

GEOMETRIES = (
    Geometry(2, 19, 133, (12, 11)),
    Geometry(3, 131, 18, (9, 10), stride=(2, 2)),
    Geometry(5, 67, 70, (7, 5), (3, 2), stride=(3, 2), padding=(0, 1), dilation=(2, 1)),
    Geometry(2, 70, 66, (9, 8), (1, 1), stride=(2, 2), padding=(0, 0)),
    Geometry(2, 34, 68, (8, 8), (2, 2), stride=(2, 1), dilation=(2, 3), groups=2),
    Geometry(3, 9, 12, (6, 7), (3, 3), groups=3),
)
WIDE = Geometry(9, 6, 5, (8, 16))  # planes of whole fours
DEPTHWISE = (
    Geometry(3, 5, 15, (40, 41), stride=(2, 1), groups=5),
    Geometry(9, 3, 3, (20, 20), (5, 5), (1, 2), (2, 2), groups=3),
)
PAIRS = (("all", "all"), ("odd", "but_one"), ("but_one", "odd"), ("one", "every"))


@pytest.fixture
def cuda() -> ModuleType:
    return standin.backend()


def cases(g: Geometry) -> Iterator[Case]:
    for has_bias in (False, True):
        yield Case("conv2d_forward", f"{g}-{has_bias}", partial(forward, g=g, has_bias=has_bias))
    for outs, ins in PAIRS:
        yield Case("conv2d_grad_input", f"{g}-{outs}-{ins}", partial(grad_input, g=g, rows=outs, cols=ins))
        those = ins if g.groups == 1 else "all"
        yield Case("conv2d_grad_weight", f"{g}-{outs}-{those}", partial(grad_weight, g=g, rows=outs, cols=those))


@pytest.mark.parametrize("kind", ["huge", "long", "square", "flat"])
@pytest.mark.parametrize("splits", [1, 3, 8])
def test_tiles_of_every_kind(cuda: ModuleType, kind: str, splits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    own = cuda.convolution
    monkeypatch.setattr(own, "TILES", [tile for tile in own.TILES if tile.name == kind])
    monkeypatch.setattr(own, "SPLITS", {1, splits})
    monkeypatch.setattr(own, "LEAST_DEPTH", 1)
    monkeypatch.setattr(own, "PROCESSORS", 1 << 20)  # so many that every split is welcome
    each((case, partial(check_case, cuda, case)) for g in (*GEOMETRIES, WIDE) for case in cases(g))


@pytest.mark.parametrize("least_cells", [300, 1 << 20])
def test_planes_of_several_blocks(cuda: ModuleType, least_cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda.convolution, "LEAST_CELLS", least_cells)
    each((case, partial(check_case, cuda, case)) for g in DEPTHWISE for case in cases(g))


def test_active_groups_may_share_saved_planes(cuda: ModuleType) -> None:
    g = DEPTHWISE[0]
    kinds = ("one", "but_one", "odd")
    made = [Case("conv2d_grad_weight", f"{g}-{kind}", partial(saved_groups, g=g, kind=kind)) for kind in kinds]
    each((case, partial(check_case, cuda, case)) for case in made)
