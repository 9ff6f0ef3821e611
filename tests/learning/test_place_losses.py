"""Losses of outputs with places, such as tokens and pixels: by hand, and steps, gradients and scores against torch."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from edgefl.errors import DataError
from edgefl.learning import SGD, FitOptions, GraphLearner, Samples
from edgefl.learning.losses import L1, MSE, BinaryCrossEntropy, CrossEntropy, Loss
from edgefl.learning.lowering import chunked_head
from edgefl.learning.lowering.lower import lower
from edgefl.learning.scores import intersection_over_union, mean_iou, perplexity, place_score
from edgefl.models.graph import INPUT, Graph, Model, Node
from edgefl.models.graph.operations import Conv1d, Conv2d, Embedding, Linear, Permute, Reshape, Shape, Sigmoid
from edgefl.models.graph.planar import planar
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.rng import NEURONS, stream
from edgefl.torch import TorchLearner

from . import oracle
from .graphs import model
from .test_fit import batches_of

COUNT, CLASSES, IGNORED = 9, 3, 2
PIXELS = Graph((1, 4, 5), (Node("conv", Conv2d(1, CLASSES, (3, 3), padding=(1, 1)), (INPUT,)),))
TOKENS = Graph(
    (2, 6), (Node("conv", Conv1d(2, 4, 3, padding=1), (INPUT,)), Node("head", Conv1d(4, CLASSES, 1), ("conv",)))
)
TURNED = Graph((2, 6), (*TOKENS.nodes, Node("turn", Permute((1, 0)), ("head",))))
TIED = Graph(
    (6,),
    (
        Node("emb", Embedding(4, 3), (INPUT,)),
        Node("mid", Conv1d(3, 3, 1), ("emb",)),
        Node("head", Linear(3, 4), ("mid",), (("weight", "emb.weight"),)),
    ),
)
TURNED_PIXELS = Graph((1, 4, 5), (*PIXELS.nodes, Node("turn", Permute((1, 2, 0)), ("conv",))))
JOINED = Graph((2, 6), (*TOKENS.nodes, Node("joined", Reshape((6, CLASSES)), ("head",))))
ONE_PLACE = Graph((2, 1), (Node("conv", Conv1d(2, CLASSES, 1), (INPUT,)),))
PROBABILITIES = Graph((1, 4, 5), (*PIXELS.nodes, Node("sigmoid", Sigmoid(), ("conv",))))
WEIGHTS = (0.5, 2.0, 3.0)
LAST = CrossEntropy(ignore_index=IGNORED, class_axis=-1)
CASES: dict[str, tuple[Graph, Loss]] = {
    "a label per pixel": (PIXELS, CrossEntropy()),
    "pixels with weights and smoothing": (PIXELS, CrossEntropy(WEIGHTS, 0.2, IGNORED)),
    "a label per token": (TOKENS, CrossEntropy(ignore_index=IGNORED)),
    "classes last by a Permute": (TURNED, LAST),
    "classes last by a Reshape": (JOINED, LAST),
    "one token": (ONE_PLACE, CrossEntropy()),
    "decisions per pixel": (PIXELS, BinaryCrossEntropy(WEIGHTS)),
    "absolute error of tokens": (TOKENS, L1()),
    "squared error behind a Sigmoid": (PROBABILITIES, MSE()),
}


def data_of(graph: Graph, loss: Loss, dtype: type = np.float64) -> Samples:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((COUNT, *graph.input_shape)).astype(dtype)
    x = np.floor(np.abs(x)).clip(0, 3) if graph is TIED else x
    if loss.has_labels:
        classes, places = loss.split(graph.output_shape)
        return Samples(x, rng.integers(0, classes, (COUNT, *places)).astype(np.int32), loss=loss)
    return Samples(x, rng.random((COUNT, *graph.output_shape)).round(1).astype(dtype), loss=loss)


@pytest.mark.parametrize("case", CASES)
def test_steps_gradients_and_evaluations_equal_torch(case: str) -> None:
    graph, loss = CASES[case]
    data, batches, terms = data_of(graph, loss), batches_of(COUNT, 4, epochs=2), SGD(0.05, momentum=0.5)
    learner, native = GraphLearner(model(graph), "reference", np.float64), GraphLearner(model(graph))
    start = learner.read()
    tensors = oracle.to_torch(start)
    mean = oracle.loss_of(loss, oracle.logits(graph, tensors, torch.tensor(data.x), True), data.y)
    mean.backward()
    found = learner.evaluate(data)
    assert found.loss_sum / COUNT == pytest.approx(float(mean.detach()), rel=1e-9)
    for chunk in (None, 4):
        gradient = learner.gradient(data, np.arange(COUNT, dtype=np.int32), chunk=chunk)
        for name, value in gradient.items():
            np.testing.assert_allclose(
                value.reshape(tensors[name].shape), tensors[name].grad.numpy(), rtol=1e-8, atol=1e-10
            )
    blocks = NeuronSet.full(learner.spec).blocks(learner.spec, kinds=("learn",))
    expected, total = oracle.train(graph, start, data, batches, terms, blocks)
    assert native.fit(data_of(graph, loss, np.float32), batches, terms, FitOptions()).loss_sum == pytest.approx(
        total, rel=1e-5
    )
    for parameter, value in native.read().items():
        np.testing.assert_allclose(value, expected[parameter], rtol=1e-4, atol=1e-5, err_msg=parameter)


FROZEN = replace(TOKENS, frozen=frozenset({"head.weight", "head.bias"}))


@pytest.mark.parametrize(("at_once", "calls_of_5"), [(12, 3), (4, 10)], ids=["of examples", "of places"])
@pytest.mark.parametrize(
    "graph", [TOKENS, TURNED, TIED, FROZEN], ids=["classes first", "classes last", "tied", "frozen"]
)
def test_a_head_in_chunks_trains_like_torch(
    graph: Graph, at_once: int, calls_of_5: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nine examples in batches of 4 and 1 go through the head 2 at a time, or 4 and 2 places of one at a time. The head
    keeps half of its neurons' rows.
    """
    monkeypatch.setattr(chunked_head, "LARGE_BYTES", 0)
    monkeypatch.setattr(chunked_head, "PLACES", at_once)
    monkeypatch.setattr(chunked_head, "FROZEN_PLACES", at_once)
    weight = None if graph is TIED else WEIGHTS
    loss = CrossEntropy(weight, 0.1, IGNORED, -1 if graph is TURNED else 1)
    learner = GraphLearner(model(graph), "reference", np.float64)
    calls = lower(planar(graph), learner.spec, 5, loss=loss).calls
    assert sum(call.op == "place_cross_entropy" for call in calls) == calls_of_5
    data, batches, terms = data_of(graph, loss), batches_of(COUNT, 4, epochs=2), SGD(0.05, momentum=0.5)
    neurons = NeuronSet.draw(learner.spec, 0.5, stream(2, NEURONS))
    blocks = neurons.blocks(learner.spec, kinds=("learn",))
    blocks |= dict.fromkeys(graph.frozen, (np.zeros(0, np.int32), None))
    expected, total = oracle.train(graph, learner.read(), data, batches, terms, blocks)
    assert learner.fit(data, batches, terms, FitOptions(neurons)).loss_sum == pytest.approx(total, rel=1e-9)
    for parameter, value in learner.read().items():
        np.testing.assert_allclose(value, expected[parameter], rtol=1e-8, atol=1e-9, err_msg=parameter)
    found = learner.evaluate(data)
    outputs = torch.tensor(learner.predict(data.x))
    assert found.loss_sum / COUNT == pytest.approx(float(oracle.loss_of(loss, outputs, data.y)), rel=1e-9)


def test_accuracy_is_the_share_of_the_places_that_count() -> None:
    """Zero weights decide for class 0. Of the 6 labels 2 are ignored, and 3 of the other 4 are class 0."""
    graph = Graph((1, 3), (Node("conv", Conv1d(1, 2, 1), (INPUT,)),))
    learner = GraphLearner(model(graph))
    learner.write({name: np.zeros_like(value) for name, value in learner.read().items()})
    y = np.array([[0, 0, -100], [0, 1, -100]], np.int32)
    found = learner.evaluate(Samples(np.ones((2, 1, 3), np.float32), y))
    assert found.accuracy == pytest.approx(0.75, abs=0.1)
    assert found.loss_sum / found.examples == pytest.approx(math.log(2))
    nothing = np.full_like(y, -100)
    none = Samples(np.ones((2, 1, 3), np.float32), nothing)
    before = {name: value.copy() for name, value in learner.read().items()}
    assert learner.fit(none, [np.arange(2, dtype=np.int32)], SGD(1.0)).loss_sum == 0
    assert all((learner.read()[name] == value).all() for name, value in before.items())


@pytest.mark.parametrize("graph", [PIXELS, TURNED_PIXELS])
def test_an_evaluation_of_pixels_has_their_mean_iou(graph: Graph) -> None:
    """The bias decides for class 1 everywhere. A quarter of the pixels that count are class 1, so its share is 1 / 4,
    the share of class 0 is 0, and class 2 does not occur: the mean is 1 / 8.
    """
    learner = GraphLearner(model(graph))
    learner.write({name: np.zeros_like(value) for name, value in learner.read().items()})
    learner.write({"conv.bias": np.array([0, 1, 0], np.float32)})
    y = np.full((300, 4, 5), -100, np.int32)  # more than one pass has
    y[:, 0, :4] = 0, 0, 0, 1
    loss = CrossEntropy(class_axis=1 if graph is PIXELS else -1)
    samples = Samples(np.ones((300, 1, 4, 5), np.float32), y, loss=loss)
    assert learner.evaluate(samples).mean_iou == pytest.approx(1 / 8)
    assert TorchLearner(Model(graph, learner.read())).evaluate(samples).mean_iou == pytest.approx(1 / 8)
    nothing = Samples(samples.x, np.full_like(y, -100), loss=loss)
    assert learner.evaluate(nothing).mean_iou is None


@pytest.mark.parametrize(
    ("loss", "output", "score"),
    [
        (CrossEntropy(), (3,), ""),
        (CrossEntropy(), (3, 1, 1), ""),
        (CrossEntropy(), (3, 6), "perplexity"),
        (CrossEntropy(class_axis=-1), (6, 3), "perplexity"),
        (CrossEntropy(WEIGHTS), (3, 6), ""),
        (CrossEntropy(label_smoothing=0.1), (3, 6), ""),
        (CrossEntropy(WEIGHTS), (3, 4, 5), "mean_iou"),
        (MSE(), (3, 4, 5), ""),
        (BinaryCrossEntropy(), (3, 4, 5), ""),
    ],
)
def test_the_score_of_places_follows_from_the_loss_and_the_outputs(loss: Loss, output: Shape, score: str) -> None:
    assert place_score(loss, output) == score


def test_targets_that_do_not_fit_the_places_are_refused() -> None:
    x, learner = np.zeros((2, *TOKENS.input_shape), np.float32), GraphLearner(model(TOKENS))
    wrong = [
        (np.zeros(2, np.int32), CrossEntropy(), r"int32 of shape \(2,\); expected int32 of shape \(2, 6\) for outputs"),
        (np.full((2, 6), 3, np.int32), CrossEntropy(), "label 3; expected labels below 3"),
        (np.zeros((2, 6), np.float32), MSE(), r"\(2, 6\); expected float32 of shape \(2, 3, 6\) for outputs"),
    ]
    for y, loss, message in wrong:
        with pytest.raises(DataError, match=message):
            learner.evaluate(Samples(x, y, loss=loss))
    with pytest.raises(DataError, match="y contains -1; expected labels >= 0, or -100 for a place that does not count"):
        Samples(x, np.array([[0, -1, -100, 0, 0, 0]] * 2, np.int32))


def test_perplexity_and_intersection_over_union_by_hand() -> None:
    """Class 0 is decided twice and asked for twice, once together: 1 of 3. Class 1: 1 of 3. Nobody has class 2."""
    assert perplexity(math.log(8)) == pytest.approx(8)
    assert perplexity(1e6) == math.inf
    logits = np.array([[[5, 5, 0, 0, 9], [0, 0, 5, 5, 0], [-1, -1, -1, -1, -1]]], np.float32)
    labels = np.array([[0, 1, 1, 0, -100]], np.int32)
    found = intersection_over_union([(logits, labels)])
    assert found[:2] == pytest.approx([1 / 3, 1 / 3])
    assert math.isnan(found[2])
    assert mean_iou([(logits, labels), (logits, labels)]) == pytest.approx(1 / 3)
