"""Masks are added and taken away in chunks, without a trace of the chunks in the result."""

from __future__ import annotations

import numpy as np
import pytest

from edgefl.protocol.secure.mask_stream import add_masks, stream_bytes

SEEDS = [bytes([each]) * 32 for each in range(5)]


@pytest.mark.parametrize("dtype", ["uint32", "uint64"])
@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 1000])
def test_masks_are_added_and_subtracted_modulo_the_type(dtype: str, size: int) -> None:
    signs = [1, -1, -1, 1, -1]
    vector = np.random.default_rng(1).integers(0, np.iinfo(dtype).max, size, dtype, endpoint=True)
    expected = [int(each) for each in vector]
    for seed, sign in zip(SEEDS, signs):
        mask = np.frombuffer(stream_bytes(seed, vector.nbytes), f"<u{vector.itemsize}")
        expected = [(a + sign * int(each)) % 2 ** (8 * vector.itemsize) for a, each in zip(expected, mask)]
    for chunk in (8, 64, 1 << 16):
        masked = vector.copy()
        add_masks(masked, SEEDS, signs, chunk)
        assert [int(each) for each in masked] == expected
        add_masks(masked, SEEDS, [-sign for sign in signs])
        assert (masked == vector).all()


def test_other_arrays_are_refused() -> None:
    for wrong in (np.zeros(4, np.int32), np.zeros((2, 2), np.uint32), np.zeros(4, np.uint32)[::2], np.zeros(4)):
        with pytest.raises(ValueError, match="expected a contiguous row of uint32 or uint64"):
            add_masks(wrong, [], [])


def test_every_seed_has_a_sign() -> None:
    with pytest.raises(ValueError):
        add_masks(np.zeros(4, np.uint32), SEEDS, [1])
