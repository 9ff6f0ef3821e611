"""NeuronSet <-> bytes: golden bytes of every id coding, round trips, one test per malformed form, neurons_of."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgefl.errors import CodecError
from edgefl.models.graph import Params
from edgefl.models.graph.architectures import build
from edgefl.models.neurons.block_index import Axes, AxisIds
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.update import Update
from edgefl.protocol import codec
from edgefl.protocol.codec.format import ENTRY
from edgefl.protocol.codec.neurons import HEADER, decode_neurons, encode_neurons, neurons_of
from edgefl.rng import NEURONS, sample_ids, stream
from tests.protocol.codec.codec_examples import KEY, LIMIT, NEURON_SET, SPEC, active, block

BITMAP, LIST16, LIST32, SEED = range(4)
FINGERPRINT = SPEC.fingerprint
Row = tuple[int, int, int]


def written(
    sets: list[Row], index: bytes, *, magic: bytes = b"EFLN", version: int = 1, zero: int = 0, count: int | None = None
) -> bytes:
    """A neuron set written by hand: rows are (group, id coding, number of ids)."""
    head = HEADER.pack(magic, version, zero, len(sets) if count is None else count, FINGERPRINT)
    return head + b"".join(ENTRY.pack(*row) for row in sets) + index


def refusal(data: bytes) -> str:
    with pytest.raises(CodecError) as error:
        decode_neurons(data, SPEC)
    return str(error.value)


def whole_but(**active: list[int]) -> NeuronSet:
    return NeuronSet.of(SPEC, {group: active.get(group, range(size)) for group, size in SPEC.groups.items()})


def drawn(spec: ModelSpec, keep: float, seed: int = 1) -> NeuronSet:
    return NeuronSet.draw(spec, keep, stream(seed, NEURONS))


# ---- round trips -----------------------------------------------------------------------------------------------------


def test_golden_bytes_of_bitmap_and_lists() -> None:
    sets = "0000 0000 02000000" + "0100 0100 03000000" + "0200 0200 01000000"  # a, wide, huge: coding and number of ids
    index = "05" + "0100 0200 0201" + "00000100"  # a bitmap with 0 and 2, then the ids 1, 2, 258, then 65536
    header = b"EFLN\x01\x00\x03\x00" + FINGERPRINT
    assert encode_neurons(NEURON_SET, SPEC) == header + bytes.fromhex(sets + index)


def test_golden_bytes_of_a_seed() -> None:
    ids = whole_but(wide=sample_ids(KEY, 300, 100).tolist())
    neurons = NeuronSet(ids.active, {"a": None, "wide": KEY, "huge": None}, ids.sizes)
    expected = written([(1, SEED, 100)], bytes.fromhex("efcdab8967452301"))
    assert encode_neurons(neurons, SPEC) == expected
    assert decode_neurons(expected, SPEC).keys == neurons.keys


def test_full_set_is_a_header() -> None:
    data = encode_neurons(NeuronSet.full(SPEC), SPEC)
    assert data == written([], b"")
    assert decode_neurons(data, SPEC).is_full


@given(st.integers(0, 2**32), st.sampled_from([0.001, 0.2, 0.5, 0.999, 1.0]))
def test_drawn_set_comes_back_with_its_hash_and_keys(seed: int, keep: float) -> None:
    neurons = drawn(SPEC, keep, seed)
    data = encode_neurons(neurons, SPEC)
    decoded = decode_neurons(data, SPEC)
    assert (decoded, decoded.hash()) == (neurons, neurons.hash())
    assert encode_neurons(decoded, SPEC) == data


@given(st.sets(st.integers(0, 5), min_size=1), st.sets(st.integers(0, 299), min_size=1))
def test_any_set_comes_back(a: set[int], wide: set[int]) -> None:
    neurons = whole_but(a=sorted(a), wide=sorted(wide))
    assert decode_neurons(encode_neurons(neurons, SPEC), SPEC) == neurons


# ---- what is refused -------------------------------------------------------------------------------------------------


def test_set_of_another_model_is_not_encoded() -> None:
    spec = ModelSpec.of(build("lenet5", (1, 28, 28), 10))
    with pytest.raises(CodecError, match="neuron set of groups"):
        encode_neurons(NeuronSet.full(spec), SPEC)


def test_key_of_other_ids_is_not_encoded() -> None:
    ids = whole_but(wide=list(range(100)))
    with pytest.raises(CodecError, match="group 'wide': key 0x0123456789abcdef draws other ids"):
        encode_neurons(NeuronSet(ids.active, {"wide": KEY}, ids.sizes), SPEC)


def test_every_prefix_is_refused() -> None:
    data = encode_neurons(NEURON_SET, SPEC)
    assert all("bytes left" in refusal(data[:size]) for size in range(len(data)))


def test_trailing_bytes_are_refused() -> None:
    assert refusal(written([], b"\0")) == "1 trailing bytes; expected the end of the payload after the ids"


def test_wrong_magic_is_refused() -> None:
    assert refusal(written([], b"", magic=b"EFLU")) == "magic b'EFLU'; expected b'EFLN'"


@pytest.mark.parametrize(("version", "zero"), [(2, 0), (1, 1)])
def test_wrong_version_is_refused(version: int, zero: int) -> None:
    expected = f"version {version} and reserved byte {zero}; expected version 1 and byte 0"
    assert refusal(written([], b"", version=version, zero=zero)) == expected


def test_set_of_another_model_is_refused() -> None:
    data = written([], b"").replace(FINGERPRINT, bytes(16))
    assert refusal(data) == f"neuron set of model {'00' * 16}; expected {FINGERPRINT.hex()}"


def test_more_sets_than_groups_are_refused() -> None:
    assert refusal(written([], b"", count=4)) == "4 id sets; expected at most 3"


def test_unknown_group_is_refused() -> None:
    assert refusal(written([(3, BITMAP, 1)], b"\1")) == "id set of group 3; expected groups below 3"


@pytest.mark.parametrize("second", [0, 1])
def test_group_twice_or_out_of_order_is_refused(second: int) -> None:
    data = written([(1, LIST16, 1), (second, BITMAP, 1)], b"\0\0\1")
    assert refusal(data) == f"id set of group {second} after 1; expected each group once and in order"


@pytest.mark.parametrize("count", [0, 6, 7])
def test_set_of_no_or_all_neurons_is_refused(count: int) -> None:
    expected = f"group 'a': {count} active neurons of 6; expected at least 1 and fewer than 6"
    assert refusal(written([(0, BITMAP, count)], b"\x3f")) == expected


def test_bitmap_with_padding_bits_is_refused() -> None:
    assert refusal(written([(0, BITMAP, 2)], b"\x81")) == "group 'a': padding bit 7 of the bitmap is 1; expected 0"


def test_bitmap_with_another_number_of_ids_is_refused() -> None:
    assert refusal(written([(0, BITMAP, 2)], b"\x01")) == "group 'a': bitmap with 1 ids; expected 2"


@pytest.mark.parametrize("ids", [(5, 5), (5, 4)])
def test_list_that_does_not_increase_is_refused(ids: tuple[int, int]) -> None:
    data = written([(1, LIST16, 2)], np.array(ids, "<u2").tobytes())
    assert refusal(data) == f"group 'wide': id {ids[1]} after 5; expected increasing ids"


def test_id_beyond_the_group_is_refused() -> None:
    data = written([(1, LIST16, 1)], np.array([300], "<u2").tobytes())
    assert refusal(data) == "group 'wide': id 300; expected ids below 300"


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ((0, LIST16, 2), "group 'a': 2 of 6 ids as LIST16; expected BITMAP, 1 bytes"),
        ((1, LIST32, 2), "group 'wide': 2 of 300 ids as LIST32; expected LIST16, 4 bytes"),
        ((0, SEED, 2), "group 'a': 2 of 6 ids as SEED; expected BITMAP, 1 bytes"),
        ((0, 4, 2), "group 'a': 2 of 6 ids as CODED; expected BITMAP, 1 bytes"),
        ((0, 5, 2), "group 'a': 2 of 6 ids in id coding 5; expected BITMAP, 1 bytes"),
    ],
)
def test_coding_that_is_not_the_smallest_is_refused(row: Row, error: str) -> None:
    assert refusal(written([row], bytes(8))) == error


@given(st.binary(max_size=80), st.integers(0, 60))
def test_random_bytes_raise_nothing_but_codec_errors(noise: bytes, keep: int) -> None:
    data = encode_neurons(NEURON_SET, SPEC)[:keep] + noise
    try:
        neurons = decode_neurons(data, SPEC)
    except CodecError:
        return
    assert encode_neurons(neurons, SPEC) == data


# ---- neurons_of ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["fedspu_cifar", "resnet18"])
@pytest.mark.parametrize("keep", [0.05, 0.2, 0.6, 1.0])
def test_ids_of_a_decoded_payload_stand_for_the_set_that_was_drawn(model: str, keep: float) -> None:
    spec = ModelSpec.of(build(model, (3, 32, 32), 10))
    neurons = drawn(spec, keep)
    params: Params = {name: np.zeros(param.shape, np.float32) for name, param in spec.params.items()}
    data = codec.encode(take(params, spec, neurons), spec)
    found = neurons_of(codec.decode(data, spec, limit=len(data)), spec)
    assert found.hash() == neurons.hash()
    known = codec.encode(take(params, spec, neurons), spec, known=found)  # what the reply carries
    assert codec.decode(known, spec, limit=len(known), known=neurons) == take(params, spec, neurons)


def test_groups_without_ids_are_whole() -> None:
    assert neurons_of(active("wide.bias"), SPEC) == whole_but(wide=[1, 2, 258])


def test_dense_update_stands_for_the_full_set() -> None:
    assert neurons_of(Update({"a.bias": block("a.bias", None)}), SPEC).is_full


def test_keys_are_kept() -> None:
    payload = codec.encode(active("wide.bias", wide=KEY), SPEC)
    assert neurons_of(codec.decode(payload, SPEC, limit=LIMIT), SPEC).keys["wide"] == KEY


def test_blocks_that_disagree_about_a_group_are_refused() -> None:
    rows = Axes(AxisIds(np.array([1, 3], np.int32), 6))
    update = Update({"a.weight": active("a.weight").blocks["a.weight"], "a.bias": block("a.bias", rows)})
    with pytest.raises(CodecError, match=r"block 'a\.bias' has other neurons of group 'a' than earlier blocks"):
        neurons_of(update, SPEC)
