"""Evaluations and predictions that multiply int8 codes of activations by int8 codes of weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from edgefl import kernels, load, rng
from edgefl.errors import BackendError, GraphError
from edgefl.learning import SGD, GraphLearner
from edgefl.learning.lowering.lower import Mode, lower
from edgefl.learning.predictor import Predictor
from edgefl.models import quantize_frozen, quantize_model
from edgefl.models.graph import INPUT, Graph, Model, Node, model_files, quantization
from edgefl.models.graph.operations import Conv2d, Flatten, Linear, MaxPool2d, ReLU
from edgefl.models.neurons.model_spec import ModelSpec
from tests.kernels.cuda import standin
from tests.models.adapters.adapted_graphs import adapted

from .graphs import samples

INFERENCE: tuple[Mode, ...] = ("evaluate", "predict")
OTHERS: tuple[Mode, ...] = ("train", "gradient", "features")
ROWS = np.arange(6, dtype=np.int32)
GRAPH = Graph(
    (3, 12, 12),
    (
        Node("first", Conv2d(3, 20, (3, 3), padding=(1, 1)), (INPUT,)),
        Node("bend", ReLU(), ("first",)),
        Node("half", MaxPool2d((2, 2), (2, 2)), ("bend",)),
        Node("second", Conv2d(20, 24, (3, 3), (2, 2), bias=False), ("half",)),
        Node("turn", ReLU(), ("second",)),
        Node("flat", Flatten(), ("turn",)),
        Node("fc", Linear(96, 5), ("flat",)),
    ),
)


@pytest.fixture(autouse=True)
def small_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Quantize weights of any size."""
    monkeypatch.setattr(quantization, "LEAST", 1)


@pytest.fixture
def isas() -> Iterator[list[str]]:
    """Yield the instruction sets that this machine has, and restore the one that is in use."""
    native = kernels.backend("native")
    before = native.isa()
    yield [isa for isa in kernels.ISAS if native.has_isa(isa)]
    native.cap_isa(before)


def model() -> Model:
    return quantize_model(Model(GRAPH, GRAPH.init(rng.stream(1, rng.INIT))))


def calls(mode: Mode, of: Model) -> list[str]:
    graph, cut = of.graph, "pool" if mode == "features" else ""
    schedule = lower(graph, ModelSpec.of(graph), 4, mode=mode, cut=cut, int8_activations=True)
    return [call.op for call in schedule.calls]


def test_evaluations_and_predictions_alone_multiply_codes() -> None:
    for mode in INFERENCE:
        found = calls(mode, model())
        assert found.count("conv2d_int8") == 3
        assert not {"widen_weight", "conv2d_forward", "linear_forward"} & set(found)
    for mode in OTHERS:
        assert "conv2d_int8" not in calls(mode, quantize_frozen(adapted("pictures"), "int8"))


def test_groups_and_bfloat16_and_transposed_weights_are_widened() -> None:
    found = calls("predict", quantize_frozen(adapted("pictures"), "int8"))
    assert (found.count("conv2d_int8"), found.count("widen_weight")) == (3, 1)  # the layer with groups
    assert "conv2d_int8" not in calls("predict", quantize_frozen(adapted("pictures"), "bfloat16"))
    assert calls("predict", quantize_frozen(adapted("sentences"), "int8")).count("conv2d_int8") == 2


def test_predictions_have_the_same_bits_on_every_backend_and_instruction_set(isas: list[str]) -> None:
    x = samples(GRAPH, 6).x
    expected = GraphLearner(model(), "reference", int8_activations=True).predict(x)
    for isa in isas:
        kernels.backend("native").cap_isa(isa)
        found = GraphLearner(model(), "native", int8_activations=True).predict(x)
        np.testing.assert_array_equal(found, expected, err_msg=isa)


def test_predictions_are_near_those_of_float_activations() -> None:
    x = samples(GRAPH, 6).x
    wide, found = GraphLearner(model()).predict(x), GraphLearner(model(), int8_activations=True).predict(x)
    assert 0 < np.abs(found - wide).max() < 0.03 * np.abs(wide).max()


def test_evaluations_round_as_predictions_do() -> None:
    data = samples(GRAPH, 6)
    learner = GraphLearner(model(), int8_activations=True)
    logits = learner.predict(data.x).astype(np.float64)
    expected = np.log(np.exp(logits).sum(1)) - logits[np.arange(6), data.y]
    np.testing.assert_allclose(learner.evaluate(data).loss_sum, expected.sum(), 1e-6)
    assert learner.evaluate(data).loss_sum != GraphLearner(model()).evaluate(data).loss_sum


def test_training_keeps_its_bits() -> None:
    base = quantize_frozen(adapted("pictures"), "int8")
    data = samples(base.graph, len(ROWS))
    found = [GraphLearner(base, int8_activations=each) for each in (True, False)]
    for learner in found:
        learner.fit(data, [ROWS[:4], ROWS[2:]], SGD(0.02))
    first, second = (learner.read() for learner in found)
    for name, value in first.items():
        np.testing.assert_array_equal(value, second[name], err_msg=name)


def test_clones_round_too_and_the_second_copy_of_codes_is_counted() -> None:
    x = samples(GRAPH, 6).x
    learner = GraphLearner(model(), int8_activations=True)
    np.testing.assert_array_equal(learner.clone().predict(x), learner.predict(x))
    turned = 3 * 20 * 9 + 20 * 24 * 9
    assert learner.memory()["params"] == GraphLearner(model()).memory()["params"] + turned


def test_a_limit_leaves_predictions_as_they_are() -> None:
    x = samples(GRAPH, 6).x
    learner = GraphLearner(model(), int8_activations=True, limit_bytes=200_000)
    np.testing.assert_array_equal(learner.predict(x), GraphLearner(model(), int8_activations=True).predict(x))


def test_a_model_without_int8_weights_is_refused() -> None:
    plain = Model(GRAPH, GRAPH.init(rng.stream(1, rng.INIT)))
    for each in (plain, quantize_model(plain, "bfloat16")):
        with pytest.raises(GraphError, match="without int8 weights; expected a model of quantize_model"):
            GraphLearner(each, int8_activations=True)


def test_a_gpu_is_refused() -> None:
    standin.backend()
    with pytest.raises(BackendError, match="int8_activations on CUDA; expected a backend on the processor"):
        GraphLearner(model(), "cuda", int8_activations=True)


def test_a_file_is_read_for_predictions_of_codes(tmp_path) -> None:
    x, path = samples(GRAPH, 6).x, tmp_path / "small.safetensors"
    model_files.save(path, model())
    expected = GraphLearner(model(), int8_activations=True).predict(x)
    for predictor in (load(path, int8_activations=True), Predictor.of(model(), int8_activations=True)):
        np.testing.assert_array_equal(predictor.predict(x), expected)
    assert not np.array_equal(load(path).predict(x), expected)


def test_a_whole_model_is_quantized_without_training() -> None:
    sliced = replace(GRAPH, frozen=frozenset({"fc.bias"}))
    graph = quantize_model(Model(sliced, sliced.init(rng.stream(1, rng.INIT)))).graph
    assert graph.frozen == frozenset(GRAPH.parameters())
    assert {each.name for each in graph.quantized} == {"first.weight", "second.weight", "fc.weight"}
