"""Training steps: the update's terms against torch.optim.SGD, and the FedSPU invariants of ALGORITHMS 1.5."""

from __future__ import annotations

import numpy as np
import pytest

from edgefl import rng
from edgefl.errors import BackendError, SelectionError
from edgefl.learning import SGD, Adam, AdamW, FitOptions, GraphLearner
from edgefl.models.graph.operations import Conv2d, Flatten, GlobalAvgPool, Linear
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from tests.kernels.cuda import standin  # tests/kernels

from . import oracle
from .graphs import GRAPHS, chain, model, samples

BACKENDS = ("native", "reference", "cuda")
TERMS = {
    "plain": SGD(0.05),
    "momentum": SGD(0.05, momentum=0.9),
    "decay": SGD(0.05, weight_decay=0.1),
    "clip": SGD(0.5, clip=0.3),
    "all": SGD(0.1, momentum=0.8, weight_decay=0.05, clip=0.5),
    "nesterov": SGD(0.05, momentum=0.8, weight_decay=0.05, clip=0.5, nesterov=True),
    "adam": Adam(0.01, (0.8, 0.95), 1e-4, weight_decay=0.1, clip=0.5),
    "adamw": AdamW(0.01, eps=1e-4),
}


def epochs(backend: str) -> int:
    """Return one epoch of three steps where CUDA is emulated, and three elsewhere."""
    return 1 if backend == "cuda" and not standin.is_real() else 3


def batches_of(count: int, size: int, epochs: int = 1) -> list[np.ndarray]:
    """Return shuffled batches. The last batch of an epoch may be smaller."""
    draw = np.random.default_rng(7)
    orders = [draw.permutation(count).astype(np.int32) for _ in range(epochs)]
    return [order[start : start + size] for order in orders for start in range(0, count, size)]


@pytest.mark.parametrize(
    ("name", "terms"),
    [("plain", "all"), ("residual", "all"), *(("groupnorm", terms) for terms in TERMS)],
)
@pytest.mark.parametrize("keep", [1.0, 0.5])
def test_float64_steps_equal_torch(name: str, terms: str, keep: float) -> None:
    graph = GRAPHS[name]
    learner = GraphLearner(model(graph), "reference", np.float64)
    data, batches = samples(graph, 11, dtype=np.float64), batches_of(11, 4, epochs=2)
    neurons = NeuronSet.draw(learner.spec, keep, rng.stream(2, rng.NEURONS))
    blocks = neurons.blocks(learner.spec, kinds=("learn",))
    expected, loss = oracle.train(graph, learner.read(), data, batches, TERMS[terms], blocks)
    result = learner.fit(data, batches, TERMS[terms], FitOptions(neurons))
    assert (result.examples, result.steps) == (22, 6)
    assert result.loss_sum == pytest.approx(loss, rel=1e-9)
    for parameter, value in learner.read().items():
        np.testing.assert_allclose(value, expected[parameter], rtol=1e-8, atol=1e-9, err_msg=parameter)


def test_a_graph_with_an_operation_that_has_no_kernel_is_refused_by_the_nodes_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(standin.backend().KNOWN, "attention_forward")
    with pytest.raises(BackendError, match=r"^'first': attention_forward has no CUDA kernel"):
        GraphLearner(model(GRAPHS["attention"]), "cuda").fit(
            samples(GRAPHS["attention"], 6), batches_of(6, 6), SGD(0.1)
        )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", GRAPHS)
def test_one_step_equals_masked_dense_autograd(backend: str, name: str) -> None:
    graph, sgd = GRAPHS[name], SGD(0.1)
    learner = GraphLearner(model(graph), backend)
    data, batches = samples(graph, 6), batches_of(6, 6)
    neurons = NeuronSet.draw(learner.spec, 0.5, rng.stream(4, rng.NEURONS))
    blocks = neurons.blocks(learner.spec, kinds=("learn",))
    expected, _ = oracle.train(graph, learner.read(), data, batches, sgd, blocks)
    learner.fit(data, batches, sgd, FitOptions(neurons))
    for parameter in blocks:
        bound = 1e-6 * np.abs(expected[parameter]).max()
        np.testing.assert_allclose(learner.read()[parameter], expected[parameter], 0, bound, err_msg=parameter)


@pytest.mark.parametrize("keep", [1.0, 0.5])
@pytest.mark.parametrize("backend", [*BACKENDS, "numba"])
@pytest.mark.parametrize("name", ["plain", "groupnorm", "mlp"])
def test_updates_in_place_equal_those_from_stored_gradients(name: str, backend: str, keep: float) -> None:
    """A clip that no gradient reaches makes the learner store them all and update at the end of the step."""
    graph, found = GRAPHS[name], []
    data, batches = samples(graph, 11), batches_of(11, 4, epochs=epochs(backend))
    for clip in (None, 1e30):
        learner = GraphLearner(model(graph), backend)
        neurons = NeuronSet.draw(learner.spec, keep, rng.stream(2, rng.NEURONS))
        learner.fit(data, batches, SGD(0.05, weight_decay=0.1, clip=clip), FitOptions(neurons))
        found.append(learner.read())
    for parameter, value in found[1].items():
        np.testing.assert_allclose(found[0][parameter], value, rtol=1e-5, atol=1e-6, err_msg=parameter)


@pytest.mark.parametrize("delta", ["exact", "cut"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["plain", "groupnorm", "depthwise", "residual", "fan_out"])
def test_frozen_coordinates_keep_their_bits(backend: str, name: str, delta: str) -> None:
    """t_fedspu_frozen_bits: outside the active blocks nothing moves, with every term of the update on."""
    graph = GRAPHS[name]
    learner = GraphLearner(model(graph), backend)
    before = {parameter: value.copy() for parameter, value in learner.read().items()}
    centre = {parameter: value + 1 for parameter, value in before.items()}
    neurons = NeuronSet.draw(learner.spec, 0.5, rng.stream(2, rng.NEURONS))
    data, batches = samples(graph, 11), batches_of(11, 4, epochs=epochs(backend))
    for terms in ("all", "nesterov", "adam", "adamw"):
        learner.write(before)
        learner.fit(
            data,
            batches,
            TERMS[terms],
            FitOptions(neurons, pull=(0.1, centre), linear=centre, delta=delta, bn_frozen="freeze"),
        )
        for parameter, axes in neurons.blocks(learner.spec).items():
            active = oracle.mask(before[parameter].shape, *axes)
            after = learner.read()[parameter]
            np.testing.assert_array_equal(after[~active], before[parameter][~active], err_msg=f"{terms} {parameter}")
            assert (after[active] != before[parameter][active]).mean() > 0.9, (terms, parameter)


def test_running_statistics_of_frozen_channels_follow_the_batches_unless_frozen() -> None:
    graph = GRAPHS["plain"]
    data, batches = samples(graph, 8), batches_of(8, 8)
    tracked, frozen = GraphLearner(model(graph)), GraphLearner(model(graph))
    start = tracked.read()["bn1.running_mean"].copy()
    neurons = NeuronSet.draw(tracked.spec, 0.5, rng.stream(2, rng.NEURONS))
    active = neurons.active["conv1"]
    tracked.fit(data, batches, SGD(0.1), FitOptions(neurons))
    frozen.fit(data, batches, SGD(0.1), FitOptions(neurons, bn_frozen="freeze"))
    assert (tracked.read()["bn1.running_mean"] != start).all()
    moved = np.flatnonzero(frozen.read()["bn1.running_mean"] != start)
    np.testing.assert_array_equal(moved, active)
    np.testing.assert_array_equal(frozen.read()["bn1.running_mean"][active], tracked.read()["bn1.running_mean"][active])


@pytest.mark.parametrize("backend", BACKENDS)
def test_pull_and_linear_add_their_gradients(backend: str) -> None:
    """One step of F + mu/2 |w - c|^2 + <h, w> is the step of F moved by -lr (mu (w - c) + h), on active blocks."""
    graph, lr, mu = GRAPHS["plain"], 0.1, 0.5
    plain, pulled = GraphLearner(model(graph), backend), GraphLearner(model(graph), backend)
    start = {name: value.copy() for name, value in plain.read().items()}
    centre = {name: value * 0.5 for name, value in start.items()}
    linear = {name: np.full_like(value, 0.25) for name, value in start.items()}
    neurons = NeuronSet.draw(plain.spec, 0.5, rng.stream(2, rng.NEURONS))
    data, batches = samples(graph, 4), batches_of(4, 4)
    plain.fit(data, batches, SGD(lr), FitOptions(neurons))
    pulled.fit(data, batches, SGD(lr), FitOptions(neurons, pull=(mu, centre), linear=linear))
    for name, axes in neurons.blocks(plain.spec, kinds=("learn",)).items():
        shift = np.where(oracle.mask(start[name].shape, *axes), lr * (mu * (start[name] - centre[name]) + 0.25), 0)
        np.testing.assert_allclose(pulled.read()[name], plain.read()[name] - shift, atol=2e-6, err_msg=name)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["plain", "groupnorm", "residual", "fan_out"])
def test_layers_above_the_trained_ones_keep_their_bits(backend: str, name: str) -> None:
    """The signal passes through norms and convolutions that are not trained themselves."""
    graph, sgd = GRAPHS[name], SGD(0.1)
    learner = GraphLearner(model(graph), backend)
    before = {parameter: value.copy() for parameter, value in learner.read().items()}
    first = graph.nodes[0].name
    nothing = np.zeros(0, np.int32)
    blocks = {p: (None if p.startswith(f"{first}.") else nothing, None) for p in before if "running" not in p}
    data, batches = samples(graph, 6), batches_of(6, 6)
    expected, _ = oracle.train(graph, before, data, batches, sgd, blocks)
    learner.fit(data, batches, sgd, FitOptions(frozenset({first})))
    for parameter, (rows, _) in blocks.items():
        if rows is not None:
            np.testing.assert_array_equal(learner.read()[parameter], before[parameter], err_msg=parameter)
        bound = 1e-6 * np.abs(expected[parameter]).max()
        np.testing.assert_allclose(learner.read()[parameter], expected[parameter], 0, bound, err_msg=parameter)


def test_with_names_of_layers_the_statistics_of_the_others_stay_where_they_are_frozen() -> None:
    graph = GRAPHS["plain"]
    learner = GraphLearner(model(graph))
    before = {parameter: value.copy() for parameter, value in learner.read().items()}
    learner.fit(
        samples(graph, 8), batches_of(8, 8), SGD(0.1), FitOptions(frozenset({"conv1", "bn1"}), bn_frozen="freeze")
    )
    moved = {name for name, value in learner.read().items() if "running" in name and (value != before[name]).any()}
    assert moved == {"bn1.running_mean", "bn1.running_var"}


def test_a_global_average_of_a_large_map_trains() -> None:
    """The map has more cells than a max pool's window may have, because no position is kept for an average."""
    shape = (2, 17, 16)
    nodes = ("conv", Conv2d(2, 4, (1, 1))), ("mean", GlobalAvgPool()), ("flatten", Flatten()), ("fc", Linear(4, 5))
    graph = chain(shape, *nodes)
    learner = GraphLearner(model(graph))
    data, batches = samples(graph, 4), batches_of(4, 4)
    expected, _ = oracle.train(graph, learner.read(), data, batches, SGD(0.1))
    learner.fit(data, batches, SGD(0.1))
    for name, value in expected.items():
        np.testing.assert_allclose(learner.read()[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("keep", [1.0, 0.5])
def test_neurons_of_another_model_are_refused(keep: float) -> None:
    learner, other = GraphLearner(model(GRAPHS["plain"])), ModelSpec.of(GRAPHS["residual"])
    neurons = NeuronSet.draw(other, keep, rng.stream(2, rng.NEURONS))
    data = samples(GRAPHS["plain"], 4)
    with pytest.raises(SelectionError, match="neurons of another model: 0 in group 'conv1'; expected 6"):
        learner.fit(data, batches_of(4, 4), SGD(0.1), FitOptions(neurons))
    with pytest.raises(SelectionError, match="neurons of another model"):
        learner.gradient(data, batches_of(4, 4)[0], neurons)


def test_velocities_start_at_zero_in_every_fit() -> None:
    graph, sgd = GRAPHS["groupnorm"], SGD(0.1, momentum=0.9)
    data, batches = samples(graph, 4), batches_of(4, 4)
    twice, anew = GraphLearner(model(graph)), GraphLearner(model(graph))
    twice.fit(data, batches, sgd)
    anew.write(twice.read())
    twice.fit(data, batches, sgd)
    anew.fit(data, batches, sgd)
    for name, value in anew.read().items():
        np.testing.assert_array_equal(value, twice.read()[name], err_msg=name)


def test_many_steps_in_one_call_equal_one_call_per_step() -> None:
    graph = GRAPHS["residual"]
    data, batches = samples(graph, 10), batches_of(10, 4, epochs=2)
    together, apart = GraphLearner(model(graph)), GraphLearner(model(graph))
    loss = together.fit(data, batches, SGD(0.1)).loss_sum
    assert sum(apart.fit(data, [batch], SGD(0.1)).loss_sum for batch in batches) == pytest.approx(loss, rel=1e-12)
    for name, value in together.read().items():
        np.testing.assert_array_equal(value, apart.read()[name], err_msg=name)


def test_byte_samples_are_scaled_and_shifted() -> None:
    graph = GRAPHS["plain"]
    pixels = np.random.default_rng(0).integers(0, 256, (6, 3, 8, 8)).astype(np.uint8)
    floats = samples(graph, 6)
    raw = type(floats)(pixels, floats.y, 2 / 255, -1.0)
    ready = type(floats)(pixels.astype(np.float32) * np.float32(2 / 255) + np.float32(-1.0), floats.y)
    one, two = GraphLearner(model(graph)), GraphLearner(model(graph))
    assert one.evaluate(raw).loss_sum == pytest.approx(two.evaluate(ready).loss_sum, rel=1e-6)
    assert one.fit(raw, batches_of(6, 3), SGD(0.1)).loss_sum == pytest.approx(
        two.fit(ready, batches_of(6, 3), SGD(0.1)).loss_sum, rel=1e-5
    )


def test_a_diverged_loss_is_returned() -> None:
    graph = GRAPHS["mlp"]
    learner = GraphLearner(model(graph))
    result = learner.fit(samples(graph, 8), batches_of(8, 4, epochs=4), SGD(1e20))
    assert not np.isfinite(result.loss_sum)


def test_clipping_measures_trained_blocks_only() -> None:
    """With a clip far below the norm, one step moves the active parameters by exactly lr * clip."""
    graph, sgd = GRAPHS["plain"], SGD(1.0, clip=1e-2)
    learner = GraphLearner(model(graph), "reference", np.float64)
    before = {name: value.copy() for name, value in learner.read().items()}
    neurons = NeuronSet.draw(learner.spec, 0.4, rng.stream(2, rng.NEURONS))
    learner.fit(samples(graph, 4, dtype=np.float64), batches_of(4, 4), sgd, FitOptions(neurons))
    learned = [name for name, spec in learner.spec.params.items() if spec.kind == "learn"]
    moved = sum(float(((learner.read()[name] - before[name]) ** 2).sum()) for name in learned)
    assert moved**0.5 == pytest.approx(1e-2, rel=1e-4)
