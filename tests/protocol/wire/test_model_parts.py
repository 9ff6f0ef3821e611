"""The parts of a packed model: where the frozen parameters lie, and what is left to send."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from edgefl import rng
from edgefl.models.graph import Graph, Model, Node
from edgefl.models.graph.operations import Linear
from edgefl.models.neurons.trained_part import with_trained
from edgefl.protocol.wire.messages import CHUNK_BYTES, MOST_PARTS
from edgefl.protocol.wire.model_message import digest, pack
from edgefl.protocol.wire.model_parts import bitmap, chunks_of, frozen_parts, held_ranges, is_bitmap_of, missing_from

GRAPH = Graph((8,), (Node("a", Linear(8, 40), ("input",)), Node("b", Linear(40, 3), ("a",))))
PARAMS = GRAPH.init(rng.stream(1, rng.INIT))


def test_parts_are_the_bytes_of_the_frozen_parameters() -> None:
    """a.weight has 4 x 320 bytes, a.bias 4 x 40, and the 4 x (120 + 3) bytes of the head are trained."""
    graph = with_trained(GRAPH, "head")
    packed = pack(Model(graph, PARAMS))
    parts = frozen_parts(graph, packed)
    first = len(packed) - 4 * (320 + 40 + 120 + 3)
    assert [(part.offset, part.size) for part in parts] == [(first, 1280), (first + 1280, 160)]
    for part, name in zip(parts, ("a.weight", "a.bias"), strict=True):
        assert packed[part.offset : part.offset + part.size] == PARAMS[name].tobytes()
        assert part.digest == digest(PARAMS[name].tobytes())


def test_a_model_without_frozen_parameters_has_no_parts() -> None:
    assert frozen_parts(GRAPH, pack(Model(GRAPH, PARAMS))) == []


def test_small_parameters_are_not_listed() -> None:
    """b.bias has 12 bytes, and its entry in the list would have more."""
    graph = with_trained(GRAPH, "b.weight")
    assert len(frozen_parts(graph, pack(Model(graph, PARAMS)))) == 2


def test_at_most_the_largest_parts_are_listed() -> None:
    count = MOST_PARTS // 2 + 1  # each layer has a weight of 4 x 32 x 32 bytes and a bias of 4 x 32 bytes
    names = ["input", *(f"layer.{at}" for at in range(count)), "head"]
    nodes = [Node(name, Linear(32, 32), (before,)) for before, name in pairwise(names)]
    graph = with_trained(Graph((32,), tuple(nodes)), "head")
    packed = pack(Model(graph, {name: np.zeros(info.shape, np.float32) for name, info in graph.parameters().items()}))
    parts = frozen_parts(graph, packed)
    assert (len(parts), sum(part.size == 4096 for part in parts)) == (MOST_PARTS, count)
    assert parts == sorted(parts, key=lambda part: part.offset)


def test_bitmaps_name_parts_and_nothing_else() -> None:
    assert bitmap([True, False, True]) == b"\x05"
    assert bitmap([False] * 8 + [True]) == b"\x00\x01"
    assert is_bitmap_of(b"\x05", 3)
    for held, count in ((b"\x08", 3), (b"\x05\x00", 3), (b"", 3)):
        assert not is_bitmap_of(held, count)


MISSING = [  # offset, held ranges of a model of 100 bytes, what is left
    (0, [], [(0, 100)]),
    (0, [(10, 20), (30, 40)], [(0, 10), (20, 30), (40, 100)]),
    (0, [(0, 20), (20, 100)], []),
    (15, [(10, 20)], [(20, 100)]),  # the download broke off within a part
    (20, [(10, 20)], [(20, 100)]),
    (50, [(10, 20), (60, 100)], [(50, 60)]),
]


@pytest.mark.parametrize(("offset", "held", "left"), MISSING)
def test_what_is_missing_lies_between_the_held_parts(
    offset: int, held: list[tuple[int, int]], left: list[tuple[int, int]]
) -> None:
    assert missing_from(offset, 100, held) == left


def test_chunks_are_the_bytes_of_the_ranges() -> None:
    data = bytes(range(256)) * 300
    found = list(chunks_of(data, [(5, 7), (100, 100 + CHUNK_BYTES + 1)]))
    assert [(chunk.offset, len(chunk.data)) for chunk in found] == [(5, 2), (100, CHUNK_BYTES), (100 + CHUNK_BYTES, 1)]
    assert all(chunk.data == data[chunk.offset : chunk.offset + len(chunk.data)] for chunk in found)


def test_held_ranges_follow_the_bitmap() -> None:
    graph = with_trained(GRAPH, "head")
    parts = frozen_parts(graph, pack(Model(graph, PARAMS)))
    assert held_ranges(parts, b"\x02") == [(parts[1].offset, parts[1].offset + 160)]
