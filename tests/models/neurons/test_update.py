"""Blocks and updates: three-number examples, then gather and scatter on real models, then what is refused."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from edgefl import kernels
from edgefl.errors import SelectionError
from edgefl.kernels import reference
from edgefl.models.graph import Graph, Node, Params, architectures
from edgefl.models.graph.operations import Add, BatchNorm2d, Concat, Conv2d, Flatten, GlobalAvgPool, Linear, ReLU
from edgefl.models.neurons.block_index import Axes, AxisIds, Flat, JoinedIds, active_axes, block_shape
from edgefl.models.neurons.gather import put, take, take_flat
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.update import Block, SquaredChange, Update
from edgefl.rng import INIT, NEURONS, stream

TINY = Graph(
    (2,),
    (Node("a", Linear(2, 3), ("input",)), Node("b", Linear(3, 2, bias=False), ("a",))),
)
BRANCHES = Graph(
    (2, 4, 4),
    (
        Node("conv1", Conv2d(2, 6, (3, 3), padding=(1, 1)), ("input",)),
        Node("bn1", BatchNorm2d(6), ("conv1",)),
        Node("conv2", Conv2d(6, 6, (3, 3), padding=(1, 1), bias=False), ("bn1",)),
        Node("sum", Add(), ("bn1", "conv2")),
        Node("relu", ReLU(), ("sum",)),
        Node("depth", Conv2d(6, 12, (3, 3), groups=6), ("relu",)),
        Node("flat", Flatten(), ("depth",)),
        Node("fc", Linear(48, 5), ("flat",)),
    ),
)


JOINED = Graph(
    (2,),
    (
        Node("a", Linear(2, 3, bias=False), ("input",)),
        Node("all", Concat(), ("a", "input")),
        Node("b", Linear(5, 2), ("all",)),
        Node("more", Concat(), ("b", "all", "a")),
        Node("c", Linear(10, 1, bias=False), ("more",)),
    ),
)


def ids(*neurons: int, size: int, repeat: int = 1, key: int | None = None) -> AxisIds:
    return AxisIds(np.array(neurons, np.int32), size, repeat, key)


def numbered(spec: ModelSpec) -> Params:
    """Every scalar of the model is a different number."""
    params, start = {}, 0
    for name, param in spec.params.items():
        size = int(np.prod(param.shape))
        params[name] = np.arange(start, start + size, dtype=np.float32).reshape(param.shape)
        start += size
    return params


def copied(params: Params) -> Params:
    return {name: value.copy() for name, value in params.items()}


def same_bits(a: Params, b: Params) -> bool:
    return a.keys() == b.keys() and all(a[name].tobytes() == b[name].tobytes() for name in a)


def test_take_copies_active_rows_and_columns() -> None:
    spec = ModelSpec.of(TINY)
    params = numbered(spec)  # a.weight 0..5, a.bias 6..8, b.weight 9..14
    update = take(params, spec, NeuronSet.of(spec, {"a": [0, 2]}), ops=reference)
    assert {name: block.values.tolist() for name, block in update.blocks.items()} == {
        "a.weight": [[0, 1], [4, 5]],
        "a.bias": [6, 8],
        "b.weight": [[9, 11], [12, 14]],
    }
    assert update.count == 10
    assert update.nbytes == 40
    params["a.bias"][:] = -1
    assert update.blocks["a.bias"].values.tolist() == [6, 8]


def test_put_writes_the_block_and_nothing_else() -> None:
    spec = ModelSpec.of(TINY)
    params = numbered(spec)
    rows = Axes(ids(1, size=3))
    put(params, Update({"a.weight": Block((3, 2), rows, np.array([[-1, -2]], np.float32))}), ops=reference)
    assert params["a.weight"].tolist() == [[0, 1], [-1, -2], [4, 5]]
    assert params["a.bias"].tolist() == [6, 7, 8]
    assert params["b.weight"].tolist() == [[9, 10, 11], [12, 13, 14]]


def test_blocks_along_joined_axes_are_taken_and_put() -> None:
    spec = ModelSpec.of(JOINED)
    params = numbered(spec)  # a.weight 0..5, b.weight 6..15, b.bias 16, 17, c.weight 18..27: b, a, input, a
    neurons = NeuronSet.of(spec, {"a": [0, 2], "b": [1]})
    for ops in (reference, kernels.backend("native")):
        update = take(params, spec, neurons, ops=ops)
        assert {name: block.values.tolist() for name, block in update.blocks.items()} == {
            "a.weight": [[0, 1], [4, 5]],
            "b.weight": [[11, 13, 14, 15]],
            "b.bias": [17],
            "c.weight": [[19, 20, 22, 23, 24, 25, 27]],
        }
        assert update.count == neurons.count(spec) == 16
        written = {name: np.full_like(value, -1) for name, value in params.items()}
        put(written, update, ops=ops)
        assert written["c.weight"].tolist() == [[-1, 19, 20, -1, 22, 23, 24, 25, -1, 27]]
        assert take(written, spec, neurons, ops=ops) == update
    other = take(params, spec, NeuronSet.of(spec, {"a": [0, 1], "b": [1]}))
    assert other.blocks["c.weight"].index != update.blocks["c.weight"].index
    assert other.blocks["b.bias"] == update.blocks["b.bias"]


def test_joined_ids_that_do_not_fit_are_refused() -> None:
    part = JoinedIds((ids(0, 2, size=3), 2))
    assert (part.length, part.count, part.expanded.tolist()) == (5, 4, [0, 2, 3, 4])
    assert part == JoinedIds((ids(0, 2, size=3), 2))
    assert part not in (JoinedIds((ids(0, 2, size=3), 1)), JoinedIds((ids(0, 1, size=3), 2)))
    assert JoinedIds((4, ids(1, size=2, repeat=3))).expanded.tolist() == [0, 1, 2, 3, 7, 8, 9]
    with pytest.raises(SelectionError, match=r"joined parts \(3, 2\); expected neurons of one part, or None for all"):
        JoinedIds((3, 2))
    for shape, index in (((6,), Axes(part)), ((5, 4), Axes(None, part)), ((5,), Axes(None, part))):
        with pytest.raises(SelectionError, match=r"ids of an axis of 5 on axis . of shape .* expected an axis of 5"):
            block_shape(shape, index)
    assert block_shape((5, 5), Axes(part, part)) == (4, 4)


def test_flat_coordinates_are_taken_and_put() -> None:
    params = numbered(ModelSpec.of(TINY))
    update = take_flat(params, {"b.weight": np.array([1, 5], np.uint32)}, ops=reference)
    assert update.blocks["b.weight"].values.tolist() == [10, 14]
    zeros = {name: np.zeros_like(value) for name, value in params.items()}
    put(zeros, update, ops=reference)
    assert zeros["b.weight"].tolist() == [[0, 10, 0], [0, 0, 14]]
    assert not zeros["a.weight"].any()


def test_ids_expand_by_their_repeat() -> None:
    assert ids(0, 2, size=3, repeat=4).expanded.tolist() == [0, 1, 2, 3, 8, 9, 10, 11]
    assert ids(0, 2, size=3).expanded.tolist() == [0, 2]


def test_take_everything_is_dense() -> None:
    spec = ModelSpec.of(BRANCHES)
    params = numbered(spec)
    dense = take(params, spec, ops=reference)
    assert list(dense.blocks) == list(spec.params)
    assert all(block.index is None for block in dense.blocks.values())
    assert dense == take(params, spec, NeuronSet.full(spec), ops=reference)


def test_whole_values_are_measured_in_copying() -> None:
    spec = ModelSpec.of(TINY)
    params = numbered(spec)
    before = {name: value - np.float32(2) for name, value in params.items()}
    odd = {**before, "a.bias": before["a.bias"].astype(np.float64), "b.weight": before["b.weight"][:1]}
    update = take(params, spec, since=before)
    assert update == take(params, spec)
    assert {n: b.change.sum for n, b in update.blocks.items() if b.change} == {
        "a.weight": 24,
        "a.bias": 12,
        "b.weight": 24,
    }
    assert all(b.change and b.change.since is before[n] for n, b in update.blocks.items())
    assert [n for n, b in take(params, spec, since=odd).blocks.items() if b.change] == ["a.weight"]
    part = take(params, spec, NeuronSet.of(spec, {"a": [0, 2]}), since=before)
    assert [block.change for block in part.blocks.values()] == [None] * 3


def test_a_measured_change_stays_in_its_process() -> None:
    block = Block((2,), None, np.float32([1, 2]), SquaredChange(np.zeros(1000, np.float32), 5.0))
    sent = pickle.dumps(block)
    assert len(sent) < 1000
    assert pickle.loads(sent) == block and pickle.loads(sent).change is None


def test_kinds_select_parameters() -> None:
    spec = ModelSpec.of(BRANCHES)
    stat = take(numbered(spec), spec, kinds=("stat",), ops=reference)
    assert list(stat.blocks) == ["bn1.running_mean", "bn1.running_var"]


GRAPHS = {
    "residual, depthwise, flatten": BRANCHES,
    "fedspu_cifar": architectures.build("fedspu_cifar", (3, 32, 32), 10),
    "pooled": Graph(
        (1, 4, 4),
        (
            Node("conv", Conv2d(1, 4, (3, 3), bias=False), ("input",)),
            Node("pool", GlobalAvgPool(), ("conv",)),
            Node("flat", Flatten(), ("pool",)),
            Node("fc", Linear(4, 3), ("flat",)),
        ),
    ),
}


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
@pytest.mark.parametrize("keep", [0.2, 0.5, 0.8])
def test_take_agrees_with_the_selection_and_put_leaves_frozen_bits(graph: Graph, keep: float) -> None:
    spec = ModelSpec.of(graph)
    params = graph.init(stream(1, INIT))
    neurons = NeuronSet.draw(spec, keep, stream(1, NEURONS))
    update = take(params, spec, neurons, ops=reference)
    assert update.count == neurons.count(spec, ("learn", "stat"))

    changed = copied(params)
    put(changed, Update({name: flipped(block) for name, block in update.blocks.items()}), ops=reference)
    for name, (rows, cols) in neurons.blocks(spec).items():
        active = np.zeros(params[name].shape, bool)
        kept_rows = np.arange(active.shape[0], dtype=np.int32) if rows is None else rows
        active[kept_rows if cols is None else np.ix_(kept_rows, cols)] = True
        moved = changed[name].view(np.uint32) != params[name].view(np.uint32)
        assert np.array_equal(moved, active), name
    put(changed, update, ops=reference)
    assert same_bits(changed, params)


def flipped(block: Block) -> Block:
    """The block with every bit of every value inverted."""
    return Block(block.shape, block.index, (~block.values.view(np.uint32)).view(np.float32))


def test_put_then_take_is_the_same_update_and_twice_is_once() -> None:
    spec = ModelSpec.of(BRANCHES)
    neurons = NeuronSet.draw(spec, 0.5, stream(2, NEURONS))
    update = take(numbered(spec), spec, neurons, ops=reference)
    params = BRANCHES.init(stream(2, INIT))
    put(params, update, ops=reference)
    once = copied(params)
    assert take(params, spec, neurons, ops=reference) == update
    put(params, update, ops=reference)
    assert same_bits(params, once)


def test_default_backend_gives_the_same_bits() -> None:
    spec = ModelSpec.of(GRAPHS["fedspu_cifar"])
    neurons = NeuronSet.draw(spec, 0.4, stream(3, NEURONS))
    params = numbered(spec)
    update = take(params, spec, neurons)
    assert update == take(params, spec, neurons, ops=reference)
    zeros = {name: np.zeros_like(value) for name, value in params.items()}
    expected = copied(zeros)
    put(zeros, update)
    put(expected, update, ops=reference)
    assert same_bits(zeros, expected)
    sparse = {"conv1.weight": np.array([0, 7, 100], np.uint32)}
    assert take_flat(params, sparse) == take_flat(params, sparse, ops=reference)
    assert kernels.backend() is not None


def test_equality_is_by_bits() -> None:
    def block(value: float) -> Block:
        return Block((1,), None, np.array([value], np.float32))

    assert block(float("nan")) == block(float("nan"))
    assert block(0.0) != block(-0.0)
    assert Update({"w": block(1)}) == Update({"w": block(1)})
    assert Update({"w": block(1)}) != Update({"v": block(1)})
    assert block(1) != Block((1,), None, np.array([1], np.float64))
    assert ids(1, size=3, key=7) == ids(1, size=3)
    assert ids(1, size=3) != ids(1, size=3, repeat=2)


def test_values_are_read_only_views() -> None:
    source = np.zeros(2, np.float32)
    block = Block((2,), None, source)
    with pytest.raises(ValueError, match="read-only"):
        block.values[0] = 1
    source[0] = 1  # the caller's own array stays writeable
    assert block.values[0] == 1


@pytest.mark.parametrize(
    ("neurons", "size", "message"),
    [
        ([2, 1], 4, "neurons have 1 after 2; expected sorted and unique"),
        ([1, 1], 4, "neurons have 1 after 1; expected sorted and unique"),
        ([1, 4], 4, r"neurons contain 4; expected values in \[0, 4\)"),
        ([-1, 2], 4, r"neurons contain -1; expected values in \[0, 4\)"),
        ([0, 1], 2, "2 of 2 neurons; expected at least one neuron, or None for all"),
        ([], 2, "0 of 2 neurons; expected at least one neuron"),
        ([0], 0, "size=0, repeat=1; expected positive"),
    ],
)
def test_bad_ids_are_named(neurons: list[int], size: int, message: str) -> None:
    with pytest.raises(SelectionError, match=message):
        ids(*neurons, size=size)


def test_ids_of_another_type_are_refused() -> None:
    with pytest.raises(SelectionError, match=r"neurons of type int64 and shape \(2,\); expected a list of int32"):
        AxisIds(np.array([0, 1]), 4)
    with pytest.raises(SelectionError, match="key=-1; expected 0 <= key"):
        ids(0, size=2, key=-1)


def test_axes_must_restrict_something() -> None:
    with pytest.raises(SelectionError, match="axes with rows=None and cols=None; expected index None"):
        Axes(None, None)


def test_bad_coordinates_are_named() -> None:
    with pytest.raises(SelectionError, match=r"coordinates contain 6; expected values in \[0, 6\)"):
        Flat(np.array([0, 6], np.uint32), 6)
    with pytest.raises(SelectionError, match="coordinates have 1 after 3"):
        Flat(np.array([3, 1], np.uint32), 6)


def test_block_shape_of_every_index() -> None:
    rows, cols = ids(0, 2, size=3), ids(1, size=2, repeat=2)
    assert block_shape((3, 4, 5, 5), None) == (3, 4, 5, 5)
    assert block_shape((3, 4, 5, 5), Axes(rows, cols)) == (2, 2, 5, 5)
    assert block_shape((3, 4), Axes(None, cols)) == (3, 2)
    assert block_shape((3,), Axes(rows)) == (2,)
    assert block_shape((3, 4), Flat(np.array([5], np.uint32), 12)) == (1,)


@pytest.mark.parametrize(
    ("shape", "index", "error", "message"),
    [
        (
            (4, 4),
            Axes(ids(0, size=3)),
            SelectionError,
            "ids of an axis of 3 on axis 0 of shape .4, 4.; expected an axis",
        ),
        ((3,), Axes(None, ids(0, size=3)), SelectionError, "on axis 1 of shape .3,."),
        ((3, 4), Flat(np.array([5], np.uint32), 11), SelectionError, "coordinates of 11 scalars in shape .3, 4."),
        ((3, 4), None, ValueError, "values of shape .2, 2.; expected .3, 4."),
        ((3, 4), Axes(ids(0, size=3)), ValueError, "values of shape .2, 2.; expected .1, 4."),
    ],
)
def test_block_that_contradicts_its_shape(shape: tuple[int, ...], index: object, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        Block(shape, index, np.zeros((2, 2), np.float32))  # type: ignore[arg-type]


def test_values_of_another_type_or_layout_are_refused() -> None:
    with pytest.raises(ValueError, match="values of type float16; expected float32 or float64"):
        Block((2,), None, np.zeros(2, np.float16))
    with pytest.raises(ValueError, match="expected a C-contiguous array"):
        Block((2, 3), None, np.zeros((3, 2), np.float32).T)


def test_put_names_a_block_that_does_not_fit_and_writes_nothing() -> None:
    params = {"w": np.zeros(2, np.float32), "v": np.zeros((2, 3), np.float32)}
    good = Block((2,), None, np.ones(2, np.float32))
    with pytest.raises(ValueError, match="block 'x' is not a parameter; expected one of w, v"):
        put(params, Update({"w": good, "x": good}), ops=reference)
    with pytest.raises(ValueError, match=r"block 'v' of a parameter of shape \(2,\); expected \(2, 3\)"):
        put(params, Update({"w": good, "v": good}), ops=reference)
    with pytest.raises(ValueError, match="block 'w' of type float64; expected float32"):
        put(params, Update({"w": Block((2,), None, np.ones(2))}), ops=reference)
    assert not params["w"].any()
    params["v"] = np.zeros((3, 2), np.float32).T
    with pytest.raises(ValueError, match="parameter 'v' has strides"):
        put(params, Update({"w": good, "v": Block((2, 3), None, np.ones((2, 3), np.float32))}), ops=reference)
    params["v"] = np.zeros((2, 3), np.float32)
    params["v"].flags.writeable = False
    with pytest.raises(ValueError, match="parameter 'v' is read-only"):
        put(params, Update({"w": good, "v": Block((2, 3), None, np.ones((2, 3), np.float32))}), ops=reference)
    assert not params["w"].any()


def test_take_names_a_missing_parameter() -> None:
    spec = ModelSpec.of(TINY)
    with pytest.raises(ValueError, match=r"block 'a.weight' is not a parameter; expected one of none"):
        take({}, spec, ops=reference)
    with pytest.raises(ValueError, match="block 'z' is not a parameter"):
        take_flat({}, {"z": np.array([0], np.uint32)}, ops=reference)


def test_take_refuses_neurons_of_another_model() -> None:
    other = ModelSpec.of(Graph((3,), (Node("a", Linear(3, 4), ("input",)), Node("b", Linear(4, 2), ("a",)))))
    larger = ModelSpec.of(Graph((3,), (Node("a", Linear(3, 5), ("input",)), Node("b", Linear(5, 2), ("a",)))))
    params = {name: np.zeros(param.shape, np.float32) for name, param in larger.params.items()}
    with pytest.raises(SelectionError, match="neurons of another model: 4 in group 'a'; expected 5"):
        take(params, larger, NeuronSet.of(other, {"a": [1, 3]}))


def test_groups_that_are_not_listed_are_whole() -> None:
    spec = ModelSpec.of(TINY)
    assert active_axes(spec.params["b.weight"], spec, {}, {}) is None
    index = active_axes(spec.params["b.weight"], spec, {"a": np.array([1], np.int32)}, {"a": 5})
    assert index is not None and index.rows is None and index.cols is not None
    assert index.cols.key == 5
