"""Neuron sets: how many neurons, which ones with which probability, and the blocks they select."""

from __future__ import annotations

import numpy as np
import pytest

from edgefl import rng
from edgefl.errors import SelectionError
from edgefl.models.graph import Graph, Node, architectures
from edgefl.models.graph.operations import BatchNorm2d, Concat, Conv2d, Flatten, Linear
from edgefl.models.neurons.model_spec import AxisSpec, JoinedAxis, ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet, n_act

TINY = ModelSpec.of(
    Graph(
        (1, 3, 3),
        (
            Node("conv1", Conv2d(1, 3, (1, 1)), ("input",)),
            Node("conv2", Conv2d(3, 4, (2, 2)), ("conv1",)),
            Node("flatten", Flatten(), ("conv2",)),
            Node("fc", Linear(16, 2), ("flatten",)),
        ),
    )
)


def tiny(conv1: list[int], conv2: list[int]) -> NeuronSet:
    return NeuronSet.of(TINY, {"conv1": conv1, "conv2": conv2})


@pytest.mark.parametrize(
    ("n", "keep", "expected"),
    [(100, 0.29, 29), (20, 0.2, 4), (6, 0.2, 1), (16, 0.8, 12), (10, 0.01, 1), (7, 1.0, 7), (100, 0.99, 99)],
)
def test_number_of_active_neurons(n, keep, expected) -> None:
    assert n_act(n, keep) == expected


@pytest.mark.parametrize("keep", [0, -0.1, 1.3, float("nan")])
def test_keep_outside_its_range_is_refused(keep) -> None:
    with pytest.raises(ValueError, match=f"keep={keep}; expected 0 < keep <= 1"):
        n_act(10, keep)


def test_blocks_of_active_neurons_follow_both_axes() -> None:
    blocks = tiny([0, 2], [1]).blocks(TINY)
    rows, cols = blocks["conv1.weight"]
    assert (rows.tolist(), cols) == ([0, 2], None)
    rows, cols = blocks["conv2.weight"]
    assert (rows.tolist(), cols.tolist()) == ([1], [0, 2])
    rows, cols = blocks["fc.weight"]
    assert (rows, cols.tolist()) == (None, [4, 5, 6, 7])
    assert blocks["fc.bias"] == (None, None)
    assert all(ids is None or ids.dtype == np.int32 for pair in blocks.values() for ids in pair)


def test_fedspu_flatten_columns() -> None:
    """Channel c of a [channels, height, width] result covers the features [c * HW, (c + 1) * HW) of the next layer."""
    for channel in range(4):
        _, cols = tiny([0], [channel]).blocks(TINY)["fc.weight"]
        assert cols.tolist() == list(range(channel * 4, (channel + 1) * 4))


JOINED = ModelSpec.of(
    Graph(
        (1, 1, 2),
        (
            Node("a", Conv2d(1, 3, (1, 1)), ("input",)),
            Node("b", Conv2d(1, 2, (1, 1)), ("input",)),
            Node("all", Concat(), ("a", "input", "b")),
            Node("bn", BatchNorm2d(6), ("all",)),
            Node("flat", Flatten(), ("bn",)),
            Node("fc", Linear(12, 2), ("flat",)),
        ),
    )
)


def test_ids_along_a_joined_axis_are_those_of_its_parts() -> None:
    for active, rows, cols in (
        ({"a": [0, 2], "b": [1]}, [0, 2, 3, 5], [0, 1, 4, 5, 6, 7, 10, 11]),
        ({"a": [0, 1, 2], "b": [0]}, [0, 1, 2, 3, 4], [*range(10)]),
        ({"a": [1], "b": [0, 1]}, [1, 3, 4, 5], [2, 3, *range(6, 12)]),
    ):
        neurons = NeuronSet.of(JOINED, active)
        blocks = neurons.blocks(JOINED)
        found = blocks["bn.weight"][0], blocks["fc.weight"][1]
        assert [ids.tolist() for ids in found] == [rows, cols], active
        assert all(ids.dtype == np.int32 for ids in found), active
        own = 2 * len(active["a"]) + 2 * len(active["b"])
        assert neurons.count(JOINED) == own + 2 * len(rows) + 2 * len(cols) + 2, active
    assert NeuronSet.full(JOINED).blocks(JOINED)["fc.weight"] == (None, None)
    axis = JoinedAxis(((AxisSpec("a"), 4), (None, 2)))
    with pytest.raises(SelectionError, match="axis of 4 indices in group 'a' with repeat 1; 3 neurons"):
        NeuronSet.full(JOINED).ids(axis, 6)


def test_active_scalars_are_counted_by_hand() -> None:
    assert tiny([0, 2], [1]).count(TINY) == (2 + 2) + (1 * 2 * 4 + 1) + (2 * 4 + 2)


def test_axis_that_is_fully_active_needs_no_ids() -> None:
    neurons = tiny([0, 1, 2], [1])
    assert neurons.ids(AxisSpec("conv1"), 3) is None
    assert neurons.ids(AxisSpec("conv2", 2), 8).tolist() == [2, 3]


def test_full_set_selects_whole_parameters() -> None:
    full = NeuronSet.full(TINY)
    assert full.is_full
    assert not tiny([0, 1, 2], [1]).is_full
    assert set(full.blocks(TINY).values()) == {(None, None)}
    assert NeuronSet.draw(TINY, 1.0, rng.stream(1, rng.NEURONS)) == full


CNNS = {
    "EMNIST": architectures.build("fedspu_emnist", (1, 28, 28), 62),
    "CIFAR": architectures.build("fedspu_cifar", (3, 32, 32), 10),
    "Speech": architectures.build("fedspu_speech", (1, 32, 32), 35),
}
PACT = [  # ALGORITHMS 9.3: net, keep, P_act, stat_act, hidden neurons
    ("EMNIST", 0.2, 12418, 16, 8),
    ("EMNIST", 0.4, 25062, 32, 16),
    ("EMNIST", 0.6, 37994, 48, 24),
    ("EMNIST", 0.8, 51214, 64, 32),
    ("EMNIST", 1.0, 64722, 80, 40),
    ("CIFAR", 0.2, 5228, 8, 44),
    ("CIFAR", 0.4, 20542, 16, 89),
    ("CIFAR", 0.6, 45942, 24, 134),
    ("CIFAR", 0.8, 81428, 32, 179),
    ("CIFAR", 1.0, 134902, 44, 226),
    ("Speech", 0.2, 3685, 40, 20),
    ("Speech", 0.4, 8135, 80, 40),
    ("Speech", 0.6, 13385, 120, 60),
    ("Speech", 0.8, 19435, 160, 80),
    ("Speech", 1.0, 26285, 200, 100),
]


@pytest.mark.parametrize(("net", "keep", "p_act", "stat_act", "hidden"), PACT)
def test_fedspu_pact_formula(net, keep, p_act, stat_act, hidden) -> None:
    spec = ModelSpec.of(CNNS[net])
    neurons = NeuronSet.draw(spec, keep, rng.stream(3, rng.NEURONS))
    assert neurons.count(spec, ("learn",)) == p_act
    assert neurons.count(spec, ("stat",)) == stat_act
    assert sum(len(ids) for ids in neurons.active.values()) == hidden


DRAWS = 4000


@pytest.fixture(scope="module")
def frequencies() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """DRAWS draws at keep = 0.5 as 0/1 matrices [draw, neuron] of conv1 and conv2, and their joint frequencies."""
    first, second = np.zeros((DRAWS, 3)), np.zeros((DRAWS, 4))
    for number in range(DRAWS):
        neurons = NeuronSet.draw(TINY, 0.5, rng.stream(11, rng.NEURONS, client=2, round=number))
        first[number, neurons.active["conv1"]] = 1
        second[number, neurons.active["conv2"]] = 1
    return first, second, first.T @ second / DRAWS


def assert_frequency(observed: np.ndarray, probability: float) -> None:
    """Within 4 standard deviations of a binomial share."""
    sigma = np.sqrt(probability * (1 - probability) / DRAWS)
    assert (np.abs(observed - probability) < 4 * sigma).all(), observed


def test_fedspu_inclusion_prob(frequencies) -> None:
    first, second, joint = frequencies
    assert_frequency(first.mean(axis=0), 1 / 3)  # n_act(3, 0.5) = 1: first layer's weights and biases
    assert_frequency(second.mean(axis=0), 2 / 4)  # classifier columns
    assert_frequency(joint, 1 / 3 * 2 / 4)  # a hidden weight needs both, and layers are independent


def test_neurons_of_one_layer_are_drawn_without_replacement(frequencies) -> None:
    first, second, _ = frequencies
    assert (first.sum(axis=1) == 1).all()
    assert (second.sum(axis=1) == 2).all()
    pair = (second[:, 0] * second[:, 1]).mean()
    assert_frequency(np.array([pair]), 2 / 4 * 1 / 3)


def test_draws_of_different_rounds_and_clients_differ() -> None:
    spec = ModelSpec.of(CNNS["CIFAR"])
    sets = {
        NeuronSet.draw(spec, 0.5, rng.stream(1, rng.NEURONS, client, round_)).hash()
        for client in range(10)
        for round_ in range(10)
    }
    assert len(sets) == 100


def test_keys_stand_for_the_ids_of_their_group() -> None:
    spec = ModelSpec.of(CNNS["CIFAR"])
    neurons = NeuronSet.draw(spec, 0.3, rng.stream(5, rng.NEURONS))
    assert neurons.keys.keys() == spec.groups.keys()
    for group, key in neurons.keys.items():
        expected = rng.sample_ids(key, spec.groups[group], n_act(spec.groups[group], 0.3))
        assert (neurons.active[group] == expected).all()


def test_a_group_that_is_fully_active_has_no_key() -> None:
    assert set(NeuronSet.draw(TINY, 1.0, rng.stream(5, rng.NEURONS)).keys.values()) == {None}


def test_stream_position_after_a_draw_does_not_depend_on_keep() -> None:
    ends = []
    for keep in (0.2, 1.0):
        stream = rng.stream(5, rng.NEURONS)
        NeuronSet.draw(TINY, keep, stream)
        ends.append(stream.key())
    assert ends[0] == ends[1]


def test_hash_depends_on_ids_alone() -> None:
    assert tiny([0, 2], [1]).hash() == tiny([0, 2], [1]).hash()
    assert len({tiny(*ids).hash() for ids in (([0, 2], [1]), ([0, 2], [2]), ([0], [1]), ([2], [0, 1]))}) == 4
    assert tiny([0, 2], [1]).hash().hex() == "a755a9042ca590e2"
    drawn = NeuronSet.draw(TINY, 0.7, rng.stream(5, rng.NEURONS))
    keyless = NeuronSet.of(TINY, drawn.active)
    assert drawn.keys != keyless.keys
    assert drawn == keyless
    assert drawn.hash() == keyless.hash()


def test_ids_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        tiny([0, 2], [1]).active["conv1"][0] = 1


def test_missing_or_unknown_group_is_refused() -> None:
    with pytest.raises(SelectionError, match=r"neuron groups \['conv1'\]; expected \['conv1', 'conv2'\]"):
        NeuronSet.of(TINY, {"conv1": [0]})
    with pytest.raises(SelectionError, match="neuron groups"):
        NeuronSet.of(TINY, {"conv1": [0], "conv2": [0], "conv3": [0]})


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([2, 0], "group 'conv1': ids are not sorted and unique"),
        ([0, 0], "group 'conv1': ids are not sorted and unique"),
        ([0, 3], "group 'conv1': ids from 0 to 3; expected 0 to 2"),
        ([-1, 0], "group 'conv1': ids from -1 to 0; expected 0 to 2"),
        ([], "group 'conv1': ids of shape"),
        ([0.5], "type float64; expected integers"),
        (np.zeros((1, 1), np.int32), r"shape \(1, 1\)"),
    ],
)
def test_ids_that_do_not_fit_are_refused(ids, message) -> None:
    with pytest.raises(SelectionError, match=message):
        NeuronSet.of(TINY, {"conv1": ids, "conv2": [0]})


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"conv1": 4, "conv2": 4}, "neurons of another model: 4 in group 'conv1'; expected 3"),
        ({"conv1": 3}, "neurons of another model: 0 in group 'conv2'; expected 4"),
        ({"conv1": 3, "conv2": 4, "fc": 9}, "neurons of another model: 9 in group 'fc'; expected 0"),
    ],
)
def test_neurons_of_another_model_are_refused(groups, message) -> None:
    """Also where all of them are active, which a model of any size could take for all of its own."""
    other = NeuronSet.full(ModelSpec({}, groups, bytes(16)))
    with pytest.raises(SelectionError) as error:
        other.blocks(TINY)
    assert str(error.value) == message
    tiny([0], [0]).check(TINY)


def test_neurons_of_a_smaller_group_have_another_hash() -> None:
    hashes = {NeuronSet.of(ModelSpec({}, {"a": size}, bytes(16)), {"a": [0, 1]}).hash() for size in (3, 4)}
    assert len(hashes) == 2


def test_axis_of_another_model_is_refused() -> None:
    with pytest.raises(SelectionError, match="axis of 9 indices in group 'conv1' with repeat 2; 3 neurons"):
        tiny([0], [0]).ids(AxisSpec("conv1", 2), 9)
    with pytest.raises(SelectionError, match="axis of 9 indices in group 'other' with repeat 3; no such group"):
        tiny([0], [0]).ids(AxisSpec("other", 3), 9)


def test_the_first_neurons_of_a_smaller_share_are_among_those_of_a_larger() -> None:
    """The first floor(n p) of 3 and 4 neurons are drawn, and at least one. p = 1 draws all of them."""
    shares = {0.1: (1, 1), 0.5: (1, 2), 0.7: (2, 2), 0.75: (2, 3), 1.0: (3, 4)}
    for keep, (one, two) in shares.items():
        assert NeuronSet.leading(TINY, keep) == tiny(list(range(one)), list(range(two)))
    assert NeuronSet.leading(TINY, 1.0).is_full
    with pytest.raises(ValueError, match=r"keep=0; expected 0 < keep <= 1"):
        NeuronSet.leading(TINY, 0)
