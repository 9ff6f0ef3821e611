"""Masks as bytes, and values at a mask: golden bytes, round trips, one test per malformation, bit flips and noise."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgefl.errors import CodecError, SelectionError
from edgefl.models.neurons.block_index import Flat
from edgefl.models.neurons.gather import put, take
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import AxisSpec, ModelSpec, ParamSpec
from edgefl.models.neurons.update import Update, mask_of
from edgefl.protocol.codec import Sizes, decode, encode, sizes
from edgefl.protocol.codec.format import ENTRY
from edgefl.protocol.codec.masks import HEADER, decode_mask, encode_mask, is_mask
from edgefl.rng import sample_ids
from tests.protocol.codec.codec_examples import LIMIT, MASK, ONES, SPEC, active, bits, block, flat

GOLDEN = bytes.fromhex(
    "45464c4d 02 00 0300 000102030405060708090a0b0c0d0e0f"  # magic, version, kind, 3 parameters, fingerprint
    "0200 0000 03000000"  # parameter 2, bitmap, 3 of 36
    "0300 0100 02000000"  # parameter 3, 2-byte list, 2 of 300
    "0400 0200 01000000"  # parameter 4, 4-byte list, 1 of 70000
    "0102000008 0500 2b01 6f110100"
)
B_WEIGHT, WIDE, HUGE = 2, 3, 4
BITMAP, LIST16, LIST32, SEED, CODED = range(5)
Row = tuple[int, int, int]


def payload(
    rows: list[Row],
    index: bytes = b"",
    magic: bytes = b"EFLM",
    version: int = 2,
    kind: int = 0,
    fingerprint: bytes = SPEC.fingerprint,
    held: bytes = b"",
) -> bytes:
    """A mask written by hand: rows are (parameter, id coding, count)."""
    head = HEADER.pack(magic, version, kind, len(rows), fingerprint) + held
    return head + b"".join(ENTRY.pack(*row) for row in rows) + index


def refusal(data: bytes) -> str:
    with pytest.raises(CodecError) as error:
        decode_mask(data, SPEC)
    return str(error.value)


def ids16(*ids: int) -> bytes:
    return np.array(ids, "<u2").tobytes()


# ---- what is written ------------------------------------------------------------------------------------------------


def test_golden_bytes_of_every_coding() -> None:
    assert encode_mask(MASK, SPEC).hex(" ") == GOLDEN.hex(" ")
    assert decode_mask(GOLDEN, SPEC) == MASK
    assert {name: tuple(ids) for name, ids in decode_mask(GOLDEN, SPEC).ids.items()} == ONES


def test_sizes_are_coordinates_and_a_header() -> None:
    assert sizes(GOLDEN) == Sizes(values=0, index=5 + 4 + 4, header=24 + 3 * 8)
    assert is_mask(GOLDEN)
    assert not is_mask(encode(Update({}), SPEC))
    assert not is_mask(b"")


def test_a_parameter_whose_bits_are_all_one_is_not_listed() -> None:
    mask = Mask.of(SPEC, {"a.bias": bits("a.bias", *range(6)), "wide.bias": bits("wide.bias", 1)})
    assert list(mask.bits) == ["wide.bias"]
    assert mask == Mask.of(SPEC, {"wide.bias": bits("wide.bias", 1)})


@st.composite
def masks(draw: st.DrawFn) -> Mask:
    found = {}
    for name in draw(st.lists(st.sampled_from(list(SPEC.params)), unique=True)):
        size = int(np.prod(SPEC.params[name].shape))
        found[name] = bits(name, *sample_ids(draw(st.integers(0, 2**64 - 1)), size, draw(st.integers(0, size))))
    return Mask.of(SPEC, found)


@settings(max_examples=60, deadline=None)
@given(masks())
def test_decode_of_encode_is_the_mask(mask: Mask) -> None:
    data = encode_mask(mask, SPEC)
    assert decode_mask(data, SPEC) == mask
    assert decode_mask(data, SPEC).hash() == mask.hash()
    assert sizes(data).total == len(data)


@settings(max_examples=60, deadline=None)
@given(masks())
def test_values_at_a_mask_travel_without_ids_and_come_back(mask: Mask) -> None:
    """Both sides know the mask: a value takes 4 bytes, and there is a hash. The sender needs only its update."""
    params = {name: np.full(param.shape, 2, np.float32) for name, param in SPEC.params.items()}
    update = take(params, SPEC, mask)
    data = encode(update, SPEC, known=mask_of(update))
    assert decode(data, SPEC, limit=len(data), known=mask) == update
    assert encode(update, SPEC, known=mask) == data
    assert (sizes(data).values, sizes(data).index) == (4 * update.count, 0)
    zeros = {name: np.zeros(param.shape, np.float32) for name, param in SPEC.params.items()}
    put(zeros, update)
    for name, value in zeros.items():
        np.testing.assert_array_equal(value == 2, mask.bits.get(name, np.ones(value.shape, np.bool_)))


def test_masks_differ_in_their_hash_where_they_differ() -> None:
    others = [
        MASK.only(["b.weight", "wide.bias"]),
        Mask.of(SPEC, {**MASK.bits, "b.weight": bits("b.weight", 0, 9, 34)}),
        Mask.of(SPEC, {**MASK.bits, "a.bias": bits("a.bias")}),
    ]
    assert len({mask.hash() for mask in (MASK, *others)}) == 4
    assert all(mask != MASK for mask in others)


def test_bits_that_fit_no_parameter_are_refused() -> None:
    for found, words in [
        ({"c.bias": np.zeros(3, np.bool_)}, "mask of 'c.bias'; expected parameters among a.weight"),
        ({"a.bias": np.zeros(5, np.bool_)}, r"mask of 'a.bias': bool of shape \(5,\); expected bool \(6,\)"),
        ({"a.bias": np.zeros(6, np.uint8)}, r"mask of 'a.bias': uint8 of shape \(6,\); expected bool \(6,\)"),
    ]:
        with pytest.raises(SelectionError, match=words):
            Mask.of(SPEC, found)


def test_a_mask_of_another_model_is_not_written() -> None:
    with pytest.raises(CodecError, match=r"mask of 'c.bias' of shape \(3,\); expected a parameter of the model"):
        encode_mask(Mask({"c.bias": np.zeros(3, np.bool_)}), SPEC)


# ---- masks that are refused -----------------------------------------------------------------------------------------


def test_the_hand_written_mask_is_accepted() -> None:
    expected = Mask.of(SPEC, {"wide.bias": bits("wide.bias", 7)})
    assert decode_mask(payload([(WIDE, LIST16, 1)], ids16(7)), SPEC) == expected
    assert decode_mask(payload([]), SPEC) == Mask({})


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "header: 0 bytes left; expected 24"),
        (payload([], magic=b"EFLU"), "magic b'EFLU'; expected b'EFLM'"),
        (payload([], version=1), "version 1 and kind 0; expected version 2 and kind 0 or 1"),
        (payload([], kind=2), "version 2 and kind 2; expected version 2 and kind 0 or 1"),
        (payload([], fingerprint=bytes(16)), f"mask of model {bytes(16).hex()}; expected {SPEC.fingerprint.hex()}"),
        (payload([(WIDE, LIST16, 1)] * 6, ids16(7)), "mask of 6 parameters; expected at most 5"),
        (payload([(5, LIST16, 1)], ids16(7)), "mask of parameter 5; expected parameters below 5"),
        (
            payload([(WIDE, LIST16, 1)] * 2, ids16(7, 7)),
            "mask of parameter 3 after 3; expected each parameter once and in order",
        ),
        (
            payload([(WIDE, LIST16, 1), (B_WEIGHT, LIST16, 1)], ids16(7, 7)),
            "mask of parameter 2 after 3; expected each parameter once and in order",
        ),
        (
            payload([(B_WEIGHT, BITMAP, 36)], b"\xff\xff\xff\xff\x0f"),
            "mask of 'b.weight': 36 of 36 coordinates; expected fewer than 36, or no row for a whole parameter",
        ),
        (
            payload([(B_WEIGHT, BITMAP, 2**32 - 1)], bytes(5)),
            "mask of 'b.weight': 4294967295 of 36 coordinates; expected fewer than 36, or no row for a whole parameter",
        ),
        (payload([(WIDE, LIST16, 2)], ids16(9, 3)), "mask of 'wide.bias': id 3 after 9; expected increasing ids"),
        (payload([(WIDE, LIST16, 2)], ids16(3, 3)), "mask of 'wide.bias': id 3 after 3; expected increasing ids"),
        (payload([(WIDE, LIST16, 1)], ids16(300)), "mask of 'wide.bias': id 300; expected ids below 300"),
        (
            payload([(B_WEIGHT, BITMAP, 3)], b"\1\2\0\0\x18"),
            "mask of 'b.weight': padding bit 36 of the bitmap is 1; expected 0",
        ),
        (payload([(B_WEIGHT, BITMAP, 3)], b"\1\0\0\0\0"), "mask of 'b.weight': bitmap with 1 ids; expected 3"),
        (
            payload([(WIDE, BITMAP, 1)], b"\1" + bytes(37)),
            "mask of 'wide.bias': 1 of 300 ids as BITMAP; expected LIST16, 2 bytes",
        ),
        (
            payload([(WIDE, SEED, 100)], bytes(8)),
            "mask of 'wide.bias': 100 of 300 ids as SEED; expected BITMAP, 38 bytes",
        ),
        (
            payload([(WIDE, 7, 1)], ids16(7)),
            "mask of 'wide.bias': 1 of 300 ids in id coding 7; expected LIST16, 2 bytes",
        ),
        (
            payload([(WIDE, CODED, 1)], ids16(7)),
            "mask of 'wide.bias': 1 of 300 ids as CODED; expected LIST16, 2 bytes",
        ),
        (
            payload([(HUGE, LIST32, 7000)], bytes(28000)),
            "mask of 'huge.bias': 7000 of 70000 ids as LIST32; expected CODED, about 4121 bytes",
        ),
        (
            payload([(HUGE, CODED, 7000)], bytes(500)),
            "mask of 'huge.bias': 500 bytes left; expected at least 529, 7000 of 70000 ids",
        ),
        (
            payload([(HUGE, CODED, 7000)], b"\xff" * 5000),
            "mask of 'huge.bias': bytes that cannot be decoded; expected the code of 7000 of 70000 ids",
        ),
        (
            payload([(HUGE, CODED, 7000)], bytes(5000)),
            "mask of 'huge.bias': bytes that cannot be decoded; expected the code of 7000 of 70000 ids",
        ),
        (
            payload([], kind=1, held=MASK.hash()),
            f"difference from mask {MASK.hash().hex()}; expected the whole mask, as the receiver holds no mask",
        ),
        (payload([(WIDE, LIST16, 2)], ids16(7)), "coordinates of the mask of 'wide.bias': 2 bytes left; expected 4"),
        (GOLDEN + b"\0", "1 trailing bytes; expected the end of the payload after the coordinates"),
    ],
)
def test_what_is_no_mask_is_refused(data: bytes, words: str) -> None:
    assert refusal(data) == words


def only_codec_errors(data: bytes) -> None:
    """Decode. What is accepted must be what encode_mask writes, so that no two payloads have one meaning."""
    try:
        mask = decode_mask(data, SPEC)
    except CodecError as error:
        assert "; " in str(error)
        return
    assert encode_mask(mask, SPEC) == data


def test_truncation_at_every_byte() -> None:
    for size in range(len(GOLDEN)):
        assert "bytes left; expected" in refusal(GOLDEN[:size])


def test_every_single_bit_flip() -> None:
    for position in range(8 * len(GOLDEN)):
        flipped = bytearray(GOLDEN)
        flipped[position // 8] ^= 1 << position % 8
        only_codec_errors(bytes(flipped))


@settings(max_examples=200, deadline=None)
@given(tail=st.binary(max_size=120), count=st.integers(0, 5))
def test_noise_after_a_good_header_raises_codec_errors(tail: bytes, count: int) -> None:
    only_codec_errors(HEADER.pack(b"EFLM", 2, 0, count, SPEC.fingerprint) + tail)


def test_a_mask_that_claims_more_than_it_sends_allocates_nothing_of_that_size() -> None:
    enormous = ModelSpec({"weight": ParamSpec((1 << 16, 1 << 14), "learn", AxisSpec("n"))}, {"n": 1 << 16}, bytes(16))
    claims = [(0, LIST32, 1 << 8), (0, CODED, 1 << 20), (0, BITMAP, 1 << 29)]
    held = Mask({})
    tracemalloc.start()
    try:
        for row in claims:
            for kind in ({"kind": 0}, {"kind": 1, "held": held.hash()}):
                with pytest.raises(CodecError, match="bytes left; expected"):
                    decode_mask(payload([row], bytes(500), fingerprint=bytes(16), **kind), enormous, known=held)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100_000  # the logarithms of an expected size take some


# ---- values at a mask that the receiver knows -----------------------------------------------------------------------


def update_refusal(data: bytes, known: Mask | None) -> str:
    with pytest.raises(CodecError) as error:
        decode(data, SPEC, limit=LIMIT, known=known)
    return str(error.value)


AT_MASK = encode(flat("wide.bias", 5, 299), SPEC, known=MASK)


def with_row(data: bytes, coding: int, count: int) -> bytes:
    """The payload with another coding and count in its only row, which follows header and hash."""
    return data[:36] + ENTRY.pack(WIDE, coding, count) + data[44:]


def test_a_mask_is_known_by_its_hash() -> None:
    other = MASK.only(["wide.bias"])
    assert update_refusal(AT_MASK, other) == f"mask {MASK.hash().hex()}; expected {other.hash().hex()}"
    assert update_refusal(AT_MASK, None) == "payload without neuron ids; expected a payload that carries them"
    own = encode(flat("wide.bias", 5, 299), SPEC)
    assert (
        update_refusal(own, MASK) == f"payload with its own ids; expected only the hash {MASK.hash().hex()} of the mask"
    )


def test_a_neuron_set_is_no_mask() -> None:
    data = bytearray(AT_MASK)
    data[5] = 2
    assert (
        update_refusal(bytes(data), MASK)
        == "flags 0x02 for ids or masks that the receiver holds; expected 0x04, the mask"
    )
    data[5] = 6
    assert (
        update_refusal(bytes(data), MASK)
        == "flags 0x06 for ids or masks that the receiver holds; expected 0x04, the mask"
    )


def test_coordinates_of_the_mask_are_not_listed() -> None:
    listed = with_row(AT_MASK, 3, 2)[:44] + ids16(5, 299) + AT_MASK[44:]
    found = update_refusal(listed, MASK)
    assert found == "block 'wide.bias' in coding 3; expected 6, as the mask gives its coordinates"


def test_masked_block_of_another_count() -> None:
    found = update_refusal(with_row(AT_MASK, 6, 1), MASK)
    assert found == "block 'wide.bias' of 1 values; expected 2"


def test_masked_block_that_the_mask_leaves_whole() -> None:
    mask = MASK.only(["b.weight"])
    data = AT_MASK[:28] + mask.hash() + AT_MASK[36:]
    assert (
        update_refusal(data, mask)
        == "block 'wide.bias' in coding masked; expected coding dense, as the mask leaves it whole"
    )


def test_masked_block_without_a_mask() -> None:
    data = AT_MASK[:5] + b"\0" + AT_MASK[6:28] + AT_MASK[36:]
    assert update_refusal(data, None) == "block 'wide.bias' in coding 6; expected 0 to 4 or 7"


def test_id_sets_beside_a_mask() -> None:
    data = AT_MASK[:6] + b"\1\0" + AT_MASK[8:]
    assert update_refusal(data, MASK) == "1 id sets; expected at most 0"


def test_neurons_beside_a_mask_are_not_written() -> None:
    with pytest.raises(CodecError, match=r"block 'a.bias': axis 0 keeps 2 of 6 neurons x 1, \[0, 2\]...; its neuron "):
        encode(active("a.bias"), SPEC, known=MASK)


def test_other_coordinates_than_the_mask_s_and_whole_parameters_travel_beside_it() -> None:
    update = Update({**flat("wide.bias", 7).blocks, "b.weight": block("b.weight", None)})
    data = encode(update, SPEC, known=MASK)
    assert decode(data, SPEC, limit=LIMIT, known=MASK) == update
    assert sizes(data).index == 4


def test_the_mask_of_an_update_is_that_of_its_flat_blocks() -> None:
    update = Update({**flat("b.weight", 0, 9, 35).blocks, **flat("a.bias", *range(6)).blocks})
    assert isinstance(update.blocks["a.bias"].index, Flat)
    assert mask_of(update) == MASK.only(["b.weight"])


# ---- differences to a mask that the receiver holds -------------------------------------------------------------------

FULL = Mask({})
OLD = Mask.of(SPEC, {"b.weight": bits("b.weight", 0, 9, 35), "huge.bias": bits("huge.bias", *range(0, 70000, 7))})
NEW = Mask.of(SPEC, {"b.weight": OLD.bits["b.weight"], "huge.bias": bits("huge.bias", *range(7, 70000, 7), 5)})
UNCHANGED = payload([], kind=1, held=OLD.hash())
TWO_DIFFER = payload([(HUGE, LIST32, 2)], np.array([0, 5], "<u4").tobytes(), kind=1, held=OLD.hash())


def test_golden_bytes_of_differences() -> None:
    """8 bytes of hash where nothing has changed, and what has changed where that is shorter than the mask."""
    assert encode_mask(OLD, SPEC, known=OLD) == UNCHANGED
    assert encode_mask(NEW, SPEC, known=OLD) == TWO_DIFFER
    assert sizes(UNCHANGED) == Sizes(values=0, index=0, header=32)
    assert sizes(TWO_DIFFER) == Sizes(values=0, index=8, header=40)
    assert decode_mask(UNCHANGED, SPEC, known=OLD) == OLD
    assert decode_mask(TWO_DIFFER, SPEC, known=OLD) == NEW


@settings(max_examples=60, deadline=None)
@given(masks(), masks(), st.lists(st.integers(0, 69999), max_size=5))
def test_a_mask_comes_back_whatever_is_held_and_a_difference_is_never_longer(
    mask: Mask, known: Mask, moved: list[int]
) -> None:
    near = dict(mask.bits)
    near["huge.bias"] = near.get("huge.bias", np.ones(70000, np.bool_)) ^ bits("huge.bias", *moved)
    for held in (known, Mask.of(SPEC, near), mask, FULL):
        data = encode_mask(mask, SPEC, known=held)
        assert decode_mask(data, SPEC, known=held) == mask
        assert len(data) <= len(encode_mask(mask, SPEC)) + 16
        assert decode_mask(encode_mask(mask, SPEC), SPEC, known=held) == mask


def test_all_of_a_parameter_may_have_changed() -> None:
    none = Mask.of(SPEC, {"huge.bias": bits("huge.bias"), "b.weight": MASK.bits["b.weight"]})
    many = Mask.of(SPEC, {name: bits(name, *range(0, np.prod(SPEC.params[name].shape), 2)) for name in SPEC.params})
    rest = Mask.of(SPEC, {name: ~each for name, each in many.bits.items()})
    for mask, held in [(FULL, none), (none, FULL), (many, none), (rest, many)]:
        data = encode_mask(mask, SPEC, known=held)
        assert decode_mask(data, SPEC, known=held) == mask


@pytest.mark.parametrize(
    ("data", "known", "words"),
    [
        (
            UNCHANGED,
            None,
            f"difference from mask {OLD.hash().hex()}; expected the whole mask, as the receiver holds no mask",
        ),
        (
            UNCHANGED,
            NEW,
            f"difference from mask {OLD.hash().hex()}; expected mask {NEW.hash().hex()}, which the receiver holds",
        ),
        (UNCHANGED[:30], OLD, "hash of the mask that is held: 6 bytes left; expected 8"),
        (
            payload([(HUGE, LIST32, 0)], kind=1, held=OLD.hash()),
            OLD,
            "mask of 'huge.bias': 0 of 70000 coordinates differ; expected at least one, or no row",
        ),
        (
            payload([(WIDE, BITMAP, 301)], bytes(38), kind=1, held=OLD.hash()),
            OLD,
            "mask of 'wide.bias': 301 of 300 coordinates differ; expected at least one, or no row",
        ),
        (
            payload([(B_WEIGHT, BITMAP, 33)], b"\xfe\xfd\xff\xff\x07", kind=1, held=MASK.only(["b.weight"]).hash()),
            MASK.only(["b.weight"]),
            f"difference from mask {MASK.only(['b.weight']).hash().hex()}, which is not shorter; "
            "expected the whole mask",
        ),
    ],
)
def test_what_is_no_difference_is_refused(data: bytes, known: Mask | None, words: str) -> None:
    with pytest.raises(CodecError) as error:
        decode_mask(data, SPEC, known=known)
    assert str(error.value) == words


def test_every_single_bit_flip_of_a_difference() -> None:
    for position in range(8 * len(TWO_DIFFER)):
        flipped = bytearray(TWO_DIFFER)
        flipped[position // 8] ^= 1 << position % 8
        try:
            found = decode_mask(bytes(flipped), SPEC, known=OLD)
        except CodecError as error:
            assert "; " in str(error)
            continue
        assert encode_mask(found, SPEC, known=OLD) == bytes(flipped)
