"""Training after a cut: results that are kept, within a limit and as float16. Its gradients are in test_fuzz.py."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from edgefl import kernels, rng
from edgefl.errors import DataError, GraphError, MemoryLimitError
from edgefl.learning import SGD, FitOptions, GraphLearner, Samples
from edgefl.learning.batches import Minibatches
from edgefl.learning.lowering.updates import Terms
from edgefl.learning.memory import TrainingConfiguration
from edgefl.learning.memory.exact import exact
from edgefl.models.graph import Graph, Model, architectures
from edgefl.models.graph.cuts import before, cuts
from edgefl.models.graph.operations import Linear
from edgefl.models.neurons.gather import put, take
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet

ROWS, CLASSES = 45, 5
NAMES = ("fedspu_emnist", "fedspu_cifar", "pflego_mlp")
every_cut = pytest.mark.parametrize(
    ("name", "cut"), [(name, cut) for name in NAMES for cut in cuts(architectures.build(name, (1, 28, 28), CLASSES))]
)


def model(name: str) -> Model:
    graph = architectures.build(name, (1, 28, 28), CLASSES)
    return Model(graph, graph.init(rng.stream(1, rng.INIT)))


def samples(seed: int = 3) -> Samples:
    stream = rng.stream(seed, rng.DATA)
    x = stream.below(np.full(ROWS * 784, 256)).astype(np.uint8).reshape(ROWS, 1, 28, 28)
    return Samples(x, stream.below(np.full(ROWS, CLASSES)).astype(np.int32), 1 / 255)


def batches(epochs: int = 3) -> Minibatches:
    def order(epoch: int) -> np.ndarray:
        return rng.stream(5, rng.DATA, extra=epoch).permutation(ROWS - 5)

    return Minibatches(np.arange(2, ROWS - 3, dtype=np.int32), order, epochs, 8)


def neurons(graph: Graph) -> NeuronSet:
    return NeuronSet.draw(ModelSpec.of(graph), 0.4, rng.stream(2, rng.NEURONS))


def bits(learner: GraphLearner) -> dict[str, bytes]:
    return {name: value.tobytes() for name, value in learner.read().items()}


def without_scratch(learner: GraphLearner) -> int:
    return sum(size for name, size in learner.memory().items() if name != "scratch")


@every_cut
def test_a_limit_that_leaves_room_for_few_results_changes_no_bit(name: str, cut: str) -> None:
    """This holds on every instruction set. The limit decides how much runs together, and how often."""
    native: ModuleType = kernels.backend("native")
    isa = native.isa()
    try:
        for instruction_set in filter(native.has_isa, kernels.ISAS):
            native.cap_isa(instruction_set)
            _check_limits(model(name), cut)
    finally:
        native.cap_isa(isa)


def _check_limits(start: Model, cut: str) -> None:
    chosen, sgd = neurons(start.graph), SGD(0.1, momentum=0.5)
    free = GraphLearner(start)
    found = free.fit(samples(), batches(), sgd, FitOptions(chosen, cut=cut))
    training = TrainingConfiguration("", start.graph, 8, keep=0.4, examples=8, terms=Terms(momentum=True), cut=cut)
    least, row = exact(training).total, free.memory()["features"] // 40  # of the 40 that are trained on
    scratch = exact(training).parts["scratch"]
    for room in (8, 17, 40):
        limit = least + (room - 8) * row
        near = GraphLearner(start, limit_bytes=limit)
        assert near.fit(samples(), batches(), sgd, FitOptions(chosen, cut=cut)) == found
        assert bits(near) == bits(free)
        assert without_scratch(near) + scratch == limit
        assert (near.work().training > free.work().training) == (room < 40)  # again, as often as rows come up
    with pytest.raises(MemoryLimitError, match=f"training after '{cut}' in batches of 8 needs {least} bytes"):
        GraphLearner(start, limit_bytes=least - 1).fit(samples(), batches(), sgd, FitOptions(chosen, cut=cut))


@every_cut
def test_what_stands_still_keeps_its_bits_and_so_does_what_is_frozen(name: str, cut: str) -> None:
    start, chosen = model(name), neurons(model(name).graph)
    learner = GraphLearner(start)
    learner.fit(samples(), batches(), SGD(0.1), FitOptions(chosen, cut=cut))
    behind, moved = learner.rest(cut).spec.params, 0
    ones = {parameter: np.ones(value.shape, np.float32) for parameter, value in start.params.items()}
    active = {parameter: 0 * value for parameter, value in ones.items()}
    put(active, take(ones, learner.spec, chosen, kinds=("learn",)))
    for parameter, value in learner.read().items():
        changed = value != start.params[parameter]
        if parameter not in behind:
            assert not changed.any()
        elif learner.spec.params[parameter].kind == "learn":
            assert not changed[active[parameter] == 0].any()
            moved += int(changed.sum())
    assert moved


@every_cut
def test_halves_take_half_the_memory_and_train_nearly_the_same(name: str, cut: str) -> None:
    start = model(name)
    whole, half = GraphLearner(start), GraphLearner(start)
    whole.fit(samples(), batches(), SGD(0.05), FitOptions(cut=cut))
    half.fit(samples(), batches(), SGD(0.05, saved="fp16"), FitOptions(cut=cut))
    values = int(np.prod(start.graph.shapes[cut]))
    assert whole.memory()["features"] == 40 * values * 4
    assert half.memory()["features"] == 40 * values * 2 + 8 * values * 4  # and a batch as it is read
    moves = {name: np.abs(value - start.params[name]).max() for name, value in whole.read().items()}
    for parameter, value in half.read().items():
        assert np.abs(value - whole.read()[parameter]).max() <= 0.1 * max(moves.values())
    assert bits(half) != bits(whole)


@pytest.mark.parametrize("batch", [1, 3, 8, 16])
@pytest.mark.parametrize("name", ["lenet5", "fedspu_cifar"])
def test_passes_take_no_more_memory_than_those_of_the_same_layers_by_name(name: str, batch: int) -> None:
    """The passes before and after the cut lie in one arena, and the results that are kept come on top."""
    start = model(name)
    for cut in cuts(start.graph):
        learner, whole = GraphLearner(start), GraphLearner(start)
        rows = [np.arange(batch, dtype=np.int32) + batch * step for step in range(2)]
        learner.fit(samples(), rows, SGD(0.1), FitOptions(cut=cut))
        behind = frozenset(learner.rest(cut).spec.learned)
        whole.fit(samples(), rows, SGD(0.1), FitOptions(behind))
        held, named = learner.memory(), whole.memory()
        kept = 4 * 2 * batch * int(np.prod(start.graph.shapes[cut]))
        training = TrainingConfiguration("", start.graph, batch, examples=2 * batch, cut=cut)
        assert held["arena"] == exact(training).parts["arena"]
        assert held["features"] == kept
        if batch >= 4 or not is_behind_products(start.graph, cut):
            assert held["arena"] <= named["arena"]


def is_behind_products(graph: Graph, cut: str) -> bool:
    """Return whether a Linear layer lies before the cut. Then all passes have 4 examples."""
    return any(isinstance(node.op, Linear) for node in before(graph, cut))


def test_no_bit_depends_on_the_examples_in_a_pass_of_convolutions() -> None:
    """Steps of 16 examples follow passes of 16, and steps of 3 examples follow passes of 2."""
    learner, rows = GraphLearner(model("lenet5")), np.arange(45, dtype=np.int32)
    found = [learner.features(samples(), rows, chunk, "flatten") for chunk in (1, 2, 4, 8, 16)]
    assert len({each.tobytes() for each in found}) == 1


def test_the_same_steps_as_of_the_whole_model_with_its_first_layers_frozen() -> None:
    """Without running statistics or dropout, layers after the cut take equal steps if the layers before it are not
    trained.

    They are equal up to rounding, because batches of other sizes add in another order.
    """
    start = model("lenet5")
    cached, whole = GraphLearner(start), GraphLearner(start)
    found = cached.fit(samples(), batches(), SGD(0.1), FitOptions(cut="flatten"))
    behind = frozenset(parameter.rpartition(".")[0] for parameter in cached.rest("flatten").spec.params)
    expected = whole.fit(samples(), batches(), SGD(0.1), FitOptions(behind))
    assert found.loss_sum == pytest.approx(expected.loss_sum, rel=1e-6)
    for parameter, value in whole.read().items():
        np.testing.assert_allclose(cached.read()[parameter], value, rtol=0, atol=2e-6)
    assert cached.work().training < 0.75 * whole.work().training


def test_a_second_fit_takes_the_parameters_as_they_are_then() -> None:
    start = model("fedspu_emnist")
    learner, other = GraphLearner(start), model("fedspu_emnist")
    learner.fit(samples(), batches(), SGD(0.1), FitOptions(cut="flatten"))
    moved = {name: value * 1.5 for name, value in other.params.items()}
    learner.write(moved)
    learner.fit(samples(4), batches(), SGD(0.1), FitOptions(cut="flatten"))
    fresh = GraphLearner(Model(start.graph, moved))
    fresh.fit(samples(4), batches(), SGD(0.1), FitOptions(cut="flatten"))
    assert bits(learner) == bits(fresh)


def test_kept_batches_take_no_more_memory_for_more_epochs() -> None:
    """Batches are made as they are used."""
    learner = GraphLearner(model("fedspu_emnist"))
    made = []

    def order(epoch: int) -> np.ndarray:
        made.append(epoch)
        return np.arange(ROWS)

    class StopHere(Exception):  # noqa: N818
        pass

    def stop(epoch: int) -> np.ndarray:
        if epoch == 2:
            raise StopHere
        return order(epoch)

    endless = Minibatches(np.arange(ROWS, dtype=np.int32), stop, 10**6, ROWS)
    with pytest.raises(StopHere):
        learner.fit(samples(), endless, SGD(0.1), FitOptions(cut="flatten"))
    assert made == [0, 1]


def test_wrong_cuts_samples_and_rows_are_named() -> None:
    learner = GraphLearner(model("fedspu_emnist"))
    with pytest.raises(GraphError, match="cut after 'pool7'; expected a result of the graph: input, conv1"):
        learner.fit(samples(), batches(), SGD(0.1), FitOptions(cut="pool7"))
    with pytest.raises(DataError, match=r"samples of shape \(1, 28, 27\)"):
        wrong = Samples(np.zeros((ROWS, 1, 28, 27), np.uint8), np.zeros(ROWS, np.int32))
        learner.fit(wrong, batches(), SGD(0.1), FitOptions(cut="flatten"))
    with pytest.raises(DataError, match="batch with indices 0 to 45; expected 0 to 44"):
        learner.fit(samples(), [np.array([0, 45], np.int32)], SGD(0.1), FitOptions(cut="flatten"))
