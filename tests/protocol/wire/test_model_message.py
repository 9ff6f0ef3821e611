"""A model as bytes: exact round trips, its chunks, the caps derived from it, and one test per malformed form."""

from __future__ import annotations

import numpy as np
import pytest

from edgefl.errors import CodecError, GraphError
from edgefl.models.graph import Graph, Model, Node
from edgefl.models.graph import json as graph_json
from edgefl.models.graph.architectures import build
from edgefl.models.graph.json import Limits
from edgefl.models.graph.operations import Linear
from edgefl.models.neurons.block_index import Flat
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.update import Block, Update
from edgefl.protocol import codec
from edgefl.protocol.wire.messages import CHUNK_BYTES
from edgefl.protocol.wire.model_message import LARGEST_MODEL, chunks, dense_bytes, digest, frame_cap, pack, unpack
from edgefl.rng import INIT, stream

from .conversation import GRAPH, MODEL, PARAMS

SPEC = ModelSpec.of(GRAPH)
TEXT = graph_json.dumps(GRAPH).encode()
VALUES = codec.encode(take(PARAMS, SPEC), SPEC)


def joined(text: bytes, values: bytes) -> bytes:
    return len(text).to_bytes(4, "little") + text + values


def refusal(data: bytes, error: type[Exception] = CodecError, limits: Limits | None = None) -> str:
    with pytest.raises(error) as caught:
        unpack(data, limits)
    return str(caught.value)


def test_a_model_is_its_text_with_length_then_all_parameters() -> None:
    assert joined(TEXT, VALUES) == MODEL


def test_every_bit_comes_back() -> None:
    model = unpack(MODEL)
    assert model.graph == GRAPH
    assert {name: value.tobytes() for name, value in model.params.items()} == {
        name: value.tobytes() for name, value in PARAMS.items()
    }


def test_a_built_in_model_comes_back() -> None:
    graph = build("fedspu_cifar", (3, 32, 32), 10)
    data = pack(Model(graph, graph.init(stream(1, INIT))))
    assert pack(unpack(data)) == data


def test_parameters_of_another_graph_are_not_packed() -> None:
    with pytest.raises(GraphError, match=r"parameter 'out\.bias' is missing"):
        pack(Model(GRAPH, {"out.weight": PARAMS["out.weight"]}))


def test_chunks_from_an_offset_are_the_rest_of_the_model() -> None:
    data = bytes(range(256)) * 300
    parts = list(chunks(data, 1000))
    assert b"".join(part.data for part in parts) == data[1000:]
    assert [part.offset for part in parts] == [1000, 1000 + CHUNK_BYTES, 1000 + 2 * CHUNK_BYTES]
    assert list(chunks(data, len(data))) == []


def test_digest_is_sha256() -> None:
    assert digest(b"abc").hex() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_dense_bytes_is_the_size_of_the_payload() -> None:
    assert dense_bytes(SPEC) == len(VALUES)
    spec = ModelSpec.of(build("fedspu_emnist", (1, 28, 28), 47))
    params = {name: np.zeros(param.shape, np.float32) for name, param in spec.params.items()}
    assert dense_bytes(spec) == len(codec.encode(take(params, spec), spec))


def test_a_frame_may_carry_four_dense_payloads_and_64_kib() -> None:
    assert frame_cap(len(MODEL)) == 4 * len(MODEL) + 65536 > 4 * len(VALUES) + 65536


def test_largest_model_has_room_for_every_graph_within_the_limits() -> None:
    limits = Limits()
    assert 4 + limits.text_bytes + 4 * limits.parameters + 8 * 4 * limits.nodes + 28 <= LARGEST_MODEL


@pytest.mark.parametrize("size", [0, 3, 4, 10, 4 + len(TEXT) - 1])
def test_truncated_text_is_refused(size: int) -> None:
    assert "expected" in refusal(MODEL[:size], (CodecError, GraphError))


@pytest.mark.parametrize("values", [VALUES[:-1], VALUES + b"\0", b""])
def test_more_or_fewer_bytes_than_the_parameters_take_are_refused(values: bytes) -> None:
    expected = f"parameters of {len(values)} bytes; expected {len(VALUES)}, all of them as float32"
    assert refusal(joined(TEXT, values)) == expected


def test_text_above_the_limit_is_refused_unread() -> None:
    limits = Limits(text_bytes=10)
    assert refusal((11).to_bytes(4, "little"), limits=limits) == "graph text of 11 bytes; the limit is 10"


def test_text_that_is_not_there_is_refused() -> None:
    error = refusal((1000).to_bytes(4, "little") + b"{}")
    assert error == "model of 6 bytes; expected at least 1004, the size of its graph"


def test_text_in_another_form_is_refused() -> None:
    spaced = TEXT.replace(b",", b", ")
    assert refusal(joined(spaced, VALUES)).endswith("in another form; expected the form that graph_json.dumps writes")


def test_graph_above_the_limits_is_refused_before_its_parameters_are_made() -> None:
    huge = Graph((1 << 15,), (Node("out", Linear(1 << 15, 1 << 15), ("input",)),))
    text = graph_json.dumps(huge).encode()
    assert "parameters; the limit is" in refusal(joined(text, b""), GraphError)


def test_missing_parameter_is_refused() -> None:
    data = joined(TEXT, codec.encode(Update({"out.bias": Block((3,), None, PARAMS["out.bias"])}), SPEC))
    assert refusal(data) == "parameters of 48 bytes; expected 80, all of them as float32"


def test_part_of_a_parameter_is_refused_though_its_size_is_right() -> None:
    part = Block((3, 2), Flat(np.arange(5, dtype=np.uint32), 6), np.ones(5, np.float32))  # a bitmap for the sixth value
    values = codec.encode(Update({"out.weight": part, "out.bias": Block((3,), None, PARAMS["out.bias"])}), SPEC)
    assert len(values) == len(VALUES)
    assert refusal(joined(TEXT, values)) == "parameter 'out.weight' is incomplete; expected all its values"


def test_float16_parameters_are_refused() -> None:
    params = {name: np.ones_like(value) for name, value in PARAMS.items()}
    data = joined(TEXT, codec.encode(take(params, SPEC), SPEC, values="float16"))
    assert refusal(data) == "parameters of 62 bytes; expected 80, all of them as float32"


def test_parameters_of_another_model_are_refused() -> None:
    other = Graph((2,), (Node("in", Linear(2, 3), ("input",)),))
    spec = ModelSpec.of(other)
    values = codec.encode(take(other.init(stream(1, INIT)), spec), spec)
    expected = f"payload of model {spec.fingerprint.hex()}; expected {SPEC.fingerprint.hex()}"
    assert refusal(joined(TEXT, values)) == expected
