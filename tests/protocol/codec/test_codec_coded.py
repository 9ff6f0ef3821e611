"""Codes of masks: how near the bound they are. Bits have one code, and bytes that are not a code are refused.

tests/kernels compares the kernels that make them. Here is what the codec promises of them.
"""

from __future__ import annotations

from itertools import product
from math import lgamma, log
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgefl import kernels
from edgefl.errors import CodecError
from edgefl.models.neurons.mask import Mask
from edgefl.protocol.codec import decode, encode
from edgefl.protocol.codec.coordinates import encode_coordinates, read_coordinates, smallest
from edgefl.protocol.codec.entropy_code import Bits, decode_bits, encode_bits, expected_bytes, least_bytes
from edgefl.protocol.codec.id_tables import ByteReader
from edgefl.protocol.codec.ids import Coding
from edgefl.protocol.codec.masks import decode_mask, encode_mask
from tests.protocol.codec.codec_examples import LIMIT, SPEC, bits, flat

DENSITIES = (0.01, 0.0105, 0.0115, 0.015, 0.02, 0.05, 0.1, 0.2, 0.25, 0.3, 0.35, 0.38, 0.4, 0.42, 0.44, 0.5)


def bound_bytes(n: int, k: int) -> float:
    """log2 C(n, k), in bytes."""
    return (lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)) / log(2) / 8


def scattered(seed: int, n: int, k: int) -> Bits:
    found = np.zeros(n, np.bool_)
    found[np.random.default_rng(seed).permutation(n)[:k]] = True
    return found


@pytest.mark.parametrize("n", [100, 1_000, 20_000, 99_999, 100_000, 400_003])
def test_masks_are_within_three_percent_of_the_bound(n: int) -> None:
    """And at most 16 bytes more below 100,000 coordinates. What is written can be read, to the last byte."""
    for density in (*DENSITIES, *(1 - each for each in DENSITIES)):
        k = round(density * n)
        mask = scattered(k, n, k)
        coding, data = encode_coordinates(mask, k)
        allowed = 1.03 * bound_bytes(n, k) + (16 if n < 100_000 else 0)
        assert len(data) <= allowed, f"{k} of {n} as {coding.name}: {len(data)} bytes; expected at most {allowed:.0f}"
        reader = ByteReader(data + b"more")
        np.testing.assert_array_equal(read_coordinates(reader, "mask", coding, (n,), k), mask)
        assert reader.at == len(data)


def test_what_is_expected_of_a_code_is_near_what_it_takes() -> None:
    """So the smallest coding is chosen. In a row masks take less, but not less than the least."""
    for n, density in product((3_000, 100_000, 300_007), (0.0003, 0.001, 0.01, 0.1, 0.3, 0.43)):
        k = max(3, round(density * n))
        for ones in (k, n - k):
            taken = len(encode_bits(scattered(k, n, ones), ones))
            assert abs(taken - expected_bytes(n, ones)) < 12 + 0.003 * taken, (n, ones)
        in_a_row = len(encode_bits(np.arange(n) < k, k))
        assert least_bytes(n, k) <= in_a_row <= expected_bytes(n, k) * 1.01, (n, k)


def test_a_code_is_taken_where_it_is_smaller() -> None:
    for n, k, coding in [
        (100, 50, Coding.BITMAP),
        (128, 1, Coding.LIST16),
        (1000, 100, Coding.CODED),
        (1000, 900, Coding.CODED),
        (1000, 2, Coding.LIST16),
        (70000, 5, Coding.LIST32),
        (70000, 0, Coding.LIST32),
        (70000, 70000, Coding.CODED),
        (70000, 35000, Coding.BITMAP),
        (0, 0, Coding.BITMAP),
    ]:
        assert smallest(n, k)[0] is coding, (n, k)


@pytest.fixture(params=kernels.BACKENDS)
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Yield the backend with which the codec computes."""
    chosen = kernels.backend(request.param)
    monkeypatch.setattr(kernels, "backend", lambda: chosen)
    return chosen


def accepted(data: bytes, n: int, k: int) -> Bits | None:
    """Return the bits whose code `data` is, with no byte to spare, or None."""
    try:
        found, size = decode_bits("mask", memoryview(data), (n,), k)
    except CodecError as error:
        assert "; expected" in str(error)
        return None
    return found if size == len(data) else None


def test_every_bit_flip_of_a_code_is_refused_or_the_code_of_what_it_says(backend: ModuleType) -> None:
    for n, k in [(77, 20), (300, 3), (301, 299), (600, 60)]:
        data = encode_bits(scattered(n, n, k), k)
        for position in range(8 * len(data)):
            flipped = bytearray(data)
            flipped[position // 8] ^= 1 << position % 8
            found = accepted(bytes(flipped), n, k)
            assert found is None or encode_bits(found, k) == flipped
        for size in range(len(data)):
            assert accepted(data[:size], n, k) is None


def test_a_code_with_another_number_of_ones_is_refused(backend: ModuleType) -> None:
    data = encode_bits(scattered(1, 300, 60), 60)
    assert accepted(data, 300, 60) is not None
    np.testing.assert_array_equal(accepted(data, 300, 240), ~scattered(1, 300, 60))
    for k in (0, 59, 61, 239, 241, 300):
        assert accepted(data, 300, k) is None
    many = encode_bits(scattered(2, 100_000, 30_000), 30_000)  # its shares equal the shares of one more
    assert accepted(many, 100_000, 30_000) is not None
    assert accepted(many, 100_000, 30_001) is None


@settings(max_examples=300, deadline=None)
@given(st.binary(min_size=16, max_size=60), st.integers(1, 90), st.data())
def test_noise_is_no_code_or_the_only_one(data: bytes, n: int, draw: st.DataObject) -> None:
    states = np.frombuffer(data[:16], "<u4") | np.uint32(1 << 16)
    data, k = states.tobytes() + data[16:], draw.draw(st.integers(0, n))
    found = accepted(data, n, k)
    assert found is None or encode_bits(found, k) == data


def test_coordinates_of_blocks_are_coded_too() -> None:
    update = flat("huge.bias", *range(3, 70000, 9))
    data = encode(update, SPEC)
    assert len(data) < 36 + 4424 + 4 * 7778
    assert decode(data, SPEC, limit=LIMIT) == update
    listed = data[:30] + b"\x04" + data[31:]
    with pytest.raises(CodecError, match=r"block 'huge.bias': 7778 of 70000 ids as LIST32; expected CODED, about 44"):
        decode(listed, SPEC, limit=LIMIT)


def test_every_bit_flip_of_a_coded_mask() -> None:
    mask = Mask.of(SPEC, {"wide.bias": bits("wide.bias", *range(0, 300, 10)), "b.weight": bits("b.weight", 1, 30)})
    data = encode_mask(mask, SPEC)
    assert data[34] == Coding.CODED
    for position in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[position // 8] ^= 1 << position % 8
        try:
            found = decode_mask(bytes(flipped), SPEC)
        except CodecError:
            continue
        assert encode_mask(found, SPEC) == flipped
