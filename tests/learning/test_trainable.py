"""Any part of a parameter may be trained: whole, rows and columns, a mask, or not at all. Against torch in float64."""

from __future__ import annotations

import numpy as np
import pytest

from edgefl.errors import SelectionError
from edgefl.learning import SGD, Adam, FitOptions, GraphLearner
from edgefl.learning.optimizers import Optimizer
from edgefl.models.neurons.gather import put
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.trainable_parameters import TrainableParameters
from edgefl.models.neurons.trainable_slice import TrainableSlice
from edgefl.protocol.codec.decoding import decode
from edgefl.protocol.codec.encoding import encode
from edgefl.rng import NEURONS, stream
from edgefl.torch import TorchLearner
from tests.learning import oracle
from tests.learning.graphs import GRAPHS, model, samples

ROWS = np.arange(8, dtype=np.int32)
BATCHES = [ROWS[:4], ROWS[4:], ROWS[2:6]]
LABELLED = [name for name, graph in GRAPHS.items() if len(graph.output_shape) == 1]
OPTIMIZERS: dict[str, Optimizer] = {
    "sgd": SGD(0.1, weight_decay=0.01),
    "momentum": SGD(0.05, momentum=0.9, weight_decay=0.01, clip=1.0),
    "adam": Adam(0.01, weight_decay=0.01),
}


def drawn(spec: ModelSpec, seed: int) -> TrainableParameters:
    """About a fifth of the parameters each: not trained, whole, rows, rows and columns, and a mask."""
    draw, slices = np.random.default_rng(seed), dict[str, TrainableSlice]()
    for name in spec.learned:
        shape, kind = spec.params[name].shape, draw.integers(5)
        axes = [np.flatnonzero(draw.random(size) < 0.6).tolist() for size in shape[:2]]
        if kind == 4:
            bits = draw.random(shape) < 0.4
            slices[name] = TrainableSlice(bits=bits)
        elif kind:
            slices[name] = TrainableSlice.of(name, shape, *axes[: int(kind) - 1])
    return TrainableParameters(None, slices)


def chosen(spec: ModelSpec, part: TrainableParameters) -> dict[str, np.ndarray]:
    """Booleans of every learned parameter, by the definition of a slice."""
    found = {}
    for name in spec.learned:
        shape = spec.params[name].shape
        at = np.zeros(shape, bool)
        slice_ = TrainableSlice() if part.slices is None else part.slices.get(name)
        if slice_ is not None:
            at = oracle.mask(shape, slice_.rows, slice_.cols)
            at &= True if slice_.bits is None else slice_.bits
        if part.neurons is not None:
            axes = (part.neurons.ids(spec.params[name].rows, shape[0]), None)
            if len(shape) > 1:
                axes = (axes[0], part.neurons.ids(spec.params[name].cols, shape[1]))
            at &= oracle.mask(shape, *axes)
        found[name] = at
    return found


def block(dense: np.ndarray, at: np.ndarray, part: TrainableSlice) -> np.ndarray:
    """The trained values of a dense gradient, compact."""
    if part.bits is not None:
        return dense[at]
    rows = dense if part.rows is None else dense[part.rows]
    return rows if part.cols is None else rows[:, part.cols]


@pytest.mark.parametrize(("seed", "name"), list(enumerate(LABELLED)))
def test_gradients_and_steps_are_those_of_torch(seed: int, name: str) -> None:
    given = model(GRAPHS[name])
    spec = ModelSpec.of(given.graph)
    part, optimizer = drawn(spec, seed), list(OPTIMIZERS.values())[seed % 3]
    data, at = samples(given.graph, len(ROWS), dtype=np.float64), chosen(spec, part)
    learner = GraphLearner(given, "reference", np.float64)
    dense = oracle.gradients(given.graph, given.params, data.x, data.y)
    found = learner.gradient(data, ROWS, part)
    assert set(found) == {each for each in spec.learned if at[each].any()}
    for each, value in found.items():
        expected = block(dense[each], at[each], part.slices[each])  # type: ignore[index]
        np.testing.assert_allclose(value, expected, rtol=1e-6, atol=1e-9, err_msg=each)
    pull = (0.1, {each: np.full_like(value, 0.5) for each, value in given.params.items()})
    learner.fit(data, BATCHES, optimizer, FitOptions(part, pull=pull))
    after, _ = oracle.train(given.graph, given.params, data, BATCHES, optimizer, at, pull)
    for each in spec.learned:
        value, start = learner.read()[each], given.params[each].astype(np.float64)
        np.testing.assert_allclose(value, after[each], rtol=1e-5, atol=1e-7, err_msg=each)
        assert value[~at[each]].tobytes() == start[~at[each]].tobytes()


CASES = {  # of the graph "plain": conv1 of 6 neurons, conv2 of 8 neurons, fc1 of 7 rows and 32 columns without a bias
    "biases": {
        "conv1.bias": (None, None),
        "bn1.bias": (None, None),
        "bn2.bias": (None, None),
        "fc2.bias": (None, None),
    },
    "norms": {f"bn{i}.{name}": (None, None) for i in (1, 2) for name in ("weight", "bias")},
    "one tensor": {"conv2.weight": (None, None)},
    "rows of a convolution": {"conv1.weight": ([0, 1, 2, 5], None)},
    "columns of a convolution": {"conv2.weight": (None, [3, 4])},
    "rows and columns": {"conv2.weight": ([1, 7], [0, 5]), "fc1.weight": ([6], [0, 30, 31])},
    "other rows of a norm's weight and bias": {"bn1.weight": ([0], None), "bn1.bias": ([4, 5], None)},
    "the head": {"fc2.weight": (None, None), "fc2.bias": (None, None)},
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
@pytest.mark.parametrize("case", CASES)
def test_the_native_learner_trains_slices(case: str, optimizer: Optimizer) -> None:
    """Also with other rows of as many, for which the learner has a session already."""
    given = model(GRAPHS["plain"])
    spec = ModelSpec.of(given.graph)
    learner, data = GraphLearner(given), samples(given.graph, len(ROWS))
    for shift in (0, 1):
        moved = {
            name: tuple(None if ids is None else sorted((i + shift) % spec.params[name].shape[axis] for i in ids)
                        for axis, ids in enumerate(axes))
            for name, axes in CASES[case].items()
        }  # fmt: skip
        part = TrainableParameters.sliced(spec, moved)  # type: ignore[arg-type]
        at = chosen(spec, part)
        learner.write(given.params)
        learner.fit(data, BATCHES, optimizer, FitOptions(part))
        after, _ = oracle.train(given.graph, given.params, data, BATCHES, optimizer, at)
        for name in spec.learned:
            value = learner.read()[name]
            np.testing.assert_allclose(value, after[name], rtol=2e-3, atol=2e-4, err_msg=name)
            assert value[~at[name]].tobytes() == given.params[name][~at[name]].tobytes()
            assert not at[name].any() or not np.array_equal(value[at[name]], given.params[name][at[name]])


@pytest.mark.parametrize("name", ["plain", "residual", "depthwise", "recurrent"])
def test_neurons_and_a_mask_work_inside_the_trained_part(name: str) -> None:
    """Neurons of some layers, with two draws of as many neurons, and a slice of a mask."""
    given = model(GRAPHS[name])
    spec = ModelSpec.of(given.graph)
    names = spec.learned[len(spec.learned) // 3 :]
    draw = np.random.default_rng(1)
    # the mask of depth.bias in the graph "depthwise" packs to the byte of "-"
    mask = Mask.of(spec, {each: draw.random(spec.params[each].shape) < 0.5 for each in names[:2]})
    rows = {each: ([0], None) for each in names[-2:]}
    data = samples(given.graph, len(ROWS), dtype=np.float64)
    learner, inside = GraphLearner(given, "reference", np.float64), TrainableParameters.named(spec, names)
    neurons = [
        TrainableParameters.of(spec, NeuronSet.draw(spec, 0.6, stream(seed, NEURONS))) for seed in (1, 2)
    ]  # fmt: skip
    parts = [each & inside for each in neurons]
    parts += [TrainableParameters.of(spec, mask) & inside, neurons[0] & TrainableParameters.sliced(spec, rows)]  # type: ignore[arg-type]
    for part in parts:
        at = chosen(spec, part)
        learner.write(given.params)
        learner.fit(data, BATCHES, OPTIMIZERS["momentum"], FitOptions(part))
        after, _ = oracle.train(given.graph, given.params, data, BATCHES, OPTIMIZERS["momentum"], at)
        for each in spec.learned:
            np.testing.assert_allclose(learner.read()[each], after[each], rtol=1e-5, atol=1e-7, err_msg=each)
            assert each in names or not at[each].any()


@pytest.mark.parametrize("name", ["plain", "recurrent", "attention"])
def test_the_torch_learner_trains_the_same(name: str) -> None:
    given = model(GRAPHS[name])
    spec = ModelSpec.of(given.graph)
    part, data = drawn(spec, 5), samples(given.graph, len(ROWS), dtype=np.float64)
    learners = GraphLearner(given, "reference", np.float64), TorchLearner(given, dtype=np.float64)
    found = [each.gradient(data, ROWS, part) for each in learners]
    assert found[0].keys() == found[1].keys()
    for each in learners:
        each.fit(data, BATCHES, OPTIMIZERS["adam"], FitOptions(part))
    for each in spec.learned:
        if each in found[0]:
            np.testing.assert_allclose(found[0][each], found[1][each], rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(learners[0].read()[each], learners[1].read()[each], rtol=1e-5, atol=1e-7)


def test_one_layer_of_a_model_with_a_mask() -> None:
    """FedSpa of one layer: the coordinates of the mask move, the others are 0, and every other layer keeps its bits."""
    given = model(GRAPHS["mlp"])
    spec = ModelSpec.of(given.graph)
    bits = np.random.default_rng(0).random(spec.params["fc2.weight"].shape) < 0.5
    data = samples(given.graph, len(ROWS), dtype=np.float64)
    for learner in (GraphLearner(given, "reference", np.float64), TorchLearner(given, dtype=np.float64)):
        learner.restrict(Mask.of(spec, {"fc2.weight": bits}))
        start = {name: value.copy() for name, value in learner.read().items()}
        learner.fit(data, BATCHES, OPTIMIZERS["momentum"], FitOptions(["fc2.weight"]))
        at = {name: bits if name == "fc2.weight" else np.zeros_like(value, bool) for name, value in start.items()}
        after, _ = oracle.train(given.graph, start, data, BATCHES, OPTIMIZERS["momentum"], at)
        for name, value in learner.read().items():
            np.testing.assert_allclose(value, after[name], rtol=1e-6, atol=1e-9)
        assert not learner.read()["fc2.weight"][~bits].any()
        with pytest.raises(SelectionError, match=r"a part of 'fc2.weight', to whose mask the learner keeps"):
            learner.fit(
                data, BATCHES, SGD(0.1), FitOptions(TrainableParameters.sliced(spec, {"fc2.weight": ([0], None)}))
            )


def test_statistics_follow_the_channels_that_are_trained() -> None:
    """With bn_frozen="freeze" the statistics of channel 2 of bn1 move, and all other statistics keep their bits."""
    given = model(GRAPHS["plain"])
    part = TrainableParameters.sliced(
        ModelSpec.of(given.graph), {"bn1.bias": ([2], None), "conv2.weight": (None, None)}
    )
    for learner in (GraphLearner(given), TorchLearner(given)):
        learner.fit(samples(given.graph, len(ROWS)), BATCHES, SGD(0.1), FitOptions(part, bn_frozen="freeze"))
        for name in ("bn1.running_mean", "bn1.running_var", "bn2.running_mean", "bn2.running_var"):
            moved = np.flatnonzero(learner.read()[name] != given.params[name]).tolist()
            assert moved == ([2] if name.startswith("bn1") else [])


@pytest.mark.parametrize("make", [GraphLearner, TorchLearner])
def test_unknown_names_are_refused_before_a_step(make: type[GraphLearner] | type[TorchLearner]) -> None:
    given = model(GRAPHS["plain"])
    learner, data = make(given), samples(given.graph, len(ROWS))
    for cut in ("", "pool2"):
        with pytest.raises(
            SelectionError, match=r"'fc2.wieght' is neither a parameter nor a layer; the nearest are fc2.weight"
        ):
            learner.fit(data, BATCHES, SGD(0.1), FitOptions(frozenset({"fc1", "fc2.wieght"}), cut=cut))
    for name, value in learner.read().items():
        assert value.tobytes() == given.params[name].tobytes()


def test_after_a_cut_the_same_names_are_trained() -> None:
    """Names before the cut are known, and are not trained."""
    given = model(GRAPHS["plain"])
    learner = GraphLearner(given)
    learner.fit(samples(given.graph, len(ROWS)), BATCHES, SGD(0.1), FitOptions(["conv1.weight", "fc2"], cut="pool2"))
    moved = {name for name, value in learner.read().items() if not np.array_equal(value, given.params[name])}
    assert moved == {"fc2.weight", "fc2.bias"}


def test_a_layer_stands_for_its_parameters() -> None:
    """The name of a layer, the names of its two parameters and a value made of them train alike, bit by bit."""
    given = model(GRAPHS["mlp"])
    spec, data = ModelSpec.of(given.graph), samples(given.graph, len(ROWS))
    results = []
    for part in (frozenset({"fc2"}), ["fc2.weight", "fc2.bias"], TrainableParameters.named(spec, ["fc2"])):
        learner = GraphLearner(given)
        learner.fit(data, BATCHES, SGD(0.1), FitOptions(part))
        results.append({name: value.tobytes() for name, value in learner.read().items()})
    assert results[0] == results[1] == results[2]


def test_what_is_trained_is_what_travels() -> None:
    """An update of the trained part holds every coordinate that a fit moved, and none besides, through the codec."""
    given = model(GRAPHS["plain"])
    spec, learner = ModelSpec.of(given.graph), GraphLearner(given)
    neurons = TrainableParameters.of(spec, NeuronSet.draw(spec, 0.5, stream(1, NEURONS)))
    slices = TrainableParameters.sliced(spec, {"bn1.bias": ([2], None), "conv2.weight": ([1], [0, 5])})
    for part in (slices, neurons, neurons & TrainableParameters.named(spec, ["fc1", "fc2.bias"]), drawn(spec, 3)):
        learner.write(given.params)
        learner.fit(samples(given.graph, len(ROWS)), BATCHES, SGD(0.1), FitOptions(part, bn_frozen="freeze"))
        sent = decode(encode(learner.take(part), spec), spec, limit=1 << 20)
        start = {name: value.copy() for name, value in given.params.items()}
        put(start, sent)
        for name, value in learner.read().items():
            np.testing.assert_array_equal(start[name], value, err_msg=name)
        at = chosen(spec, part)
        learned = sum(sent.blocks[name].values.size for name in spec.learned if name in sent.blocks)
        assert learned == sum(int(each.sum()) for each in at.values())
