"""Learners restricted to a mask: what exists, what is trained, what may be written, and which coordinates grow."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from edgefl import rng
from edgefl.errors import SelectionError
from edgefl.learning import SGD, AdamW, FitOptions, GraphLearner
from edgefl.learning.optimizers import Optimizer
from edgefl.models.graph import Graph
from edgefl.models.graph.operations import Conv2d, Flatten, GlobalAvgPool, Linear, ReLU
from edgefl.models.neurons.block_index import Flat
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.update import Block, Update
from tests.far_learner import FarLearner

from . import oracle
from .graphs import CLASSES, GRAPHS, chain, model, samples
from .test_fit import TERMS, batches_of

BACKENDS = ("native", "numba", "reference", "cuda")
NAMES = ("plain", "groupnorm", "depthwise", "residual", "mlp", "global_pool_output")


def drawn(graph: Graph, density: float = 0.4, seed: int = 0) -> Mask:
    """Draw a mask of every weight of two axes or more. The first has an empty row, and the weight at a shortcut is
    empty.
    """
    draw, spec = np.random.default_rng(seed), ModelSpec.of(graph)
    wide = [name for name, param in spec.params.items() if len(param.shape) > 1]
    bits = {name: draw.random(spec.params[name].shape) < density for name in wide}
    bits[wide[0]][0] = False
    if "a.conv2.weight" in bits:
        bits["a.conv2.weight"][:] = False
    return Mask.of(spec, bits)


def masked(mask: Mask, params: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The parameters as the mask leaves them."""
    return {name: np.where(mask.bits[name], value, 0) if name in mask.bits else value for name, value in params.items()}


def torch_steps(graph: Graph, mask: Mask, start: Mapping[str, np.ndarray], data, batches, sgd: Optimizer) -> dict:
    """Dense torch in float64, whose gradients and weights are multiplied by the mask in every step."""
    tensors = oracle.to_torch(masked(mask, start))
    learned = {name: value for name, value in tensors.items() if value.requires_grad}
    bits = {name: torch.tensor(value) for name, value in mask.bits.items()}
    optimiser = oracle.optimizer_of(learned.values(), sgd)
    for batch in batches:
        x = torch.tensor(data.x[batch].astype(np.float64))
        optimiser.zero_grad()
        F.cross_entropy(oracle.logits(graph, tensors, x, True), torch.tensor(data.y[batch]).long()).backward()
        for name, value in bits.items():
            learned[name].grad *= value
        if sgd.clip is not None:
            torch.nn.utils.clip_grad_norm_(learned.values(), sgd.clip)
        optimiser.step()
        with torch.no_grad():
            for name, value in bits.items():
                learned[name] *= value
    return {name: value.detach().numpy() for name, value in tensors.items()}


def assert_zero_outside(mask: Mask, params: Mapping[str, np.ndarray]) -> None:
    for name, bits in mask.bits.items():
        outside = np.ascontiguousarray(params[name][~bits])
        assert not outside.view(np.uint8).any(), name  # 0.0 itself, not -0.0


@pytest.mark.parametrize("name", NAMES)
def test_float64_steps_equal_torch_with_masked_weights(name: str) -> None:
    graph = GRAPHS[name]
    mask, data, batches = drawn(graph), samples(graph, 11, dtype=np.float64), batches_of(11, 4, epochs=2)
    for terms in TERMS:
        learner = GraphLearner(model(graph), "reference", np.float64)
        learner.restrict(mask)
        expected = torch_steps(graph, mask, model(graph).params, data, batches, TERMS[terms])
        learner.fit(data, batches, TERMS[terms])
        for parameter, value in learner.read().items():
            note = f"{terms}: {parameter}"
            np.testing.assert_allclose(value, expected[parameter], rtol=1e-8, atol=1e-9, err_msg=note)
        assert_zero_outside(mask, learner.read())


@pytest.mark.parametrize("backend", BACKENDS)
def test_steps_on_every_backend_move_the_mask_alone(backend: str) -> None:
    """Every term of the update is on. A second mask has as many coordinates, and takes over the programs."""
    for name in NAMES:
        graph = GRAPHS[name]
        data, batches = samples(graph, 11), batches_of(11, 4, epochs=2)
        learner, fresh = GraphLearner(model(graph), backend), GraphLearner(model(graph), backend)
        first = drawn(graph)
        second = Mask({key: np.roll(bits.reshape(-1), 1).reshape(bits.shape) for key, bits in first.bits.items()})
        start = masked(first, model(graph).params)
        pull = (0.1, {key: value + 1 for key, value in start.items()})
        linear = {key: value * 0.1 for key, value in start.items()}
        for mask in (first, second):
            learner.restrict(mask)
            learner.fit(data, batches, TERMS["all"], FitOptions(pull=pull, linear=linear))
            assert_zero_outside(mask, learner.read())
        after = learner.read()
        assert all((after[key] != 0)[bits].all() for key, bits in second.bits.items()), name
        fresh.restrict(first)
        fresh.fit(data, batches, TERMS["all"], FitOptions(pull=pull, linear=linear))
        fresh = GraphLearner(type(model(graph))(graph, dict(fresh.read())), backend)
        fresh.restrict(second)
        fresh.fit(data, batches, TERMS["all"], FitOptions(pull=pull, linear=linear))
        for key, value in fresh.read().items():
            np.testing.assert_array_equal(after[key], value, err_msg=f"{name}: {key}")


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_step_equals_autograd_of_the_masked_model(backend: str) -> None:
    for name, terms in itertools.product(NAMES, ("all", "nesterov", "adamw")):
        graph, sgd = GRAPHS[name], TERMS[terms] if terms != "adamw" else AdamW(0.05, (0.9, 0.99), 0.3, 0.1)
        mask, data, batches = drawn(graph), samples(graph, 6), batches_of(6, 6)
        learner = GraphLearner(model(graph), backend)
        learner.restrict(mask)
        expected = torch_steps(graph, mask, model(graph).params, data, batches, sgd)
        learner.fit(data, batches, sgd)
        for key, value in learner.read().items():
            bound = 2e-6 * max(np.abs(expected[key]).max(), 1e-3)
            np.testing.assert_allclose(value, expected[key], 0, bound, err_msg=f"{name}, {terms}: {key}")


def test_a_mask_of_everything_is_none_and_layers_can_be_frozen_beside_one() -> None:
    graph = GRAPHS["plain"]
    whole, dense = GraphLearner(model(graph)), GraphLearner(model(graph))
    whole.restrict(Mask.of(whole.spec, {"conv2.weight": np.ones((8, 6, 3, 3), bool)}))
    data, batches = samples(graph, 8), batches_of(8, 4)
    for learner in (whole, dense):
        learner.fit(data, batches, TERMS["all"])
    for key, value in dense.read().items():
        np.testing.assert_array_equal(whole.read()[key], value, err_msg=key)
    mask = drawn(graph)
    whole.restrict(mask)
    before = {key: value.copy() for key, value in whole.read().items()}
    whole.fit(data, batches, SGD(0.1), FitOptions(frozenset({"conv2"})))
    moved = {key for key, value in whole.read().items() if (value != before[key]).any() and "running" not in key}
    assert moved <= {"conv2.weight", "conv2.bias"}
    assert "conv2.weight" in moved
    assert_zero_outside(mask, whole.read())


@pytest.mark.parametrize("make", [GraphLearner, FarLearner])
def test_what_is_outside_is_not_written_nor_brought_back(make) -> None:
    graph = GRAPHS["plain"]
    learner, mask, start = make(model(graph)), drawn(graph), model(graph).params
    learner.restrict(mask)
    for key, value in masked(mask, start).items():
        np.testing.assert_array_equal(learner.read([key])[key], value, err_msg=key)
    learner.write({key: np.full_like(value, np.nan) for key, value in start.items()})
    assert_zero_outside(mask, learner.read())
    learner.write(GraphLearner(model(graph)).take())
    assert_zero_outside(mask, learner.read())
    name, ids = "conv2.weight", mask.ids["conv2.weight"]
    inside = Update({name: Block((8, 6, 3, 3), Flat(ids, 432), np.arange(ids.size, dtype=np.float32))})
    learner.write(inside)
    assert learner.take(mask, names=[name]) == inside
    with pytest.raises(
        SelectionError, match=r"'conv2.weight' with 1 coordinates outside the mask; expected only coordinates inside"
    ):
        outside = np.flatnonzero(~mask.bits[name])[:1].astype(np.uint32)
        learner.write(Update({name: Block((8, 6, 3, 3), Flat(outside, 432), np.ones(1, np.float32))}))
    twin = learner.clone()
    learner.restrict(None)
    assert (learner.read()[name] == 0).sum() > 432 - ids.size
    learner.write({name: start[name]})
    np.testing.assert_array_equal(learner.read()[name], start[name])
    twin.write({name: start[name]})
    np.testing.assert_array_equal(twin.read()[name], masked(mask, start)[name])


def test_learners_that_share_parameters_keep_to_the_mask() -> None:
    """One head was made before the mask and one after it. The gradient at a mask is the gradient of its coordinates."""
    graph = GRAPHS["mlp"]
    learner, mask = GraphLearner(model(graph)), drawn(graph, 0.5)
    early, other = learner.head(), learner.with_head(3)
    learner.restrict(mask)
    data = samples(graph, 8)
    inputs = samples(early.graph, 8)
    dense = oracle.gradients(graph, learner.read(), data.x, data.y)
    found = learner.gradient(data, batches_of(8, 8)[0])
    for key, bits in mask.bits.items():
        np.testing.assert_allclose(found[key], dense[key][bits], rtol=1e-4, atol=1e-6, err_msg=key)
    for head in (early, learner.head()):
        head.fit(inputs, batches_of(8, 4), TERMS["all"])
        assert_zero_outside(mask, learner.read())
    for body in (other, learner.with_head(4)):
        body.fit(samples(body.graph, 8, classes=3), batches_of(8, 4), TERMS["all"])
        assert_zero_outside(mask, learner.read())
        assert np.count_nonzero(body.read()["fc3.weight"]) > 0.8 * body.read()["fc3.weight"].size  # its own is whole


def test_what_a_mask_does_not_go_with_is_refused() -> None:
    graph = GRAPHS["plain"]
    learner, data = GraphLearner(model(graph)), samples(graph, 4)
    with pytest.raises(SelectionError, match=r"mask of 'bn1.running_mean', a running statistic"):
        learner.restrict(Mask.of(learner.spec, {"bn1.running_mean": np.zeros(6, bool)}))
    with pytest.raises(SelectionError, match=r"bool of shape \(10, 12\); expected bool \(8, 6, 3, 3\)"):
        learner.restrict(Mask({"conv2.weight": np.zeros((10, 12), bool)}))
    neurons = NeuronSet.draw(learner.spec, 0.5, rng.stream(1, rng.NEURONS))
    learner.fit(data, batches_of(4, 4), SGD(0.1), FitOptions(neurons))
    learner.restrict(drawn(graph))
    with pytest.raises(SelectionError, match=r"neurons were chosen for a model with masks of conv1.weight"):
        learner.fit(data, batches_of(4, 4), SGD(0.1), FitOptions(neurons))
    with pytest.raises(SelectionError, match=r"sub of a model with masks of conv1.weight"):
        learner.sub(neurons)


def expected_growth(dense: np.ndarray, bits: np.ndarray, count: int) -> list[int]:
    """Return the expected coordinates by sorting all keys."""
    keys = sorted((-abs(float(dense.flat[i])), i) for i in np.flatnonzero(~bits))
    return sorted(i for _, i in keys[:count])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("make", [GraphLearner, None])
def test_the_strongest_are_those_of_the_dense_gradient(backend: str, make) -> None:
    """The gradient is of the model with the old mask, outside a smaller mask. A dead input gives ties, ordered by
    position.
    """
    for name in ("plain", "groupnorm", "grouped", "residual", "mlp"):
        graph = GRAPHS[name]
        learner = GraphLearner(model(graph), backend) if make else FarLearner(model(graph))
        mask, data, index = drawn(graph), samples(graph, 7), batches_of(7, 7)[0]
        data.x[:, :1] = 0
        learner.restrict(mask)
        before = {key: value.copy() for key, value in learner.read().items()}
        pruned = Mask.of(ModelSpec.of(graph), {key: bits & (np.arange(bits.size).reshape(bits.shape) % 3 > 0)
                                               for key, bits in mask.bits.items()})  # fmt: skip
        twin = GraphLearner(model(graph), backend if make else None)
        twin.write(before)
        dense = twin.gradient(data, index)
        for share in (0.0, 0.1, 1.0):
            counts = {key: int(share * (~bits).sum()) for key, bits in pruned.bits.items()}
            found = learner.strongest(data, index, pruned, counts)
            assert found.keys() == counts.keys()
            for key, bits in pruned.bits.items():
                assert found[key].dtype == np.uint32
                assert found[key].tolist() == expected_growth(dense[key], bits, counts[key]), (name, share, key)
        for key, value in learner.read().items():
            np.testing.assert_array_equal(value, before[key], err_msg=key)


def test_growth_that_cannot_be_is_refused() -> None:
    graph = GRAPHS["plain"]
    learner, data, index = GraphLearner(model(graph)), samples(graph, 4), batches_of(4, 4)[0]
    mask = Mask.of(learner.spec, {"fc1.weight": np.arange(224).reshape(7, 32) > 5})
    with pytest.raises(
        SelectionError,
        match=r"7 coordinates of 'fc1.weight' to grow; expected 0 to 6, the coordinates outside the mask",
    ):
        learner.strongest(data, index, mask, {"fc1.weight": 7})
    with pytest.raises(SelectionError, match=r"1 coordinates of 'conv1.weight' to grow; expected 0 to 0"):
        learner.strongest(data, index, mask, {"conv1.weight": 1})
    with pytest.raises(SelectionError, match=r"coordinates of 'bn1.running_mean' to grow; expected learned parameters"):
        learner.strongest(data, index, mask, {"bn1.running_mean": 0})
    learner.write({"fc2.weight": np.full((5, 7), np.nan)})
    assert learner.strongest(data, index, mask, {"fc1.weight": 2})["fc1.weight"].tolist() == [0, 1]  # NaN, all of them


def test_a_search_by_tiles_stores_no_gradient_whole() -> None:
    """A layer of four tiles: what is found is not smaller than what is not, and the arena has room for tiles only."""
    ops = ("conv", Conv2d(4, 300, (3, 3), padding=(1, 1))), ("mean", GlobalAvgPool()), ("flatten", Flatten())
    graph = chain((4, 4, 4), *ops, ("fc1", Linear(300, 200)), ("relu", ReLU()), ("fc2", Linear(200, CLASSES)))
    learner, data, index = GraphLearner(model(graph)), samples(graph, 5), batches_of(5, 5)[0]
    mask, dense = drawn(graph, 0.5), learner.gradient(data, index)
    counts = {"conv.weight": 1000, "fc1.weight": 3000, "fc2.weight": 20}
    learner.release()
    found = learner.strongest(data, index, mask, counts)
    for name, count in counts.items():
        inside, outside = found[name], np.setdiff1d(np.flatnonzero(~mask.bits[name]), found[name])
        magnitudes = np.abs(dense[name].reshape(-1))
        assert len(inside) == count
        assert not mask.bits[name].reshape(-1)[inside].any()
        assert magnitudes[outside].max() <= magnitudes[inside].min() * (1 + 1e-4), name
    tile = 64 * 300 * 4
    lists = 8 * (3000 + 1500)
    assert tile < learner.memory()["arena"] < tile + lists + 4 * sum(counts.values()) + 4 * 5 * 16 * 300 + 20_000
    assert learner.memory()["arena"] < dense["fc1.weight"].nbytes


def test_what_does_not_exist_stays_zero_where_training_has_diverged() -> None:
    """A gradient that is not a number makes the clip's scale none either."""
    graph = GRAPHS["mlp"]
    for terms in ("plain", "momentum", "clip", "nesterov", "adam", "adamw"):
        learner, mask, data = GraphLearner(model(graph), "native"), drawn(graph), samples(graph, 4)
        learner.restrict(mask)
        data.x[0, 0] = np.nan
        learner.fit(data, batches_of(4, 4, epochs=2), TERMS[terms])
        assert np.isnan(learner.read()["fc3.weight"]).any(), terms
        assert_zero_outside(mask, learner.read())
