"""The operations that a learner says it executed, against counts by hand on a small model, however it is trained."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgefl import rng
from edgefl.kernels import sparse_choice
from edgefl.kernels.table import TABLE
from edgefl.learning import SGD, FitOptions, GraphLearner, Samples
from edgefl.learning.learner import ExecutedFlops
from edgefl.learning.lowering import lower, product_flops
from edgefl.learning.lowering.schedule import KernelCall, Param, Tensor
from edgefl.models.graph import Graph, Model
from edgefl.models.graph.operations import Conv2d, Flatten, Linear, ReLU
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from tests.learning.graphs import chain

SMALL = chain(
    (2, 4, 4),
    ("conv1", Conv2d(2, 4, (3, 3), padding=(1, 1))),
    ("relu1", ReLU()),
    ("conv2", Conv2d(4, 6, (3, 3))),
    ("flatten", Flatten()),
    ("fc", Linear(24, 5)),
)
CONV1, CONV2, FC = 16 * 4 * 2 * 9, 4 * 6 * 4 * 9, 5 * 24  # multiply-accumulates of an example's forward pass
FORWARD = CONV1 + CONV2 + FC
STEP = FORWARD + (CONV2 + FC) + FORWARD  # forward, gradients of activations above conv1, gradients of weights
SAMPLES = Samples(np.ones((7, 2, 4, 4), np.float32), np.zeros(7, np.int32))
PASS = [np.arange(start, min(start + 3, 7), dtype=np.int32) for start in (0, 3, 6)]  # the last batch has one example
ALL = np.arange(7, dtype=np.int32)


def learner(graph: Graph = SMALL, **options: object) -> GraphLearner:
    return GraphLearner(Model(graph, graph.init(rng.stream(1, rng.INIT))), **options)  # type: ignore[arg-type]


def spent(subject: GraphLearner) -> int:
    return subject.work().training


def test_steps_over_everything_are_counted_by_examples_and_nothing_else_is() -> None:
    """The smaller batch at the end, momentum, clipping and the backend change nothing. Evaluation does not count."""
    for options in ({}, {"momentum": 0.9}, {"clip": 1.0}):
        for backend in ("native", "reference"):
            subject = learner(backend=backend)
            subject.fit(SAMPLES, [*PASS, *PASS], SGD(0.1, **options))
            assert subject.work() == ExecutedFlops(2 * 14 * STEP, 0), (options, backend)
            subject.evaluate(SAMPLES)
            subject.predict(SAMPLES.x)
            assert subject.work() == ExecutedFlops(2 * 14 * STEP, 0), (options, backend)


def test_gradients_features_heads_and_smaller_models_count_in_one_sum() -> None:
    """PFLEGO's round has features once, head steps on them, and one joint gradient. A sub-model's steps count, too."""
    subject = learner()
    own = subject.with_head(3)
    features = own.features(SAMPLES, ALL, 4)
    assert spent(subject) == 2 * 7 * (CONV1 + CONV2)
    head = 3 * 24
    own.head().fit(Samples(features, SAMPLES.y), [ALL] * 5, SGD(0.1))
    assert spent(subject) == 2 * 7 * (CONV1 + CONV2 + 5 * 2 * head)  # below a head there is no signal
    own.gradient(SAMPLES, ALL, chunk=4)
    joint = 3 * (FORWARD - FC + head) - CONV1
    assert spent(subject) == 2 * 7 * (CONV1 + CONV2 + 5 * 2 * head + joint) == spent(own)
    smaller = subject.sub(NeuronSet.of(subject.spec, {"conv1": [0, 2], "conv2": [1, 2, 5]}))
    before = spent(subject)
    smaller.fit(SAMPLES, PASS, SGD(0.1))
    parts = 16 * 2 * 2 * 9, 4 * 3 * 2 * 9, 5 * 12
    assert spent(subject) - before == 2 * 7 * (3 * sum(parts) - parts[0])
    assert spent(subject.clone()) == 0


def test_frozen_neurons_leave_out_what_their_gradients_and_output_grads_would_take() -> None:
    """Two of conv1's four channels and three of conv2's six: the forward pass is whole, so is the signal inside."""
    subject = learner()
    subject.fit(SAMPLES, PASS, SGD(0.1), FitOptions(NeuronSet.of(subject.spec, {"conv1": [0, 2], "conv2": [1, 2, 5]})))
    gradients = CONV1 // 2 + CONV2 // 4 + FC // 2
    grad_input_macs = FC + CONV2 // 2  # of conv2's input the channels that conv1's active neurons put out
    assert spent(subject) == 14 * (FORWARD + grad_input_macs + gradients)
    head = learner()
    head.fit(SAMPLES, PASS, SGD(0.1), FitOptions(frozenset({"fc"})))
    assert spent(head) == 14 * (FORWARD + FC)


def test_grouped_convolutions_count_pairs_of_channels_in_one_group() -> None:
    graph = chain((4, 4, 4), ("a", Conv2d(4, 8, (1, 1))), ("b", Conv2d(8, 8, (3, 3), groups=4)), ("f", Flatten()))
    a, b = 16 * 8 * 4, 4 * 8 * 2 * 9
    assert product_flops.flops(lower.lower(graph, ModelSpec.of(graph), 2, mode="gradient")) == 2 * 2 * (2 * a + 3 * b)
    grad_input_call = KernelCall("conv2d_grad_input", _grouped_grad_input(outs=[0, 1, 2, 7], ins=[0, 3, 4]), "b")
    schedule = lower.lower(graph, ModelSpec.of(graph), 2, mode="predict")
    alone = product_flops.flops(replace(schedule, calls=(grad_input_call,)))
    assert alone == 2 * 2 * 4 * 9 * (2 * 1 + 1 * 1)  # in groups 0 and 1, as 4 and 7 are in groups of their own


def _grouped_grad_input(outs: list[int], ins: list[int]) -> tuple[object, ...]:
    ids = [np.array(each, np.int32) for each in (outs, ins)]
    dy, dx = Tensor(0, (2, 8, 2, 2)), Tensor(1, (2, 8, 4, 4))
    return dy, Param("b.weight", (8, 2, 3, 3)), dx, (1, 1), (0, 0), (1, 1), 4, *ids


def test_masked_layers_count_what_they_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """conv2 at 20 of 216 coordinates, fc at 30 of 120: without their zeros where the rule says so, whole where not."""
    bits = {"conv2.weight": np.zeros((6, 4, 3, 3), bool), "fc.weight": np.zeros((5, 24), bool)}
    bits["conv2.weight"].reshape(-1)[:20], bits["fc.weight"].reshape(-1)[:30] = True, True
    for sparse in ((), ("conv2d",), ("conv2d", "linear")):
        monkeypatch.setattr(sparse_choice, "runs_sparse", lambda op, *rest, sparse=sparse: op in sparse)
        subject = learner()
        subject.restrict(Mask.of(subject.spec, bits))
        subject.fit(SAMPLES, PASS, SGD(0.1))
        conv2, fc = 4 * 20 if "conv2d" in sparse else CONV2, 30 if "linear" in sparse else FC
        assert subject.work() == ExecutedFlops(14 * (2 * CONV1 + 3 * conv2 + 3 * fc), 0), sparse
        subject.strongest(SAMPLES, ALL, Mask(bits), {"conv2.weight": 3})
        grad_input_macs = fc  # down to conv2, whose gradient is whole
        assert subject.work().search == 14 * (CONV1 + conv2 + fc + grad_input_macs + CONV2), sparse


def test_every_operation_is_counted_or_is_known_to_multiply_nothing() -> None:
    assert set(product_flops.PRODUCTS) | product_flops.WITHOUT == set(TABLE)
    assert not set(product_flops.PRODUCTS) & product_flops.WITHOUT
    graph = chain((3,), ("fc", Linear(3, 2)))
    schedule = lower.lower(graph, ModelSpec.of(graph), 1, mode="predict")
    odd = KernelCall("fourier_forward", (Tensor(0, (1, 3)), Param("fc.weight", (2, 3))), "fc")
    with pytest.raises(ValueError, match="fourier_forward has no count of its multiply-accumulates; expected one"):
        product_flops.flops(replace(schedule, calls=(*schedule.calls, odd)))
