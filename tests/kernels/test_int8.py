"""Products of int8 codes: results have the same bits with whatever instructions a processor has for them."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest

from edgefl.kernels import ISAS, reference

from .cases import Case
from .cases_int8 import Layer, cases, convolution, not_finite

INSTRUCTIONS = {"plain": ISAS, "vnni": ("avx512",), "dotprod": ("neon",), "i8mm": ("neon",)}
WAYS = [(isa, name) for name, isas in INSTRUCTIONS.items() for isa in isas]


@pytest.fixture
def restored(native: ModuleType) -> Iterator[ModuleType]:
    isa = native.isa()
    yield native
    native.cap_code_products(list(INSTRUCTIONS)[-1] if isa == "neon" else "vnni" if isa == "avx512" else "plain")
    native.cap_isa(isa)


@pytest.mark.parametrize(("isa", "name"), WAYS, ids="-".join)
def test_all_instructions_give_the_bits_of_the_reference(restored: ModuleType, isa: str, name: str) -> None:
    if not restored.has_isa(isa):
        pytest.skip(f"this machine or this build lacks {isa}: its products are not tested here")
    restored.cap_isa(isa)
    restored.cap_code_products(name)
    if restored.code_products() != name:
        pytest.skip(f"this machine lacks {name}: its products are not tested here")
    for case in (*cases(), *not_finite()):
        found, expected = case.args(), case.args()
        restored.conv2d_int8(**found)
        reference.conv2d_int8(**expected)
        np.testing.assert_array_equal(found["y"], expected["y"], err_msg=str(case))


def test_an_image_that_is_not_finite_gives_nan_alone(backend: ModuleType) -> None:
    for case in not_finite():
        args = case.args()
        backend.conv2d_int8(**args)
        assert np.isnan(args["y"]).all(axis=(1, 2, 3)).tolist() == [False, True, False], str(case)
        assert np.isfinite(args["y"][::2]).all()


def test_unknown_instructions_are_refused(native: ModuleType) -> None:
    with pytest.raises(ValueError, match="mmx"):
        native.cap_code_products("mmx")


def test_sums_that_32_bits_may_not_hold_are_refused(backend: ModuleType) -> None:
    layer = Layer(1, (1 << 17) // 9 + 1, 1, (3, 3))
    args = Case("", "deep", lambda rng: convolution(rng, layer, True)).args()
    with pytest.raises(ValueError, match="131072"):
        backend.conv2d_int8(**args)


def test_an_image_does_not_depend_on_the_others(native: ModuleType) -> None:
    args = Case("", "many", lambda rng: convolution(rng, Layer(40, 7, 9, (5, 4)), True)).args()
    args["x"] *= np.arange(1, 41, dtype=np.float32)[:, None, None, None]
    native.conv2d_int8(**args)
    alone = dict(args, x=args["x"][7:8].copy(), y=np.empty_like(args["y"][:1]))
    native.conv2d_int8(**alone)
    np.testing.assert_array_equal(alone["y"], args["y"][7:8])
