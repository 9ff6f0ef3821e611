"""Losses: their text, what targets they take, and training, gradients and evaluation of each against torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from edgefl import rng
from edgefl.errors import DataError
from edgefl.learning import SGD, FitOptions, GraphLearner, Samples
from edgefl.learning.losses import L1, MSE, BinaryCrossEntropy, CrossEntropy, Huber, Loss
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.neuron_set import NeuronSet

from . import oracle
from .graphs import CLASSES, GRAPHS, model, samples
from .test_fit import batches_of

WEIGHTS = (0.5, 1.0, 2.0, 3.0, 0.25)
LOSSES = {
    "cross-entropy": CrossEntropy(),
    "cross-entropy:label_smoothing=0.1": CrossEntropy(label_smoothing=0.1),
    "cross-entropy:weight=0.5,1.0,2.0,3.0,0.25:label_smoothing=0.2": CrossEntropy(WEIGHTS, 0.2),
    "bce": BinaryCrossEntropy(),
    "bce:pos_weight=0.5,1.0,2.0,3.0,0.25": BinaryCrossEntropy(WEIGHTS),
    "cross-entropy:ignore_index=9": CrossEntropy(ignore_index=9),
    "mse": MSE(),
    "l1": L1(),
    "huber": Huber(),
    "huber:delta=0.5": Huber(0.5),
}
WRONG = {
    "mae": "loss=mae; expected one of cross-entropy, bce, mse, huber, l1",
    "mse:delta=1": "delta=1; expected each of no setting once",
    "huber:delta=1:delta=2": "delta=2; expected each of delta once",
    "huber:delta=much": "'much'; expected a number",
    "huber:delta=0": "delta=0.0; expected 1e-30 <= delta",
    "huber:delta=nan": "delta=nan; expected",
    "bce:pos_weight=1,-2": "pos_weight has -2.0; expected",
    "cross-entropy:ignore_index=1.5": "'1.5'; expected a whole number",
    "cross-entropy:class_axis=2": "class_axis=2; expected 1, or -1 for the last axis",
    "cross-entropy:weight=0": "weight has 0.0; expected",
    "cross-entropy:label_smoothing=1.5": "label_smoothing=1.5; expected 0 <= label_smoothing <= 1",
}


def test_a_loss_is_text_and_back() -> None:
    for text, loss in LOSSES.items():
        assert str(loss) == text
        assert Loss.parse(text) == loss
    assert Loss.parse("cross-entropy:class_axis=-1") == CrossEntropy(class_axis=-1)
    for text, message in WRONG.items():
        with pytest.raises(ValueError, match=message):
            Loss.parse(text)


def test_targets_that_no_loss_has_are_refused() -> None:
    x, values = np.zeros((3, 2), np.float32), np.zeros((3, 2), np.float32)
    labels, half = np.zeros(3, np.int32), np.full((3, 2), 0.5, np.float32)
    wrong = [
        (values, CrossEntropy(), r"y: float32 of shape \(3, 2\); expected int32 of shape \(3,\) or \(3, \*places\)"),
        (labels, CrossEntropy(ignore_index=0), "y contains 0, the ignore_index of loss=cross-entropy:ignore_index=0"),
        (labels, MSE(), r"y: int32 of shape \(3,\); expected float32 of shape \(3, outputs\) for mse"),
        (values[:2], Huber(), r"y: float32 of shape \(2, 2\)"),
        (half * 3, BinaryCrossEntropy(), r"y goes from 1.5 to 1.5; expected targets from 0 to 1 for bce"),
        (-half, BinaryCrossEntropy(), "y goes from -0.5"),
        (values * np.nan, MSE(), "y contains nan; expected finite targets"),
        (np.float32([[0, 1], [np.inf, 0], [0, 0]]), MSE(), "y contains inf; expected finite targets"),
        (values[:, 0].copy(), MSE(), r"y: float32 of shape \(3,\); expected float32 of shape \(3, outputs\) for mse"),
    ]
    for y, loss, message in wrong:
        with pytest.raises(DataError, match=message):
            Samples(x, y, loss=loss)
    assert len(Samples(x, half, loss=BinaryCrossEntropy())) == 3


def test_losses_of_values_have_no_decisions() -> None:
    assert [loss.decisions(4) for loss in (MSE(), L1(), Huber())] == [0, 0, 0]
    assert [loss.decisions(4) for loss in (CrossEntropy(), BinaryCrossEntropy())] == [1, 4]


def test_targets_or_weights_of_another_number_of_outputs_are_refused() -> None:
    graph = GRAPHS["mlp"]
    learner, x = GraphLearner(model(graph)), np.zeros((2, *graph.input_shape), np.float32)
    targets = np.zeros((2, CLASSES + 1), np.float32)
    wrong = [
        (targets, MSE(), r"targets float32 of shape \(2, 6\); expected float32 of shape \(2, 5\)"),
        (targets[:, :5].copy(), BinaryCrossEntropy((1.0, 2.0)), "2 numbers in pos_weight; expected 5, one per output"),
        (np.zeros(2, np.int32), CrossEntropy((1.0,) * 6), "6 numbers in weight; expected 5"),
    ]
    for y, loss, message in wrong:
        for call in (learner.evaluate, lambda data: learner.fit(data, [np.zeros(1, np.int32)], SGD(0.1))):
            with pytest.raises(DataError, match=message):
                call(Samples(x, y, loss=loss))


@pytest.mark.parametrize("text", LOSSES)
def test_steps_gradients_and_evaluations_equal_torch(text: str) -> None:
    loss, terms, count = LOSSES[text], SGD(0.05, momentum=0.5), 11
    for name, keep in (("plain", 0.5), ("groupnorm", 1.0), ("global_pool_output", 0.5)):
        graph = GRAPHS[name]
        learner = GraphLearner(model(graph), "reference", np.float64)
        data, batches = samples(graph, count, dtype=np.float64, loss=loss), batches_of(count, 4, epochs=2)
        assert_evaluated(learner, data)
        assert_gradient(learner, data)
        neurons = NeuronSet.draw(learner.spec, keep, rng.stream(2, rng.NEURONS))
        blocks = neurons.blocks(learner.spec, kinds=("learn",))
        expected, total = oracle.train(graph, learner.read(), data, batches, terms, blocks)
        result = learner.fit(data, batches, terms, FitOptions(neurons))
        assert result.loss_sum == pytest.approx(total, rel=1e-9), name
        for parameter, value in learner.read().items():
            np.testing.assert_allclose(value, expected[parameter], rtol=1e-8, atol=1e-9, err_msg=parameter)
        native = GraphLearner(model(graph))
        assert native.fit(
            samples(graph, count, loss=loss), batches, terms, FitOptions(neurons)
        ).loss_sum == pytest.approx(total, rel=1e-5)
        for parameter, value in native.read().items():
            np.testing.assert_allclose(value, expected[parameter], rtol=1e-4, atol=1e-5, err_msg=parameter)


def assert_evaluated(learner: GraphLearner, data: Samples) -> None:
    """Require the mean loss of all samples and the share of right decisions, in one pass and in chunks."""
    outputs = torch.tensor(learner.predict(data.x))
    mean = float(oracle.loss_of(data.loss, outputs, data.y))
    for index in (None, np.array([3, 0, 9, 9], np.int32)):
        found = learner.evaluate(data, index)
        rows = np.arange(len(data)) if index is None else index
        mean = float(oracle.loss_of(data.loss, outputs[rows], data.y[rows]))
        assert found.loss_sum / found.examples == pytest.approx(mean, rel=1e-9)
        assert found.accuracy == (None if (right := decided(data, outputs.numpy())) is None else right[rows].mean())


def decided(data: Samples, outputs: np.ndarray) -> np.ndarray | None:
    """Return which decisions are right, or None where no decision is made."""
    if data.loss.has_labels:
        return outputs.argmax(1) == data.y
    return (outputs > 0) == (data.y > 0.5) if data.loss.decisions(1) else None


def assert_gradient(learner: GraphLearner, data: Samples) -> None:
    """Require the gradient of the mean over all samples, in one pass and in three. The graph has no batch norm."""
    if any("running" in name for name in learner.spec.params):
        return
    tensors, index = oracle.to_torch(learner.read()), np.arange(len(data), dtype=np.int32)
    mean = oracle.loss_of(data.loss, oracle.logits(learner.graph, tensors, torch.tensor(data.x), True), data.y)
    mean.backward()
    for chunk in (None, 4):
        found = learner.gradient(data, index, chunk=chunk)
        assert found.loss_sum == pytest.approx(float(mean.detach()) * len(data), rel=1e-9)
        for name, value in found.items():
            np.testing.assert_allclose(value, tensors[name].grad.numpy(), rtol=1e-8, atol=1e-10, err_msg=name)


def test_one_learner_takes_one_loss_after_another_at_a_mask_too() -> None:
    """A session belongs to its loss: the same data shape with another loss is not what was recorded for the first."""
    graph, batches = GRAPHS["mlp"], batches_of(8, 4)
    both = GraphLearner(model(graph))
    bits = np.random.default_rng(1).random(both.spec.params["fc1.weight"].shape) < 0.5
    both.restrict(Mask.of(both.spec, {"fc1.weight": bits}))
    for loss in (MSE(), Huber(0.5), BinaryCrossEntropy(WEIGHTS), CrossEntropy(WEIGHTS), CrossEntropy(WEIGHTS[::-1])):
        alone = GraphLearner(model(graph))
        alone.restrict(Mask.of(both.spec, {"fc1.weight": bits}))
        both.write(alone.read())
        for learner in (both, alone):
            learner.fit(samples(graph, 8, loss=loss), batches, SGD(0.1))
        for name, value in alone.read().items():
            np.testing.assert_array_equal(both.read()[name], value, err_msg=f"{loss} {name}")
        assert (both.read()["fc1.weight"][~bits] == 0).all()
