"""The codec: golden bytes of every coding, sizes against the paper's formula, round trips, updates that are refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgefl.errors import CodecError
from edgefl.models.graph import architectures
from edgefl.models.neurons.block_index import Axes, AxisIds, Flat, active_axes, block_shape
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.model_spec import ModelSpec, ParamSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.update import Block, Update
from edgefl.protocol.codec import Sizes, decode, encode, sizes
from edgefl.protocol.codec.ids import Coding, decode_ids, encode_ids, size_of
from edgefl.rng import INIT, NEURONS, sample_ids, stream
from tests.protocol.codec.codec_examples import (
    ACTIVE,
    EXAMPLES,
    GOLDEN,
    KEY,
    LIMIT,
    NEURON_SET,
    SPEC,
    active,
    block,
    golden,
)


@pytest.mark.parametrize("name", EXAMPLES)
def test_golden_bytes_of_every_coding(name: str) -> None:
    update, values, known = EXAMPLES[name]
    assert encode(update, SPEC, values=values, known=known).hex(" ") == golden(name).hex(" ")
    assert decode(golden(name), SPEC, limit=LIMIT, known=known) == update


def test_every_golden_file_is_an_example() -> None:
    assert {path.stem for path in GOLDEN.glob("*.hex")} == set(EXAMPLES)


# ALGORITHMS 9.3: P_act and stat_act at keep .2, .4, .6, .8, 1.
PUBLISHED = {
    "fedspu_emnist": ((1, 28, 28), 62, [12418, 25062, 37994, 51214, 64722], [16, 32, 48, 64, 80]),
    "fedspu_cifar": ((3, 32, 32), 10, [5228, 20542, 45942, 81428, 134902], [8, 16, 24, 32, 44]),
    "fedspu_speech": ((1, 32, 32), 35, [3685, 8135, 13385, 19435, 26285], [40, 80, 120, 160, 200]),
}


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize("step", range(5))
def test_value_bytes_equal_the_formula_and_the_upload_carries_no_ids(name: str, step: int) -> None:
    shape, classes, learn, stat = PUBLISHED[name]
    graph = architectures.build(name, shape, classes)
    spec = ModelSpec.of(graph)
    neurons = NeuronSet.draw(spec, [0.2, 0.4, 0.6, 0.8, 1][step], stream(5, NEURONS))
    update = take(graph.init(stream(5, INIT)), spec, neurons)
    down, up = encode(update, spec), encode(update, spec, known=neurons)
    assert sizes(down).values == sizes(up).values == 4 * (learn[step] + stat[step])
    assert sizes(up).index == 0
    assert sizes(down).index == -4 * (-id_bytes(neurons) // 4)
    assert sizes(down).total == len(down)
    assert sizes(up).total == len(up)
    assert sizes(encode(update, spec, values="float16")).values == 2 * (learn[step] + stat[step])


def id_bytes(neurons: NeuronSet) -> int:
    """Return the bytes of ALGORITHMS 1.3: per group the least of a bitmap, two bytes an id and a seed. A whole group
    has 0.
    """
    return sum(
        min(-(-neurons.sizes[group] // 8), 2 * len(ids), 8)
        for group, ids in neurons.active.items()
        if len(ids) < neurons.sizes[group]
    )


def test_header_size_depends_on_the_blocks_only() -> None:
    assert sizes(encode(Update({}), SPEC)) == Sizes(values=0, index=0, header=28)
    assert sizes(encode(active("a.bias"), SPEC)) == Sizes(values=8, index=4, header=28 + 8 + 8)
    assert sizes(encode(active("a.bias"), SPEC, known=NEURON_SET)) == Sizes(values=8, index=0, header=28 + 8 + 8)


def updates() -> st.SearchStrategy[Update]:
    """Random updates of SPEC: any subset of parameters, any index, any bits as values."""

    @st.composite
    def build(draw: st.DrawFn) -> Update:
        sets, keys = {}, {}
        for group, size in SPEC.groups.items():
            if draw(st.booleans()):
                keys[group] = draw(st.integers(0, 2**64 - 1))
                sets[group] = sample_ids(keys[group], size, draw(st.integers(1, size - 1)))
                if draw(st.booleans()):
                    del keys[group]
        blocks = {}
        for name in draw(st.lists(st.sampled_from(list(SPEC.params)), unique=True)):
            param = SPEC.params[name]
            size = int(np.prod(param.shape))
            index: Axes | Flat | None = active_axes(param, SPEC, sets, keys)
            if draw(st.booleans()):
                ids = sample_ids(draw(st.integers(0, 2**64 - 1)), size, draw(st.integers(0, size)))
                index = draw(st.sampled_from([None, Flat(ids.astype(np.uint32), size)]))
            shape = block_shape(param.shape, index)
            bits = stream(draw(st.integers(0, 2**64 - 1)), INIT).raw(int(np.prod(shape))).astype(np.uint32)
            blocks[name] = Block(param.shape, index, bits.view(np.float32).reshape(shape))
        return Update(blocks)

    return build()


@settings(max_examples=150)
@given(updates())
def test_decode_of_encode_is_the_update_bit_for_bit(update: Update) -> None:
    data = encode(update, SPEC)
    assert decode(data, SPEC, limit=len(data)) == update
    assert encode(decode(data, SPEC, limit=len(data)), SPEC) == data
    assert sizes(data).values == 4 * update.count


def test_nan_and_infinity_survive_in_float32() -> None:
    bits = np.array([0x7FC00001, 0xFFC12345, 0x7F800000, 0xFF800000, 0x80000000, 0x00000001], np.uint32)
    update = Update({"a.bias": Block((6,), None, bits.view(np.float32))})
    decoded = decode(encode(update, SPEC), SPEC, limit=LIMIT)
    assert decoded.blocks["a.bias"].values.view(np.uint32).tolist() == bits.tolist()


@settings(max_examples=50)
@given(st.lists(st.floats(-65504, 65504, width=32), min_size=6, max_size=6))
def test_float16_rounds_to_nearest(values: list[float]) -> None:
    exact = np.array(values, np.float32)
    update = Update({"a.bias": Block((6,), None, exact)})
    decoded = decode(encode(update, SPEC, values="float16"), SPEC, limit=LIMIT).blocks["a.bias"].values
    assert decoded.dtype == np.float32
    assert decoded.tobytes() == exact.astype(np.float16).astype(np.float32).tobytes()


@pytest.mark.parametrize("value", [65520.0, -1e6, float("inf"), float("nan")])
def test_value_that_float16_cannot_hold_is_named(value: float) -> None:
    update = Update({"a.bias": Block((6,), None, np.array([0, 0, value, 0, 0, 0], np.float32))})
    with pytest.raises(CodecError, match=r"block 'a.bias': value \S+ at 2; expected a finite one below 65520"):
        encode(update, SPEC, values="float16")


def test_largest_float16_is_kept() -> None:
    update = Update({"a.bias": Block((6,), None, np.full(6, 65504, np.float32))})
    assert decode(encode(update, SPEC, values="float16"), SPEC, limit=LIMIT) == update


def test_values_are_read_only_views_of_the_payload() -> None:
    data = encode(Update({"a.bias": block("a.bias", None)}), SPEC)
    values = decode(data, SPEC, limit=LIMIT).blocks["a.bias"].values
    assert np.shares_memory(values, np.frombuffer(data, np.uint8))
    assert values.flags.aligned
    assert not values.flags.writeable


def test_other_buffers_are_copied() -> None:
    buffer = bytearray(encode(Update({"a.bias": block("a.bias", None)}), SPEC))
    update = decode(memoryview(buffer), SPEC, limit=LIMIT)
    buffer[:] = bytes(len(buffer))
    assert update.blocks["a.bias"].values.tolist() == [1, 2, 3, 4, 5, 6]


def test_blocks_are_written_in_the_order_of_the_specification() -> None:
    update = active("b.weight", "a.weight")
    assert encode(update, SPEC) == encode(Update(dict(reversed(update.blocks.items()))), SPEC)
    assert list(decode(encode(update, SPEC), SPEC, limit=LIMIT).blocks) == ["a.weight", "b.weight"]


def ids(*neurons: int, size: int = 6, repeat: int = 1, key: int | None = None) -> AxisIds:
    return AxisIds(np.array(neurons, np.int32), size, repeat, key)


def zeros(shape: tuple[int, ...], index: Axes | Flat | None, dtype: type = np.float32) -> Block:
    return Block(shape, index, np.zeros(block_shape(shape, index), dtype))


REFUSED = [
    ({"c.weight": zeros((2,), None)}, "block 'c.weight' is not a parameter of the model"),
    ({"a.bias": zeros((7,), None)}, "block 'a.bias' of shape (7,); expected (6,)"),
    ({"a.bias": zeros((6,), None, np.float64)}, "block 'a.bias' of type float64; expected float32"),
    (
        {"a.weight": zeros((6, 2), Axes(ids(0))), "a.bias": zeros((6,), Axes(ids(1, 2)))},
        "block 'a.bias': axis 0 keeps 2 of 6 neurons x 1, [1, 2]...; its neuron group gives 1 of 6 neurons x 1, [0]...",
    ),
    (
        {"a.weight": zeros((6, 2), Axes(None, ids(0, size=2)))},
        "block 'a.weight': axis 1 keeps 1 of 2 neurons x 1, [0]...; its neuron group gives all neurons",
    ),
    (
        {"b.weight": zeros((3, 12), Axes(None, ids(0, size=4, repeat=3)))},
        "block 'b.weight': axis 1 keeps 1 of 4 neurons x 3, [0]...; its neuron group gives 1 of 6 neurons x 2, [0]...",
    ),
    (
        {"b.weight": zeros((3, 12), Axes(None, ids(7, size=12)))},
        "block 'b.weight': neurons contain 7; expected values in [0, 6)",
    ),
]


@pytest.mark.parametrize(("blocks", "message"), REFUSED)
def test_update_that_is_not_of_the_model_is_refused(blocks: dict[str, Block], message: str) -> None:
    with pytest.raises(CodecError) as error:
        encode(Update(blocks), SPEC)
    assert str(error.value) == message


def test_known_neurons_must_be_those_of_the_update() -> None:
    other = NeuronSet.of(SPEC, {**ACTIVE, "a": [0, 3]})
    with pytest.raises(
        CodecError, match=r"block 'a.bias': axis 0 keeps .* \[0, 2\]...; its neuron group gives .* \[0, 3\]"
    ):
        encode(active("a.bias"), SPEC, known=other)
    with pytest.raises(CodecError, match="its neuron group gives all neurons"):
        encode(active("a.bias"), SPEC, known=NeuronSet.full(SPEC))


def test_known_neurons_of_another_model_are_refused() -> None:
    other = ModelSpec({}, {**SPEC.groups, "wide": 301}, bytes(16))
    with pytest.raises(CodecError, match="neurons of another model: 301 in group 'wide'; expected 300"):
        encode(active("a.bias"), SPEC, known=NeuronSet.of(other, ACTIVE))


IDS = np.array([3, 30], np.uint32)


@pytest.mark.parametrize(
    ("n", "coding", "size"),
    [
        (31, Coding.BITMAP, 4),
        (32, Coding.BITMAP, 4),  # as large as the list
        (33, Coding.LIST16, 4),
        (65535, Coding.LIST16, 4),
        (65536, Coding.LIST32, 8),
    ],
)
def test_two_ids_take_the_smaller_coding(n: int, coding: Coding, size: int) -> None:
    found, data = encode_ids("ids", IDS, n)
    assert (found, len(data)) == (coding, size)
    assert decode_ids("ids", coding, memoryview(data), n, 2)[0].tolist() == IDS.tolist()
    for other in set(Coding) - {coding}:
        with pytest.raises(CodecError, match=f"expected {coding.name}, {size} bytes"):
            size_of("ids", other, n, 2, seed_allowed=True)


@pytest.mark.parametrize(("k", "coding"), [(4, Coding.LIST16), (5, Coding.SEED)])
def test_a_seed_is_written_where_it_is_smaller_than_the_ids(k: int, coding: Coding) -> None:
    """Four ids are as long as the seed, and need no drawing."""
    assert encode_ids("ids", sample_ids(KEY, 300, k), 300, KEY)[0] == coding
    assert size_of("ids", coding, 300, k, seed_allowed=True) == 8


def test_key_that_stands_for_other_ids_is_refused() -> None:
    index = Axes(ids(*range(100), size=300, key=KEY))
    with pytest.raises(CodecError, match="group 'wide': key 0x0123456789abcdef draws other ids; expected the key"):
        encode(Update({"wide.bias": zeros((300,), index)}), SPEC)


def test_model_with_more_parameters_than_two_bytes_number_is_refused() -> None:
    params = {f"p{i}": ParamSpec((1,), "learn") for i in range(2**16 + 1)}
    with pytest.raises(CodecError, match="model of 65537 parameters, 0 groups; expected at most 65536"):
        encode(Update({}), ModelSpec(params, {}, bytes(16)))


def test_unknown_type_of_values_is_named() -> None:
    with pytest.raises(ValueError, match="values='int4'; expected one of float32, float16"):
        encode(Update({}), SPEC, values="int4")
