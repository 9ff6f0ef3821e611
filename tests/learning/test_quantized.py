"""A learner of a model whose frozen weights are quantized has the bits of the float32 weights that the codes mean."""

from __future__ import annotations

import numpy as np
import pytest

from edgefl import rng
from edgefl.errors import BackendError, MemoryLimitError
from edgefl.learning import SGD, Adam, FitOptions, GraphLearner
from edgefl.learning.lowering import quantized_weights
from edgefl.learning.lowering.lower import lower
from edgefl.learning.memory import TrainingConfiguration, estimate
from edgefl.models import add_adapters, dequantize, quantize_frozen
from edgefl.models.graph import INPUT, Graph, Model, Node, quantization
from edgefl.models.graph.operations import Conv1d, Flatten, Linear, Tanh
from edgefl.models.graph.quantized_array import PRECISIONS, Precision
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from tests.kernels.cuda import standin
from tests.models.adapters.adapted_graphs import GRAPHS, adapted

from .graphs import samples

ROWS = np.arange(6, dtype=np.int32)
BATCHES = [ROWS[:4], ROWS[2:]]


@pytest.fixture(autouse=True)
def small_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Quantize weights of any size, and read the codes of any product over places."""
    monkeypatch.setattr(quantization, "LEAST", 1)
    monkeypatch.setattr(quantized_weights, "MANY", 1)


def quantized(name: str, precision: Precision) -> Model:
    return quantize_frozen(adapted(name), precision)


def trained(learner: GraphLearner, keep: float, backend: str) -> dict[str, np.ndarray]:
    data = samples(learner.graph, len(ROWS), dtype=np.float64 if backend == "float64" else np.float32)
    neurons = NeuronSet.draw(learner.spec, keep, rng.stream(3, rng.NEURONS))
    learner.fit(data, BATCHES, SGD(0.02, momentum=0.8), FitOptions(neurons))
    learner.fit(data, BATCHES, Adam(0.01), FitOptions(neurons))
    return {**learner.read(), "logits": learner.predict(data.x)}


@pytest.mark.parametrize("backend", ["native", "numba", "reference", "float64"])
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", GRAPHS)
def test_steps_and_predictions_have_the_bits_of_the_wide_model(name: str, precision: Precision, backend: str) -> None:
    model = quantized(name, precision)
    where = ("reference", np.float64) if backend == "float64" else (backend,)
    for keep in (1.0, 0.5):
        found, expected = (trained(GraphLearner(each, *where), keep, backend) for each in (model, dequantize(model)))
        assert found.keys() == expected.keys()
        tolerance = {"numba": 1e-5, "float64": 1e-12}.get(backend, 0)  # other products there, in another order
        for parameter, value in found.items():
            np.testing.assert_allclose(value, expected[parameter], tolerance, tolerance, err_msg=parameter)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", GRAPHS)
def test_the_account_is_what_is_held(name: str, precision: Precision) -> None:
    model, data = quantized(name, precision), samples(GRAPHS[name], len(ROWS))
    free = GraphLearner(model)
    free.fit(data, [ROWS], SGD(0.02))
    exact = estimate("exact", TrainingConfiguration(name, model.graph, len(ROWS), examples=len(ROWS)))
    assert {part: size for part, size in free.memory().items() if part != "scratch"} == {
        part: size for part, size in exact.parts.items() if part != "scratch"
    }
    wide = dequantize(model)
    assert free.memory()["params"] < GraphLearner(wide).memory()["params"]
    with pytest.raises(MemoryLimitError, match="a learner needs"):
        GraphLearner(model, limit_bytes=exact.parts["params"] - 1)


def deep() -> Model:
    """Return a chain of frozen layers with adapters, whose results wait for the backward pass."""
    nodes: list[Node] = []
    for number in range(5):
        nodes.append(Node(f"mix{number}", Conv1d(24, 24, 1), (nodes[-1].name if nodes else INPUT,)))
        nodes.append(Node(f"bend{number}", Tanh(), (nodes[-1].name,)))
    graph = Graph((24, 40), (*nodes, Node("flat", Flatten(), (nodes[-1].name,)), Node("fc", Linear(960, 5), ("flat",))))
    return quantize_frozen(add_adapters(Model(graph, graph.init(rng.stream(1, rng.INIT))), rank=2), "int8")


def test_a_limit_changes_no_bit() -> None:
    model, data = deep(), samples(deep().graph, 12)
    free = GraphLearner(model)
    free.fit(data, [np.arange(12, dtype=np.int32)], SGD(0.02))
    exact = estimate("exact", TrainingConfiguration("deep", model.graph, 12, examples=12))
    account = exact.parts
    tight = GraphLearner(model, limit_bytes=exact.total - account["arena"] // 4)
    tight.fit(data, [np.arange(12, dtype=np.int32)], SGD(0.02))
    assert tight.memory()["arena"] <= account["arena"] * 3 // 4
    for parameter, value in tight.read().items():
        np.testing.assert_array_equal(value, free.read()[parameter], err_msg=parameter)


def test_codes_are_shared_by_clones_and_never_written() -> None:
    model = quantized("sentences", "int8")
    learner = GraphLearner(model)
    name = model.graph.quantized[0].name
    twin = learner.clone()
    own, theirs = (each._workspace.store.params[name] for each in (learner, twin))
    assert own is theirs is model.params[name]
    learner.write({name: learner.read()[name]})  # its own values
    with pytest.raises(ValueError, match="is quantized and frozen; expected its own values"):
        learner.write({name: learner.read()[name] + 1})
    np.testing.assert_array_equal(twin.read()[name], np.asarray(model.params[name]))


def test_products_over_places_and_lookups_read_codes() -> None:
    graph = quantized("sentences", "int8").graph
    assert {each.name for each in graph.quantized if each.axis == 1} == {"block.proj.weight"}  # read transposed
    schedule = lower(graph, ModelSpec.of(graph), 6, None)
    calls = [call.op for call in schedule.calls]
    assert {"embedding_stored", "pointwise_grad_input", "pointwise_forward"} <= set(calls)
    widened = [call.args[0].param for call in schedule.calls if call.op == "widen_weight"]
    assert set(widened) == {"mixed.weight", "fc.weight"}  # a window of three cells, and a Linear layer without places


def test_a_gpu_says_what_it_lacks() -> None:
    standin.backend()
    learner = GraphLearner(quantized("pictures", "int8"), "cuda")
    with pytest.raises(BackendError, match="'conv': widen_weight has no CUDA kernel; EDGEFL_KERNELS=native has one"):
        learner.predict(samples(GRAPHS["pictures"], 2).x)
