"""Models that people bring, from torch to training, to ONNX and back. Refused models say why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from edgefl import rng
from edgefl.errors import GraphError
from edgefl.learning import SGD, FitOptions, GraphLearner, Samples
from edgefl.learning.batches import Keyed, Listed
from edgefl.learning.losses import CROSS_ENTROPY, Loss
from edgefl.learning.lowering.active_ids import trained_blocks
from edgefl.models.graph import Graph, Model
from edgefl.models.graph.model_files import load, save
from edgefl.models.graph.operations import AnyDropout
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.study.export.onnx_nodes import to_onnx
from edgefl.torch import from_torch
from tests.learning.graphs import targets
from tests.learning.oracle import kept, loss_of, mask

from .zoo import CLASSES, LOSSES, REFUSED, TAKEN, TEXTS, WORDS

STEPS, BATCH, EXAMPLES, KEEP, DRAWS = 10, 4, 9, 0.5, 4
DROPOUT = Keyed(0xFEDC_BA98_7654_3210, 3)
SGD_SETTINGS = SGD(0.05, momentum=0.9)
NATIVE_WITHIN = 2e-4  # of a parameter's largest move in ten steps of float32, or 1e-6 of its largest value, or 1e-7
ONNX_WITHIN = 1e-5


def module_of(name: str) -> torch.nn.Module:
    torch.manual_seed(3)
    return TAKEN[name][0]()


def converted(name: str) -> Model:
    return from_torch(module_of(name), example(TAKEN[name][1], name in TEXTS))


def example(shape: tuple[int, ...], is_text: bool) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return (
        torch.randint(0, WORDS, (2, *shape), generator=generator)
        if is_text
        else torch.randn(2, *shape, generator=generator)
    )


def data(graph: Graph, dtype: type, draw: int = 0, loss: Loss = CROSS_ENTROPY) -> Samples:
    random_stream = np.random.default_rng([7, draw])
    x = random_stream.standard_normal((EXAMPLES, *graph.input_shape)).astype(np.float32)
    if graph.vocabulary is not None:
        x = random_stream.integers(0, graph.vocabulary, x.shape).astype(np.float32)
    y = targets(loss, random_stream, EXAMPLES, CLASSES if loss.has_labels else graph.output_shape[0])
    return Samples(x.astype(dtype), y if loss.has_labels else y.astype(dtype), loss=loss)


def batches() -> Listed:
    draw = np.random.default_rng(8)
    return Listed((draw.permutation(EXAMPLES)[:BATCH].astype(np.int32) for _ in range(STEPS)), DROPOUT)


@contextmanager
def dropping_as_we_do(graph: Graph) -> Iterator[Callable[[int], None]]:
    """Let torch's dropout functions, which its modules call, multiply by the factors of our stream.

    A call of the yielded function begins a step.
    """
    numbers = [at for at, node in enumerate(graph.nodes) if isinstance(node.op, AnyDropout)]
    left: list[tuple[int, Keyed]] = []

    def dropped(input: torch.Tensor, p: float = 0.5, *args: object, **settings: object) -> torch.Tensor:
        if p == 0:
            return input
        number, position = left.pop(0)
        op = graph.nodes[number].op
        assert isinstance(op, AnyDropout)
        return input * torch.tensor(kept(op, number, tuple(input.shape), position), dtype=input.dtype)

    def begin(step: int) -> None:
        assert not left, "a step called dropout less often than the graph has it"
        left.extend((number, DROPOUT._replace(step=DROPOUT.step + step)) for number in numbers)

    functional = torch.nn.functional
    names = ("dropout", "dropout1d", "dropout2d")
    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            patch.setattr(functional, name, dropped)
        yield begin


def trained_by_torch(name: str, samples: Samples, neurons: NeuronSet, spec, graph: Graph) -> dict[str, np.ndarray]:
    """The module itself, in float64: what is frozen gets no gradient."""
    module = module_of(name).double().train()
    with dropping_as_we_do(graph) as begin:
        return _ten_steps(module, samples, neurons, spec, begin, graph.vocabulary is not None)


def _ten_steps(
    module, samples: Samples, neurons: NeuronSet, spec, begin: Callable[[int], None], takes_ids: bool
) -> dict[str, np.ndarray]:
    params = dict(module.named_parameters())
    blocks = trained_blocks(spec, neurons)
    shapes = {key: param.shape for key, param in spec.params.items()}  # without leading ones
    masks = {key: torch.tensor(mask(shapes[key], *blocks[key])).view(value.shape) for key, value in params.items()}
    optimizer = torch.optim.SGD(params.values(), SGD_SETTINGS.lr, SGD_SETTINGS.momentum)
    for step, batch in enumerate(batches()):
        begin(step)
        optimizer.zero_grad()
        x = torch.tensor(samples.x[batch])
        outputs = module(x.long() if takes_ids else x)
        loss_of(samples.loss, outputs, samples.y[batch]).backward()
        for key, value in params.items():
            value.grad *= masks[key]
        optimizer.step()
    return {key: value.numpy().reshape(shapes.get(key, value.shape)) for key, value in module.state_dict().items()}


@pytest.mark.parametrize("name", TAKEN)
def test_ten_steps_equal_torch(name: str) -> None:
    """Where a ReLU depends on the last bits, float32 goes another way. With other data it does not."""
    model, loss = converted(name), LOSSES.get(name, CROSS_ENTROPY)
    far: dict[str, float] = {}
    for draw in range(DRAWS):
        samples, learner = data(model.graph, np.float64, draw, loss), GraphLearner(model, "reference", np.float64)
        neurons = NeuronSet.draw(learner.spec, KEEP, rng.stream(5, rng.NEURONS))
        expected = trained_by_torch(name, samples, neurons, learner.spec, model.graph)
        learner.fit(samples, batches(), SGD_SETTINGS, FitOptions(neurons))
        for key, value in learner.read().items():
            np.testing.assert_allclose(value, expected[key], rtol=1e-9, atol=1e-9, err_msg=key)
        far = far_from(expected, model, data(model.graph, np.float32, draw, loss), neurons)
        if not far:
            return
    raise AssertionError(f"{name} in float32, with each of {DRAWS} draws of data: {far}")


def far_from(expected: dict[str, np.ndarray], model: Model, samples: Samples, neurons: NeuronSet) -> dict[str, float]:
    """The native learner's parameters that end elsewhere, and by how much of what is allowed."""
    native = GraphLearner(model)
    native.fit(samples, batches(), SGD_SETTINGS, FitOptions(neurons))
    ratios = {}
    for key, value in native.read().items():
        moved, size = np.abs(expected[key] - model.params[key]).max(), np.abs(expected[key]).max()
        bound = max(NATIVE_WITHIN * moved, 1e-6 * size, 1e-7)
        ratios[key] = float(np.abs(value - expected[key]).max() / bound)
    return {key: ratio for key, ratio in ratios.items() if ratio > 1}


@pytest.mark.parametrize("name", TAKEN)
def test_onnxruntime_and_a_file_give_the_same_outputs(name: str, tmp_path) -> None:
    model = converted(name)
    x = data(model.graph, np.float32).x
    expected = GraphLearner(model).predict(x)
    content = to_onnx(model)
    onnx.checker.check_model(onnx.load_from_string(content), full_check=True)
    (found,) = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"]).run(["output"], {"input": x})
    assert np.abs(found.reshape(expected.shape) - expected).max() <= ONNX_WITHIN * np.abs(expected).max()
    save(tmp_path / "model.safetensors", model)
    assert (GraphLearner(load(tmp_path / "model.safetensors")).predict(x) == expected).all()


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_named(name: str) -> None:
    make, shape, message = REFUSED[name]
    with pytest.raises(GraphError) as error:
        from_torch(make().eval(), torch.randn(2, *shape))
    assert message in str(error.value)
