"""float16 on every instruction set of this machine: all 65,536 of them, and floats at every edge, against numpy."""

import numpy as np
import pytest

from edgefl.kernels import ISAS

native = pytest.importorskip("edgefl.kernels.native", reason="the native extension was not built (no C++ compiler)")


def narrowed(x: np.ndarray) -> np.ndarray:
    halves = np.full(2 * x.size + 2, 0xA5, np.uint8)
    native.narrow_float16(x, halves[:-2])
    assert halves[-2:].tolist() == [0xA5, 0xA5]
    return halves[:-2].view("<u2")


def widened(halves: np.ndarray) -> np.ndarray:
    x = np.full(halves.size, 7, np.float32)
    native.widen_float16(halves.view(np.uint8), x)
    return x


def adversarial() -> np.ndarray:
    """Return every half, the floats on each side, the value half way to the next and its neighbours, with each sign."""
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    between = (halves.astype(np.float64) + np.append(halves[1:], 65536).astype(np.float64)) / 2
    bits = np.concatenate([halves, between.astype(np.float32)]).view(np.uint32)
    around = np.concatenate(
        [bits + np.uint32(step) for step in (0, 1, 2)] + [np.maximum(bits, 2) - 2, np.maximum(bits, 1) - 1]
    )
    every_exponent = (
        np.arange(256, dtype=np.uint32)[:, None] << 23 | np.array([0, 1, 0x3FFFFF, 0x7FFFFF], np.uint32)
    ).ravel()
    all_bits = np.concatenate([around, every_exponent])
    return np.concatenate([all_bits, all_bits | np.uint32(0x80000000)]).view(np.float32)


def test_conversions_equal_numpys_and_each_others() -> None:
    """Numbers equal numpy's. For NaN all instruction sets keep the upper bits, quiet, with the sign."""
    x, every = adversarial(), np.arange(65536, dtype=np.uint16)
    with np.errstate(over="ignore", invalid="ignore"):
        expected, wide = x.astype(np.float16).view(np.uint16), every.view(np.float16).astype(np.float32)
    quiet = np.uint32(0x7E00) | x.view(np.uint32) >> 13 & 0x3FF | x.view(np.uint32) >> 16 & 0x8000
    expected = np.where(np.isnan(x), quiet, expected).astype(np.uint16)
    wide_bits = np.where(np.isnan(wide), wide.view(np.uint32) | 0x400000, wide.view(np.uint32))
    before, tried = native.isa(), []
    for isa in filter(native.has_isa, ISAS):
        native.cap_isa(isa)
        try:
            np.testing.assert_array_equal(narrowed(x), expected, isa)
            np.testing.assert_array_equal(widened(every).view(np.uint32), wide_bits, isa)
            for size in range(34):  # each end of a word
                np.testing.assert_array_equal(narrowed(x[-size - 1 : -1]), expected[-size - 1 : -1], f"{isa} {size}")
                np.testing.assert_array_equal(widened(every[:size]).view(np.uint32), wide_bits[:size], f"{isa} {size}")
        finally:
            native.cap_isa(before)
        tried.append(isa)
    assert tried and tried[0] == "scalar"
