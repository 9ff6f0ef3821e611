"""TorchLearner against torch in float64 on random models, against GraphLearner in what else the protocol asks, and over
modules that are no graph.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from edgefl import rng
from edgefl.cli.cli import main
from edgefl.errors import DataError, GraphError, SelectionError, TrainingError
from edgefl.learning import SGD, Adam, FitOptions, GraphLearner, Samples
from edgefl.learning.batches import Keyed, Listed
from edgefl.learning.learner import Learner
from edgefl.models.graph import Graph, Model, Node
from edgefl.models.graph.cuts import cuts
from edgefl.models.graph.operations import BatchNorm2d, Conv2d, Dropout, Flatten, Linear, Tanh
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import AxisSpec, ModelSpec, ParamSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.torch import TorchLearner, from_torch
from tests.learning import fuzz
from tests.learning.random_graphs import trial

SEEDS = (2, 5, 59, 71, 122, 144, 161)  # lines, cut signals, recurrent and attending ones cut, a permuted norm
LAYERS = {
    "conv": Conv2d(2, 6, (3, 3)),
    "bn": BatchNorm2d(6),
    "act": Tanh(),
    "flat": Flatten(),
    "fc1": Linear(54, 8),
    "act1": Tanh(),
    "fc2": Linear(8, 3),
}
GRAPH = Graph(
    (2, 5, 5), tuple(Node(name, op, (s,)) for (name, op), s in zip(LAYERS.items(), ["input", *LAYERS], strict=False))
)
SPEC = ModelSpec.of(GRAPH)
MODEL = Model(GRAPH, GRAPH.init(rng.stream(1, rng.INIT)))
INDEX = np.arange(20, dtype=np.int32)
BATCHES = [INDEX[:8], INDEX[8:16], INDEX[16:]]
NEURONS = NeuronSet.draw(SPEC, 0.5, rng.stream(1, rng.NEURONS))


def samples(shape: tuple[int, ...] = (2, 5, 5)) -> Samples:
    draw = np.random.default_rng(5)
    return Samples(draw.normal(size=(20, *shape)).astype(np.float32), draw.integers(0, 3, 20).astype(np.int32))


def mask(share: float = 0.5) -> Mask:
    draw = np.random.default_rng(6)
    names = ("conv.weight", "fc1.weight")
    return Mask.of(SPEC, {name: draw.random(SPEC.params[name].shape) < share for name in names})


def both() -> tuple[GraphLearner, TorchLearner]:
    return GraphLearner(MODEL), TorchLearner(MODEL)


def assert_alike(found: Learner, expected: Learner) -> None:
    for name, value in expected.read().items():
        np.testing.assert_allclose(found.read()[name], value, rtol=0, atol=2e-6, err_msg=name)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_models_end_where_torch_does_in_float64(seed: int) -> None:
    problem = fuzz.Problem.of(trial(seed), seed, 0)
    expected = problem.solved()
    assert problem.judged(problem.fitted(TorchLearner(problem.model)), expected, problem.rounding(expected)) == ""


@pytest.mark.parametrize("seed", SEEDS)
def test_after_a_cut_they_end_where_torch_does_and_the_rest_stands_still(seed: int) -> None:
    for cut in cuts(trial(seed).graph)[:2]:
        problem = fuzz.Problem.of(trial(seed), seed, 0, cut)
        expected = problem.solved()
        assert problem.judged(problem.fitted(TorchLearner(problem.model)), expected, problem.rounding(expected)) == ""


@pytest.mark.parametrize("seed", SEEDS)
def test_frozen_coordinates_keep_their_bits(seed: int) -> None:
    problem = fuzz.Problem.of(trial(seed), seed, 0)
    spec = ModelSpec.of(problem.model.graph)
    neurons = NeuronSet.draw(spec, 0.4, rng.stream(seed, rng.NEURONS))
    problem = replace(problem, trial=replace(problem.trial, trainable=neurons))
    found = problem.fitted(TorchLearner(problem.model))
    moved = 0
    for name, (rows, cols) in neurons.blocks(spec, kinds=("learn",)).items():
        frozen = ~fuzz.oracle.mask(found[name].shape, rows, cols)
        before = problem.model.params[name]
        np.testing.assert_array_equal(found[name].view(np.uint32)[frozen], before.view(np.uint32)[frozen])
        moved += int((found[name] != before).sum())
    assert moved


@pytest.mark.parametrize("trainable", [None, NEURONS, frozenset({"fc1", "bn"})], ids=["all", "neurons", "layers"])
@pytest.mark.parametrize("chunk", [None, 7])
def test_gradients_are_the_kernels(trainable: object, chunk: int | None) -> None:
    native, found = both()
    expected, mine = (
        each.gradient(samples(), INDEX, trainable, chunk=chunk)  # type: ignore[arg-type]
        for each in (native, found)
    )
    assert mine.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(mine[name], value, rtol=0, atol=1e-6, err_msg=name)
    assert mine.loss_sum == pytest.approx(expected.loss_sum, rel=1e-5)
    assert_alike(found, native)  # statistics are left alone


def test_masked_models_train_and_grow_alike() -> None:
    native, found = both()
    for learner in (native, found):
        learner.restrict(mask())
        learner.write(MODEL.params)
        learner.fit(samples(), BATCHES, SGD(0.1, 0.9, 1e-3, clip=1.0), FitOptions(pull=(0.1, MODEL.params)))
    assert_alike(found, native)
    for name, bits in mask().bits.items():
        assert not found.read()[name][~bits].any()
    block = found.gradient(samples(), INDEX)["fc1.weight"]
    np.testing.assert_allclose(block, native.gradient(samples(), INDEX)["fc1.weight"], rtol=0, atol=1e-6)
    grown = [each.strongest(samples(), INDEX, mask(), {"conv.weight": 5, "fc1.weight": 9}) for each in (native, found)]
    for name in grown[0]:
        np.testing.assert_array_equal(grown[1][name], grown[0][name])
    assert found.work().search > 0
    with pytest.raises(SelectionError, match="neurons were chosen for a model with masks"):
        found.fit(samples(), BATCHES, SGD(0.1), FitOptions(NEURONS))
    with pytest.raises(SelectionError, match="outside the mask"):
        found.write(GraphLearner(MODEL).take(mask(0.9)))
    twin = found.clone()
    twin.restrict(None)
    assert not twin.read()["conv.weight"][~mask().bits["conv.weight"]].any()


def test_heads_share_the_body() -> None:
    native, found = both()
    features = [each.features(samples(), INDEX, 6) for each in (native, found)]
    np.testing.assert_allclose(features[1], features[0], rtol=0, atol=1e-6)
    for learner in (native, found):
        other = learner.with_head(2)
        two = replace(samples(), y=samples().y % 2)
        other.fit(two, BATCHES, Adam(0.01, eps=0.03))
        assert learner.with_head(2) is other
        learner.head().fit(replace(samples(), x=features[0]), BATCHES, SGD(0.1))
    assert_alike(found, native)
    assert_alike(found.with_head(2), native.with_head(2))
    assert found.with_head(2).read()["conv.weight"] is not None
    np.testing.assert_array_equal(found.with_head(2).read()["conv.weight"], found.read()["conv.weight"])
    assert found.memory()["params"] == sum(v.nbytes for v in MODEL.params.values()) + 4 * (2 * 8 + 2)


def test_smaller_models_are_absorbed() -> None:
    native, found = both()
    for learner in (native, found):
        smaller = learner.sub(NEURONS)
        smaller.fit(samples(), BATCHES, SGD(0.1))
        learner.absorb(smaller, NEURONS)
    assert_alike(found, native)


def test_scores_and_logits_are_the_kernels() -> None:
    native, found = both()
    expected, mine = native.evaluate(samples(), INDEX), found.evaluate(samples(), INDEX)
    assert (mine.correct, mine.examples) == (expected.correct, expected.examples)
    assert mine.loss_sum == pytest.approx(expected.loss_sum, rel=1e-5)
    np.testing.assert_allclose(found.predict(samples().x), native.predict(samples().x), rtol=0, atol=1e-6)


def test_executed_products_are_counted() -> None:
    learner = TorchLearner(MODEL)
    learner.fit(samples(), [INDEX] * 2, SGD(0.1))
    macs = GRAPH.macs()
    assert learner.work().training == 2 * 2 * 20 * (3 * sum(macs.values()) - macs["conv"])  # without the input's
    learner.fit(samples(), [INDEX], SGD(0.1), FitOptions(frozenset({"fc2"})))
    assert learner.work().training - 4 * 20 * (3 * sum(macs.values()) - macs["conv"]) == 40 * (
        sum(macs.values()) + macs["fc2"]
    )


def test_a_clone_counts_its_own_products() -> None:
    learner = TorchLearner(MODEL)
    learner.fit(samples(), [INDEX], SGD(0.1))
    before, twin = learner.work(), learner.clone()
    assert twin.work().training == 0
    twin.fit(samples(), [INDEX], SGD(0.1))
    assert twin.work() == before == learner.work()


def test_values_saved_as_halves_move_the_result_a_little() -> None:
    exact, halves = TorchLearner(MODEL), TorchLearner(MODEL)
    exact.fit(samples(), BATCHES, SGD(0.1))
    halves.fit(samples(), BATCHES, SGD(0.1, saved="fp16"))
    difference = np.abs(exact.read()["fc1.weight"] - halves.read()["fc1.weight"]).max()
    assert 0 < difference < 1e-3


class Own(nn.Module):
    """A user's module, of another make than the graph's torch form."""

    def __init__(self, ends_in_softmax: bool = False) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(2, 6, 3), nn.BatchNorm2d(6), nn.Tanh())
        self.drop = nn.Dropout(0.3)
        self.out = nn.Linear(54, 3)
        self.ends_in_softmax = ends_in_softmax

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.out(self.drop(torch.flatten(self.body(x), 1)))
        return functional.softmax(logits, 1) if self.ends_in_softmax else logits


def test_a_users_module_computes_and_drops_as_its_graph() -> None:
    torch.manual_seed(3)
    module = Own()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    model = from_torch(module, torch.zeros(2, 2, 5, 5))
    batches = Listed(BATCHES, Keyed(7))
    learners: list[Learner] = [GraphLearner(model), TorchLearner(model), TorchLearner(model, module)]
    neurons = NeuronSet.draw(ModelSpec.of(model.graph), 0.5, rng.stream(2, rng.NEURONS))
    for learner in learners:
        learner.fit(samples(), batches, SGD(0.1, 0.9), FitOptions(neurons))
        learner.gradient(samples(), INDEX, key=3, chunk=6)
    assert_alike(learners[1], learners[0])
    assert_alike(learners[2], learners[0])
    gradients = [learner.gradient(samples(), INDEX, key=3, chunk=6)["body.0.weight"] for learner in learners]
    np.testing.assert_allclose(gradients[2], gradients[0], rtol=0, atol=1e-6)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    with pytest.raises(TrainingError, match="dropout \\(drop\\) and no key"):
        learners[2].fit(samples(), BATCHES, SGD(0.1))
    with pytest.raises(SelectionError, match="delta=cut in Own"):
        learners[2].fit(samples(), batches, SGD(0.1), FitOptions(neurons, delta="cut"))


class Branching(nn.Module):
    """A module that is not a graph, because its computation depends on data."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.fc1(x))
        logits: Tensor = self.fc2(hidden * 2 if hidden.sum() > 0 else hidden)
        return logits


def by_hand(size: int = 6) -> ModelSpec:
    own = AxisSpec("fc1")
    params = {
        "fc1.weight": ParamSpec((size, 4), "learn", own),
        "fc1.bias": ParamSpec((size,), "learn", own),
        "fc2.weight": ParamSpec((3, size), "learn", None, own),
        "fc2.bias": ParamSpec((3,), "learn"),
    }
    return ModelSpec(params, {"fc1": size}, b"by hand", ("fc2.weight", "fc2.bias"))


def test_a_module_that_is_no_graph_has_neurons_by_hand() -> None:
    module, spec = Branching(), by_hand()
    with pytest.raises(GraphError):
        from_torch(module, torch.zeros(2, 4))
    learner = TorchLearner(module=module, neurons=spec)
    before = {name: value.copy() for name, value in learner.read().items()}
    neurons = NeuronSet.of(spec, {"fc1": [1, 4]})
    learner.fit(samples((4,)), BATCHES, SGD(0.5), FitOptions(neurons))
    changed = {name: np.argwhere(value != before[name]) for name, value in learner.read().items()}
    assert {int(row) for row, _ in changed["fc1.weight"]} == {1, 4}
    assert {int(col) for _, col in changed["fc2.weight"]} == {1, 4}
    sent = learner.take(neurons)
    assert sent.blocks["fc1.weight"].values.shape == (2, 4)
    other = TorchLearner(module=module, neurons=spec)
    other.write(sent)
    np.testing.assert_array_equal(other.read()["fc1.weight"], learner.read()["fc1.weight"])
    assert learner.with_head(2).predict(samples((4,)).x).shape == (20, 2)
    features = learner.features(samples((4,)))
    np.testing.assert_allclose(learner.head().predict(features), learner.predict(samples((4,)).x), atol=1e-6)
    with pytest.raises(GraphError, match="sub-model of Branching, which is not a graph"):
        learner.sub(neurons)
    with pytest.raises(DataError, match="label 3; expected labels below 3"):
        learner.evaluate(replace(samples((4,)), y=np.full(20, 3, np.int32)))


def test_what_does_not_fit_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="neither or both of model= and neurons="):
        TorchLearner()
    with pytest.raises(GraphError, match=r"Branching has no 'conv\.weight'"):
        TorchLearner(MODEL, Branching())
    with pytest.raises(GraphError, match=r"'fc1\.weight' of shape \(6, 4\); expected \(5, 4\)"):
        TorchLearner(module=Branching(), neurons=by_hand(5))
    with pytest.warns(UserWarning, match="left to the loss"):
        model = from_torch(Own(ends_in_softmax=True), torch.zeros(2, 2, 5, 5))
    with pytest.raises(GraphError, match="its output on the example differs"):
        TorchLearner(model, Own(ends_in_softmax=True))
    nodes = [*GRAPH.nodes[:5], Node("drop", Dropout(0.5), ("fc1",)), Node("act1", Tanh(), ("drop",)), GRAPH.nodes[6]]
    dropping = Graph(GRAPH.input_shape, tuple(nodes))
    plain = TorchLearner(MODEL)._module
    with pytest.raises(GraphError, match="dropout 'drop' is not a module of GraphModule"):
        TorchLearner(Model(dropping, MODEL.params), plain)
    learner = TorchLearner(MODEL)
    with pytest.raises(ValueError, match="'nothing' is not a parameter"):
        learner.read(["nothing"])
    with pytest.raises(ValueError, match=r"'fc2.bias' of shape \(2,\); expected \(3,\)"):
        learner.write({"fc1.bias": np.ones(8), "fc2.bias": np.zeros(2)})
    np.testing.assert_array_equal(learner.read()["fc1.bias"], MODEL.params["fc1.bias"])


def test_a_device_with_a_memory_limit_does_not_train_with_torch(capsys: pytest.CaptureFixture[str], tmp_path) -> None:
    np.savez(tmp_path / "share.npz", x=np.zeros((4, 3), np.float32), y=np.zeros(4, np.int64))
    given = ("--server", "127.0.0.1:1", "--state", str(tmp_path / "s"), "--data", str(tmp_path / "share.npz"))
    assert main(["client", *given, "--learner", "torch", "--max-memory", "64MB"]) == 2
    assert "--learner torch with --max-memory" in capsys.readouterr().err


def test_makers_give_learners_of_the_model_they_are_asked_for() -> None:
    module = Own()
    model = from_torch(module, torch.zeros(2, 2, 5, 5))
    other = Model(model.graph, {name: value + 1 for name, value in model.params.items()})
    made = partial(TorchLearner, module=module)(other)
    np.testing.assert_array_equal(made.read()["out.weight"], other.params["out.weight"])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_parameters_may_lie_on_a_gpu() -> None:
    native, found = GraphLearner(MODEL), TorchLearner(MODEL, device="cuda")
    for learner in (native, found):
        learner.fit(
            samples(),
            BATCHES,
            SGD(0.1, 0.9, clip=1.0),
            FitOptions(NEURONS, pull=(0.1, MODEL.params), bn_frozen="freeze"),
        )
        learner.write(GraphLearner(MODEL).take(NEURONS, names=("fc2.weight",)))
        learner.restrict(mask())
        learner.head().fit(replace(samples(), x=learner.features(samples())), BATCHES, Adam(0.01, eps=0.03))
    for name, value in native.read().items():
        np.testing.assert_allclose(found.read()[name], value, rtol=0, atol=1e-3, err_msg=name)
    assert found.evaluate(samples()).examples == native.evaluate(samples()).examples
