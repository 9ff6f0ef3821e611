"""A model as bytes that are made when they are asked for: any range, its digest, and no second copy of the values."""

from __future__ import annotations

import hashlib
import io
import tracemalloc

import numpy as np
import pytest

from edgefl.errors import CodecError
from edgefl.models.graph import Graph, Model, Node
from edgefl.models.graph.operations import Linear
from edgefl.protocol.wire.model_message import packed, read, unpack
from edgefl.protocol.wire.model_parts import chunks_of, frozen_parts
from edgefl.protocol.wire.packed_model import PackedModel

from .conversation import GRAPH, MODEL, PARAMS


def test_every_range_of_a_packed_model_has_its_bytes() -> None:
    made = packed(Model(GRAPH, PARAMS))
    assert len(made) == len(MODEL)
    for first in range(0, len(MODEL), 7):
        for end in range(first, len(MODEL) + 9, 5):
            assert made[first:end] == MODEL[first:end]
            assert made.digest(first, end) == hashlib.sha256(MODEL[first:end]).digest()
    assert made.digest() == hashlib.sha256(MODEL).digest()
    assert made[-5:] == MODEL[-5:] and PackedModel([])[:] == b""
    with pytest.raises(ValueError, match="step 2 through a packed model; expected 1"):
        made[::2]


def test_parts_and_chunks_are_those_of_the_bytes() -> None:
    graph = Graph((64,), (Node("out", Linear(64, 64), ("input",)),), frozenset({"out.weight"}))
    made = packed(Model(graph, {"out.weight": np.ones((64, 64), np.float32), "out.bias": np.zeros(64, np.float32)}))
    parts = frozen_parts(graph, made)
    assert parts == frozen_parts(graph, made[:]) and [part.size for part in parts] == [1 << 14]
    assert list(chunks_of(made, [(0, 9), (50, 70)])) == list(chunks_of(made[:], [(0, 9), (50, 70)]))


def test_packing_and_reading_make_no_second_copy() -> None:
    graph = Graph((1024,), (Node("out", Linear(1024, 1024), ("input",)),), frozenset({"out.weight"}))
    model = Model(graph, {"out.weight": np.ones((1024, 1024), np.float32), "out.bias": np.zeros(1024, np.float32)})
    size = model.params["out.weight"].nbytes
    tracemalloc.start()
    made = packed(model)
    made.digest()
    assert tracemalloc.get_traced_memory()[1] < size / 8
    file = io.BytesIO(made[:])
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    found = read(file, len(made))
    assert tracemalloc.get_traced_memory()[1] - before < 1.2 * size
    tracemalloc.stop()
    assert found.graph == graph and np.array_equal(found.params["out.weight"], model.params["out.weight"])


def test_parameters_that_are_not_wanted_are_left_in_the_file() -> None:
    found = read(io.BytesIO(MODEL), len(MODEL), wanted=lambda name, kind: name == "out.bias" and kind == "learn")
    assert found.params.keys() == {"out.bias"}
    assert found.params["out.bias"].tobytes() == PARAMS["out.bias"].tobytes()


def test_a_payload_with_another_head_is_refused() -> None:
    start = len(MODEL) - 36 - 44 + 5  # the flags of the payload's header
    with pytest.raises(CodecError, match="flags 0x80; expected no bits but"):
        unpack(MODEL[:start] + b"\x80" + MODEL[start + 1 :])


def test_a_file_that_ends_within_a_parameter_is_refused() -> None:
    with pytest.raises(CodecError, match="10 bytes of a parameter; expected 12"):
        read(io.BytesIO(MODEL[:-2]), len(MODEL))
