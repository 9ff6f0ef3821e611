"""Linear layers and bias gradients of several tiles in every direction, in parts and whole, with ragged edges."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from ..calls import check_case, each
from ..cases import Case
from ..cases_linear import channel_sum, linear_forward, linear_grad_input, linear_grad_weight, linear_update
from . import standin

SIZES = [(16, 1030, 70), (17, 300, 10), (40, 70, 520), (130, 257, 70), (70, 600, 700)]
PAIRS = [("all", "all"), ("odd", "but_one"), ("but_one", "odd")]


@pytest.fixture
def cuda() -> ModuleType:
    return standin.backend()


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_products_of_several_tiles(cuda: ModuleType, size: tuple[int, int, int]) -> None:
    cases = [
        Case("linear_forward", f"{size}-{has}", lambda rng, h=has: linear_forward(rng, *size, h)) for has in (0, 1)
    ]
    makers = (linear_grad_input, linear_grad_weight)
    for pair in PAIRS:
        tag = f"{size}-{pair}"
        cases += [Case(make.__name__, tag, lambda rng, m=make, p=pair: m(rng, *size, *p)) for make in makers]
        cases.append(Case("linear_update", tag, lambda rng, p=pair: linear_update(rng, *size, *p, False)))
    each((case, lambda case=case: check_case(cuda, case)) for case in cases)


def test_update_takes_the_very_gradient_that_grad_weight_gives(cuda: ModuleType) -> None:
    for size in ((20, 300, 90), (70, 700, 1100)):
        args = linear_update(np.random.default_rng(1), *size, "odd", "but_one", False)
        dw = np.zeros((len(args["outs"]), len(args["cols"])), np.float32)
        cuda.linear_grad_weight(args["x"], args["dy"], dw, args["outs"], args["ins"])
        stepped = args["w"].copy()[:, :, None]
        cuda.sgd(stepped, dw, args["hyper"], args["outs"], args["cols"])
        cuda.linear_update(**args)
        assert (stepped[:, :, 0] == args["w"]).all()


@pytest.mark.parametrize("shape", [(33, 70), (7, 3, 2), (9, 5, 31, 33), (40, 3, 257), (2, 600, 5, 5)])
def test_channel_sums_in_parts(cuda: ModuleType, shape: tuple[int, ...]) -> None:
    kinds = ("all", "odd")
    each(
        (kind, lambda kind=kind: check_case(cuda, Case("channel_sum", kind, lambda rng: channel_sum(rng, shape, kind))))
        for kind in kinds
    )
