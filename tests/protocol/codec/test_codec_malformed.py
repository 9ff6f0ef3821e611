"""Payloads that are not what encode writes: one named test per malformation, then every prefix, bit flips and noise."""

from __future__ import annotations

import re
import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from edgefl.errors import CodecError
from edgefl.models.neurons.block_index import Axes, AxisIds
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import AxisSpec, ModelSpec, ParamSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.update import Block, Update
from edgefl.protocol.codec import decode, encode
from edgefl.protocol.codec.format import ENTRY, HEADER
from edgefl.protocol.codec.values import format_of
from tests.protocol.codec.codec_examples import ACTIVE, EXAMPLES, KEY, LIMIT, NEURON_SET, SPEC, golden

A_BIAS, B_WEIGHT, WIDE, HUGE = 1, 2, 3, 4  # parameters of SPEC (its groups are a = 0, wide = 1, huge = 2)
DENSE, AXES, FLAT_BITMAP, FLAT_LIST16, FLAT_LIST32, FLAT_SEED = range(6)
BITMAP, LIST16, LIST32, SEED = range(4)
Row = tuple[int, int, int]


def payload(
    *,
    magic: bytes = b"EFLU",
    version: int = 1,
    flags: int = 0,
    fingerprint: bytes = SPEC.fingerprint,
    selection: bytes = b"",
    sets: list[Row] | None = None,
    blocks: list[Row] | None = None,
    index: bytes = b"",
    padding: bytes | None = None,
    values: int = 0,
) -> bytes:
    """Return a payload written by hand. Rows are (group or parameter, coding, count), and `values` are float32."""
    set_rows, block_rows = sets or [], blocks or []
    head = HEADER.pack(magic, version, flags, len(set_rows), fingerprint, len(block_rows)) + selection
    head += b"".join(ENTRY.pack(*row) for row in set_rows + block_rows)
    fill = bytes(-len(head + index) % 4) if padding is None else padding
    return head + index + fill + np.ones(values, "<f4").tobytes()


def refusal(data: bytes, known: NeuronSet | Mask | None = None, limit: int = LIMIT) -> str:
    """The text of the CodecError that decoding raises."""
    with pytest.raises(CodecError) as error:
        decode(data, SPEC, limit=limit, known=known)
    return str(error.value)


def ids16(*ids: int) -> bytes:
    return np.array(ids, "<u2").tobytes()


def ids32(*ids: int) -> bytes:
    return np.array(ids, "<u4").tobytes()


def one_set(group: int, coding: int, count: int, index: bytes, parameter: int, values: int) -> bytes:
    """Return a payload with one id set, and one axes block that reads it."""
    return payload(sets=[(group, coding, count)], blocks=[(parameter, AXES, values)], index=index, values=values)


def one_flat(parameter: int, coding: int, count: int, index: bytes) -> bytes:
    return payload(blocks=[(parameter, coding, count)], index=index, values=count)


def test_the_hand_written_payload_is_accepted() -> None:
    decoded = decode(one_set(1, LIST16, 2, ids16(3, 9), WIDE, 2), SPEC, limit=LIMIT)
    index = Axes(AxisIds(np.array([3, 9], np.int32), 300))
    assert decoded == Update({"wide.bias": Block((300,), index, np.ones(2, np.float32))})


# ---- header --------------------------------------------------------------------------------------------------------


def test_empty_payload() -> None:
    assert refusal(b"") == "header: 0 bytes left; expected 28"


def test_bad_magic() -> None:
    assert refusal(payload(magic=b"EFLV")) == "magic b'EFLV'; expected b'EFLU'"


def test_unknown_version() -> None:
    assert refusal(payload(version=2)) == "version 2; expected 1"


@pytest.mark.parametrize("bit", range(5, 8))
def test_unknown_flag_bits(bit: int) -> None:
    assert refusal(payload(flags=1 << bit)) == f"flags {1 << bit:#04x}; expected no bits but 0x1f"


def test_payload_of_another_model() -> None:
    found = refusal(payload(fingerprint=bytes(16)))
    assert found == f"payload of model {bytes(16).hex()}; expected {SPEC.fingerprint.hex()}"


def test_payload_above_the_declared_limit() -> None:
    data = golden("axes_bitmap")
    assert refusal(data, limit=len(data) - 1) == f"payload of {len(data)} bytes; the limit is {len(data) - 1}"


def test_more_id_sets_than_groups() -> None:
    assert refusal(payload(sets=[(0, BITMAP, 1)] * 4)) == "4 id sets; expected at most 3"


def test_more_blocks_than_parameters() -> None:
    assert refusal(payload(blocks=[(0, DENSE, 12)] * 6)) == "6 blocks; expected at most 5"


def test_counts_of_a_huge_table_are_not_believed() -> None:
    data = bytearray(payload())
    data[24:28] = b"\xff" * 4
    assert refusal(bytes(data)) == "4294967295 blocks; expected at most 5"


# ---- selection known to the receiver -------------------------------------------------------------------------------


def test_wrong_selection_hash() -> None:
    other = NeuronSet.of(SPEC, {**ACTIVE, "a": [0, 3]})
    found = refusal(golden("axes_known"), known=other)
    assert found == f"neuron set {NEURON_SET.hash().hex()}; expected {other.hash().hex()}"


def test_payload_without_ids_where_ids_are_expected() -> None:
    assert refusal(golden("axes_known")) == "payload without neuron ids; expected a payload that carries them"


def test_payload_with_ids_where_a_hash_is_expected() -> None:
    found = refusal(golden("axes_bitmap"), known=NEURON_SET)
    assert found == f"payload with its own ids; expected only the hash {NEURON_SET.hash().hex()} of the neuron set"


def test_id_sets_beside_a_selection_hash() -> None:
    data = payload(flags=2, selection=NEURON_SET.hash(), sets=[(0, BITMAP, 1)], blocks=[(A_BIAS, AXES, 1)], index=b"\1")
    assert refusal(data, known=NEURON_SET) == "1 id sets; expected at most 0"


# ---- tables --------------------------------------------------------------------------------------------------------


def test_unknown_block() -> None:
    assert refusal(payload(blocks=[(5, DENSE, 1)])) == "block of parameter 5; expected parameters below 5"


def test_unknown_group() -> None:
    assert refusal(payload(sets=[(3, BITMAP, 1)])) == "id set of group 3; expected groups below 3"


def test_duplicate_block() -> None:
    data = payload(blocks=[(A_BIAS, DENSE, 6), (A_BIAS, DENSE, 6)], values=12)
    assert refusal(data) == "block of parameter 1 after 1; expected each parameter once and in order"


def test_blocks_out_of_order() -> None:
    data = payload(blocks=[(B_WEIGHT, DENSE, 36), (A_BIAS, DENSE, 6)], values=42)
    assert refusal(data) == "block of parameter 1 after 2; expected each parameter once and in order"


def test_duplicate_id_set() -> None:
    data = payload(sets=[(0, BITMAP, 1), (0, BITMAP, 1)], blocks=[(A_BIAS, AXES, 1)], index=b"\1\1", values=1)
    assert refusal(data) == "id set of group 0 after 0; expected each group once and in order"


def test_unknown_block_coding() -> None:
    assert refusal(payload(blocks=[(A_BIAS, 8, 6)], values=6)) == "block 'a.bias' in coding 8; expected 0 to 4 or 7"


def test_flat_coordinates_as_a_seed() -> None:
    found = refusal(one_flat(WIDE, FLAT_SEED, 100, KEY.to_bytes(8, "little")))
    assert found == "block 'wide.bias' in coding 5; expected 0 to 4 or 7"


def test_wrong_number_of_values_in_a_dense_block() -> None:
    assert refusal(payload(blocks=[(A_BIAS, DENSE, 5)], values=5)) == "block 'a.bias' of 5 values; expected 6"


def test_wrong_number_of_values_in_an_axes_block() -> None:
    found = refusal(one_set(0, BITMAP, 2, b"\5", B_WEIGHT, 13))
    assert found == "block 'b.weight' of 13 values; expected 12"


def test_more_coordinates_than_the_parameter_has() -> None:
    found = refusal(one_flat(A_BIAS, FLAT_BITMAP, 7, b"\x7f"))
    assert found == "block 'a.bias' of 7 values; expected at most 6"


def test_axes_block_whose_groups_are_whole() -> None:
    found = refusal(payload(blocks=[(A_BIAS, AXES, 6)], values=6))
    assert found == "block 'a.bias' in coding axes; expected coding dense, as all its groups are whole"


def test_id_set_that_no_block_reads_beside_one_that_is_read() -> None:
    index = b"\1" + ids16(3, 9)
    data = payload(sets=[(0, BITMAP, 1), (1, LIST16, 2)], blocks=[(A_BIAS, AXES, 1)], index=index, values=1)
    assert refusal(data) == "ids of group 'wide', which no block reads; expected ids of other groups only"


def test_id_set_that_no_block_reads() -> None:
    data = payload(sets=[(0, BITMAP, 1)], blocks=[(A_BIAS, DENSE, 6)], index=b"\1", values=6)
    assert refusal(data) == "ids of group 'a', which no block reads; expected ids of other groups only"


# ---- id sets and coordinates ---------------------------------------------------------------------------------------


def test_unsorted_ids() -> None:
    assert refusal(one_set(1, LIST16, 2, ids16(9, 3), WIDE, 2)) == "group 'wide': id 3 after 9; expected increasing ids"


def test_duplicate_ids() -> None:
    assert refusal(one_set(1, LIST16, 2, ids16(3, 3), WIDE, 2)) == "group 'wide': id 3 after 3; expected increasing ids"


def test_id_out_of_range() -> None:
    assert refusal(one_set(1, LIST16, 2, ids16(3, 300), WIDE, 2)) == "group 'wide': id 300; expected ids below 300"


def test_id_that_is_negative_as_a_signed_number() -> None:
    found = refusal(one_set(2, LIST32, 1, ids32(2**32 - 1), HUGE, 1))
    assert found == "group 'huge': id 4294967295; expected ids below 70000"


def test_bitmap_with_padding_bits() -> None:
    found = refusal(one_set(0, BITMAP, 1, b"\x41", A_BIAS, 1))
    assert found == "group 'a': padding bit 6 of the bitmap is 1; expected 0"


def test_bitmap_of_another_count() -> None:
    assert refusal(one_set(0, BITMAP, 1, b"\x03", A_BIAS, 1)) == "group 'a': bitmap with 2 ids; expected 1"


def test_bitmap_where_the_list_is_smaller() -> None:
    found = refusal(one_set(1, BITMAP, 1, b"\1" + bytes(37), WIDE, 1))
    assert found == "group 'wide': 1 of 300 ids as BITMAP; expected LIST16, 2 bytes"


def test_list_where_the_bitmap_is_smaller() -> None:
    found = refusal(one_set(0, LIST16, 1, ids16(0), A_BIAS, 1))
    assert found == "group 'a': 1 of 6 ids as LIST16; expected BITMAP, 1 bytes"


def test_long_list_of_a_group_with_short_ids() -> None:
    found = refusal(one_set(1, LIST32, 1, ids32(0), WIDE, 1))
    assert found == "group 'wide': 1 of 300 ids as LIST32; expected LIST16, 2 bytes"


def test_seed_where_the_list_is_smaller() -> None:
    found = refusal(one_set(1, SEED, 4, KEY.to_bytes(8, "little"), WIDE, 4))
    assert found == "group 'wide': 4 of 300 ids as SEED; expected LIST16, 8 bytes"


def test_unknown_id_coding() -> None:
    found = refusal(one_set(1, 4, 1, ids16(0), WIDE, 1))
    assert found == "group 'wide': 1 of 300 ids as CODED; expected LIST16, 2 bytes"


def test_seed_of_more_ids_than_the_group_has() -> None:
    found = refusal(one_set(1, SEED, 301, KEY.to_bytes(8, "little"), WIDE, 301))
    assert found == "group 'wide': 301 active neurons of 300; expected at least 1 and fewer than 300"


@pytest.mark.parametrize("count", [0, 300, 2**32 - 1])
def test_id_set_that_is_empty_or_whole(count: int) -> None:
    found = refusal(payload(sets=[(1, BITMAP, count)], blocks=[(WIDE, AXES, 1)], index=bytes(38), values=1))
    assert found == f"group 'wide': {count} active neurons of 300; expected at least 1 and fewer than 300"


def test_unsorted_coordinates() -> None:
    found = refusal(one_flat(WIDE, FLAT_LIST16, 2, ids16(9, 3)))
    assert found == "block 'wide.bias': id 3 after 9; expected increasing ids"


def test_coordinate_out_of_range() -> None:
    found = refusal(one_flat(HUGE, FLAT_LIST32, 1, ids32(70000)))
    assert found == "block 'huge.bias': id 70000; expected ids below 70000"


def test_coordinates_in_a_longer_coding() -> None:
    found = refusal(one_flat(WIDE, FLAT_LIST32, 1, ids32(0)))
    assert found == "block 'wide.bias': 1 of 300 ids as LIST32; expected LIST16, 2 bytes"


def test_coordinate_bitmap_with_padding_bits() -> None:
    found = refusal(one_flat(A_BIAS, FLAT_BITMAP, 1, b"\x81"))
    assert found == "block 'a.bias': padding bit 7 of the bitmap is 1; expected 0"


# ---- padding and values --------------------------------------------------------------------------------------------


def test_padding_that_is_not_zero() -> None:
    data = payload(blocks=[(A_BIAS, FLAT_BITMAP, 1)], index=b"\1", padding=b"\0\0\x07", values=1)
    assert refusal(data) == "padding 000007; expected zero bytes"


def test_fewer_values_than_the_table_says() -> None:
    found = refusal(payload(blocks=[(A_BIAS, DENSE, 6)], values=5))
    assert found == "index and values: 20 bytes left; expected at least 24"
    found = refusal(payload(blocks=[(A_BIAS, FLAT_BITMAP, 1)], index=b"\1", values=0))
    assert found == "values: 0 bytes left; expected 4"


def test_trailing_bytes() -> None:
    for name, (_, _, known) in EXAMPLES.items():
        assert (
            refusal(golden(name) + b"\0", known) == "1 trailing bytes; expected the end of the payload after the values"
        )
    assert refusal(payload(values=2)) == "8 trailing bytes; expected the end of the payload after the values"


def test_values_in_two_formats() -> None:
    for flags, names in ((9, "float16 and bfloat16"), (17, "float16 and int8"), (24, "bfloat16 and int8")):
        found = refusal(payload(flags=flags, blocks=[(A_BIAS, DENSE, 6)], values=6))
        assert found == f"flags {flags:#04x} of values in {names}; expected one number format"


def test_float16_values_that_are_not_finite() -> None:
    data = golden("dense_float16")
    for bits in (b"\x00\x7c", b"\x00\xfc", b"\x00\x7e"):
        assert refusal(data[:-2] + bits) == "block 'a.bias' holds a non-finite float16 value; expected finite ones"


@pytest.mark.parametrize("name", EXAMPLES)
def test_truncation_at_every_byte(name: str) -> None:
    data, known = golden(name), EXAMPLES[name][2]
    for size in range(len(data)):
        what, _, numbers = refusal(data[:size], known).rpartition(": ")
        assert what
        left, expected = (int(number) for number in re.findall(r"\d+", numbers))
        assert left < expected


# ---- anything at all -----------------------------------------------------------------------------------------------


def only_codec_errors(data: bytes, known: NeuronSet | Mask | None = None) -> None:
    """Decode. What is accepted must be what encode writes, so that no two payloads have one meaning."""
    try:
        update = decode(data, SPEC, limit=LIMIT, known=known)
    except CodecError as error:
        assert "; " in str(error)
        return
    values = format_of(data[5])
    assert encode(update, SPEC, values=values, known=known) == data


@settings(max_examples=300)
@given(name=st.sampled_from(list(EXAMPLES)), flips=st.lists(st.integers(0, 2**16), min_size=1, max_size=4))
def test_bit_flips_raise_codec_errors_or_give_another_update(name: str, flips: list[int]) -> None:
    data = bytearray(golden(name))
    for flip in flips:
        position = flip % (8 * len(data))
        data[position // 8] ^= 1 << position % 8
    only_codec_errors(bytes(data), EXAMPLES[name][2])


def test_every_single_bit_flip_before_the_values() -> None:
    for name in ("axes_bitmap", "axes_list16", "axes_known", "flat_bitmap", "masked", "mixed"):
        data, known = golden(name), EXAMPLES[name][2]
        for position in range(8 * min(len(data), 96)):
            flipped = bytearray(data)
            flipped[position // 8] ^= 1 << position % 8
            only_codec_errors(bytes(flipped), known)


@settings(max_examples=300)
@given(tail=st.binary(max_size=200), sets=st.integers(0, 3), blocks=st.integers(0, 5), flags=st.integers(0, 3))
@example(tail=b"", sets=0, blocks=0, flags=0)
def test_noise_after_a_good_header_raises_codec_errors(tail: bytes, sets: int, blocks: int, flags: int) -> None:
    data = HEADER.pack(b"EFLU", 1, flags, sets, SPEC.fingerprint, blocks) + tail
    only_codec_errors(data, NEURON_SET if flags & 2 else None)


@settings(max_examples=100)
@given(st.binary(max_size=200))
def test_noise_raises_codec_errors(data: bytes) -> None:
    only_codec_errors(data)


ENORMOUS = ModelSpec(
    params={"weight": ParamSpec((1 << 16, 1 << 14), "learn", AxisSpec("neurons"))},
    groups={"neurons": 1 << 16},
    fingerprint=SPEC.fingerprint,
)
SQUARE = ModelSpec({"weight": ParamSpec((1 << 10, 1 << 10), "learn")}, {}, SPEC.fingerprint)
CLAIMS = {
    "dense": (ENORMOUS, payload(blocks=[(0, DENSE, 1 << 30)])),
    "list of coordinates": (ENORMOUS, payload(blocks=[(0, FLAT_LIST32, 1 << 20)])),
    "bitmap of coordinates": (ENORMOUS, payload(blocks=[(0, FLAT_BITMAP, 1 << 29)])),
    "bitmap that is there": (SQUARE, payload(blocks=[(0, FLAT_BITMAP, 1 << 20)], index=b"\xff" * (1 << 17))),
    "seed": (ENORMOUS, payload(sets=[(0, SEED, 1 << 15)], blocks=[(0, AXES, 1 << 29)], index=bytes(8))),
    "list of neurons": (ENORMOUS, payload(sets=[(0, LIST32, 2000)], blocks=[(0, AXES, 2000 << 14)])),
}


@pytest.mark.parametrize(("spec", "data"), CLAIMS.values(), ids=CLAIMS)
def test_a_payload_that_claims_more_than_it_sends_allocates_nothing_of_that_size(spec: ModelSpec, data: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(CodecError, match=r"bytes left; expected at least \d+"):
            decode(data, spec, limit=LIMIT)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20_000
