"""Values in fewer bits: what is kept of them, what is refused, and that the same chance gives the same bytes."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from edgefl import kernels
from edgefl.errors import CodecError
from edgefl.models.neurons.block_index import Flat
from edgefl.models.neurons.update import Block, Update
from edgefl.protocol.codec import FORMATS, decode, encode, sizes
from edgefl.rng import ROUNDING, stream
from tests.protocol.codec.codec_examples import LIMIT, SPEC, block

NAME, COUNT = "huge.bias", 70000


def update(values: NDArray[np.floating]) -> Update:
    """A block that has these values in its first places."""
    index = Flat(np.arange(len(values), dtype=np.uint32), COUNT)
    return Update({NAME: Block((COUNT,), index, values.astype(np.float32, copy=False))})


def returned(values: NDArray[np.floating], form: str, seed: int = 0) -> NDArray[np.float32]:
    data = encode(update(values), SPEC, values=form, random_stream=stream(seed, ROUNDING))
    return decode(data, SPEC, limit=LIMIT).blocks[NAME].values


def normal(seed: int, count: int = COUNT) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(count).astype(np.float32)


def test_bytes_of_every_format() -> None:
    expected = {"float32": 4 * COUNT, "float16": 2 * COUNT, "bfloat16": 2 * COUNT, "int8": COUNT + 4 * 274}
    for form in FORMATS:
        data = encode(update(normal(1)), SPEC, values=form)
        assert sizes(data).values == expected[form], form
        assert sizes(data).total == len(data)
    assert sizes(encode(Update({"a.bias": block("a.bias", None)}), SPEC, values="int8")).values == 4 + 6


def test_bfloat16_is_the_nearest_even_upper_half() -> None:
    torch = pytest.importorskip("torch")
    bits = np.random.default_rng(2).integers(0, 2**32, 60000, np.uint32)
    values = bits.view(np.float32)
    values = values[np.abs(values) < 3.3e38]
    edges = np.array([0x3F800000, 0x3F808000, 0x3F818000, 0x3F808001, 0x80000000, 1, 0x7F7F7FFF], np.uint32)
    values = np.concatenate([edges.view(np.float32), values])
    expected = torch.from_numpy(values).to(torch.bfloat16).to(torch.float32).numpy()
    np.testing.assert_array_equal(returned(values, "bfloat16").view(np.uint32), expected.view(np.uint32))


def test_int8_is_within_a_step_and_right_on_average() -> None:
    """The largest of every 256 values is exact, all are within 1 / 127 of it, and many roundings average to them."""
    values = normal(3, 700) * np.repeat([1.0, 1e-20, 1e20], [256, 256, 188]).astype(np.float32)
    largest = np.repeat([np.abs(values[at : at + 256]).max() for at in (0, 256, 512)], 256)[:700].astype(np.float64)
    drawn = np.array([returned(values, "int8", seed) for seed in range(400)], np.float64)
    assert (np.abs(drawn - values) <= largest / 127 * (1 + 1e-6)).all()
    exact = np.abs(values) == largest
    assert (drawn[:, exact] == values[exact]).all()
    error = np.abs(drawn.mean(axis=0) - values) / largest * 127
    assert error.max() < 5 * 0.5 / np.sqrt(400) + 2 / 512
    assert (drawn.std(axis=0)[~exact] > 0).mean() > 0.9


def test_the_same_random_stream_gives_the_same_bytes_and_another_random_stream_others() -> None:
    first, again, other = (
        encode(update(normal(4)), SPEC, values="int8", random_stream=stream(seed, ROUNDING, 1, 2)) for seed in (5, 5, 6)
    )
    assert first == again
    assert first != other


@pytest.mark.parametrize("backend", kernels.BACKENDS)
def test_backends_write_the_same_bytes(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = encode(update(normal(6)), SPEC, values="int8")
    chosen: ModuleType = kernels.backend(backend)
    monkeypatch.setattr(kernels, "backend", lambda: chosen)
    assert encode(update(normal(6)), SPEC, values="int8") == data
    assert encode(decode(data, SPEC, limit=LIMIT), SPEC, values="int8", random_stream=stream(9, ROUNDING)) == data


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["float16", "bfloat16", "int8"]), st.integers(-98, 10))
def test_what_comes_back_is_written_alike_whatever_the_random_stream(seed: int, form: str, power: int) -> None:
    values = normal(seed, 1000) * np.float32(2.0**power)
    data = encode(update(values), SPEC, values=form)
    found = decode(data, SPEC, limit=LIMIT)
    assert encode(found, SPEC, values=form, random_stream=stream(seed, ROUNDING)) == data


def test_small_blocks_of_int8_are_zero() -> None:
    tiny = np.full(600, 2.0**-101, np.float32)
    tiny[300] = 2.0**-100
    found = returned(tiny, "int8")
    assert (found[:256] == 0).all()
    assert (found[512:] == 0).all()
    assert found[300] == 2.0**-100


@pytest.mark.parametrize("form", ["float16", "bfloat16", "int8"])
def test_what_a_format_cannot_hold_is_named(form: str) -> None:
    for value in (np.nan, np.inf, -np.inf, *({"float16": [65520.0], "bfloat16": [3.4e38], "int8": []}[form])):
        values = normal(7, 400)
        values[300] = value
        with pytest.raises(CodecError, match=rf"block 'huge.bias': value \S+ at 300; expected a finite one .*{form}"):
            encode(update(values), SPEC, values=form)
    quiet = np.array([0x7FFFFFFF, 0xFFFFFFFF], np.uint32).view(np.float32)  # rounding could make these numbers
    with pytest.raises(CodecError, match="at 0; expected a finite one"):
        encode(update(quiet), SPEC, values=form)


def test_int8_that_nobody_writes_is_refused() -> None:
    good = encode(Update({"a.bias": block("a.bias", None, 122.0)}), SPEC, values="int8")
    assert good[36:] == np.float32(127).tobytes() + bytes([250, 251, 252, 253, 254, 255])
    small = np.float32(2.0**-101)
    for scale, codes, words in [
        (np.float32(np.nan), [255] * 6, "has scale nan; expected 0, or a finite scale of at least 2^-100"),
        (np.float32(np.inf), [255] * 6, "has scale inf; expected 0, or"),
        (np.float32(-1), [255] * 6, "has scale -1.0; expected 0, or"),
        (np.float32(-0.0), [128] * 6, "has scale -0.0; expected 0, or"),
        (small, [255] * 6, f"has scale {small}; expected 0, or"),
        (np.float32(1), [254] * 6, "has a largest code of 126 at one of its scales; expected 127"),
        (
            np.float32(1),
            [255, 0, 128, 128, 128, 128],
            "has a largest code of 128 at one of its scales; expected 127",
        ),
        (np.float32(0), [128] * 5 + [129], "has a largest code of 1 at one of its scales; expected 0"),
    ]:
        with pytest.raises(CodecError) as error:
            decode(good[:36] + scale.tobytes() + bytes(codes), SPEC, limit=LIMIT)
        assert str(error.value).startswith(f"block 'a.bias' {words}"), str(error.value)
