"""Updates of a model with results side by side: round trips under neurons, and blocks that lie about their axes."""

from __future__ import annotations

import re

import numpy as np
import pytest

from edgefl.errors import CodecError
from edgefl.models.graph import Graph, Node
from edgefl.models.graph.operations import BatchNorm2d, Concat, Conv2d, Flatten, Linear
from edgefl.models.neurons.block_index import Axes, AxisIds, JoinedIds
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.update import Block, Update
from edgefl.protocol import codec
from edgefl.protocol.codec.neurons import decode_neurons, encode_neurons, neurons_of
from edgefl.rng import NEURONS, stream

GRAPH = Graph(
    (2, 2, 2),
    (
        Node("a", Conv2d(2, 40, (1, 1)), ("input",)),
        Node("b", Conv2d(2, 5, (1, 1)), ("input",)),
        Node("all", Concat(), ("a", "input", "b")),
        Node("bn", BatchNorm2d(47), ("all",)),
        Node("mix", Conv2d(47, 6, (1, 1)), ("bn",)),
        Node("more", Concat(), ("mix", "a")),
        Node("flat", Flatten(), ("more",)),
        Node("fc", Linear(184, 3), ("flat",)),
    ),
)
SPEC = ModelSpec.of(GRAPH)
LIMIT = 1 << 20
PARAMS = {
    name: np.arange(np.prod(param.shape), dtype=np.float32).reshape(param.shape) for name, param in SPEC.params.items()
}


def ids(*neurons: int, size: int) -> AxisIds:
    return AxisIds(np.array(neurons, np.int32), size)


def test_updates_come_back_under_any_neurons() -> None:
    drawn = [NeuronSet.draw(SPEC, keep, stream(seed, NEURONS)) for keep in (0.1, 0.3, 0.9) for seed in range(3)]
    one_whole = [
        NeuronSet.of(SPEC, {"a": range(40), "b": [1, 4], "mix": [0]}),
        NeuronSet.of(SPEC, {"a": [7], "b": range(5), "mix": range(6)}),
        NeuronSet.full(SPEC),
    ]
    for neurons in (*drawn, *one_whole):
        update = take(PARAMS, SPEC, neurons)
        data = codec.encode(update, SPEC)
        decoded = codec.decode(data, SPEC, limit=LIMIT)
        assert decoded == update, neurons
        assert codec.encode(decoded, SPEC) == data, neurons
        found = neurons_of(decoded, SPEC)
        assert (found, found.hash()) == (neurons, neurons.hash())
        assert decode_neurons(encode_neurons(found, SPEC), SPEC).hash() == neurons.hash()
        known = codec.encode(update, SPEC, known=found)
        assert codec.decode(known, SPEC, limit=LIMIT, known=neurons) == update, neurons


def test_joined_block_alone_carries_the_ids_of_all_its_groups() -> None:
    neurons = NeuronSet.of(SPEC, {"a": [3, 39], "b": [0], "mix": [2, 5]})
    update = take(PARAMS, SPEC, neurons, names=["bn.bias"])
    decoded = codec.decode(codec.encode(update, SPEC), SPEC, limit=LIMIT)
    assert decoded == update
    assert decoded.blocks["bn.bias"].values.tolist() == [3, 39, 40, 41, 42]
    assert {group: ids.tolist() for group, ids in neurons_of(decoded, SPEC).active.items()} == {
        "a": [3, 39],
        "b": [0],
        "mix": list(range(6)),
    }


def test_lying_blocks_are_refused() -> None:
    a, b = ids(3, 39, size=40), ids(0, size=5)
    for name, rows, error in (
        ("other neurons of a", JoinedIds((ids(3, 38, size=40), 2, b)), "keeps 2 of 40 neurons x 1, [3, 38]..., then 2"),
        ("a is whole", JoinedIds((40, 2, b)), "keeps 40 indices, then 2 indices, then 1 of 5"),
        (
            "parts moved",
            JoinedIds((a, 1, ids(0, size=6))),
            "then 1 indices, then 1 of 6 neurons x 1, [0]...; its neuron group gives",
        ),
        ("a part less", JoinedIds((a, 7)), "keeps 2 of 40 neurons x 1, [3, 39]..., then 7 indices; its neuron group"),
        ("one group of all", ids(3, 39, size=47), "keeps 2 of 47 neurons x 1, [3, 39]...; its neuron group"),
    ):
        blocks = {
            "a.bias": Block((40,), Axes(a), np.ones(2, np.float32)),
            "bn.weight": Block((47,), Axes(rows), np.ones(rows.count, np.float32)),
        }
        with pytest.raises(CodecError) as refused:
            codec.encode(Update(blocks), SPEC)
        assert error in str(refused.value), (name, str(refused.value))


def test_lying_payloads_are_refused() -> None:
    """A payload has one value less than the joined axis, and every prefix of a payload is tried."""
    rows = JoinedIds((ids(3, 39, size=40), 2, ids(0, size=5)))
    data = codec.encode(Update({"bn.weight": Block((47,), Axes(rows), np.ones(5, np.float32))}), SPEC)
    number = list(SPEC.params).index("bn.weight")
    entry, short = (number.to_bytes(2, "little") + b"\1\0" + count.to_bytes(4, "little") for count in (5, 4))
    assert data.count(entry) == 1
    with pytest.raises(CodecError, match=re.escape("block 'bn.weight' of 4 values; expected 5")):
        codec.decode(data.replace(entry, short)[:-4], SPEC, limit=LIMIT)
    for cut in range(len(data)):
        with pytest.raises(CodecError):
            codec.decode(data[:cut], SPEC, limit=LIMIT)
