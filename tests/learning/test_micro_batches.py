"""Batches that pass through the model in parts: the step of the whole batch up to rounding, in less memory."""

from __future__ import annotations

import numpy as np
import pytest

from edgefl import rng
from edgefl.errors import TrainingError
from edgefl.learning import SGD, Adam, FitOptions, GraphLearner, Samples
from edgefl.learning.batches import Listed
from edgefl.learning.losses import BinaryCrossEntropy, CrossEntropy, Loss
from edgefl.learning.lowering.updates import Terms
from edgefl.learning.memory import TrainingConfiguration, estimate
from edgefl.learning.optimizers import Optimizer
from edgefl.models.graph import INPUT, Graph, Node
from edgefl.models.graph.auxiliary_outputs import AuxiliaryOutput
from edgefl.models.graph.operations import BatchNorm, Dropout, Embedding, Flatten, Linear
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.torch import TorchLearner
from tests.kernels.cuda import standin

from .graphs import GRAPHS, model, samples
from .test_recompute import DEEP

BATCHES = Listed([np.arange(7, dtype=np.int32), np.arange(7, 14, dtype=np.int32)], 7)
PLAIN = {
    name: graph
    for name, graph in GRAPHS.items()
    if not any(isinstance(node.op, BatchNorm) or node.op.drops for node in graph.nodes)
}
WORDS = Graph((5,), (Node("words", Embedding(11, 6), (INPUT,)), Node("fc", Linear(6, 4), ("words",))))
MIXED = Graph(
    (5,),
    (
        Node("words", Embedding(11, 6), (INPUT,)),
        Node("flat", Flatten(), ("words",)),
        Node("kind", Linear(30, 3), ("flat",)),
        Node("fc", Linear(6, 4), ("words",)),
    ),
    auxiliary=(AuxiliaryOutput("kind", 0.5),),
)
"""A label at each place, and as an auxiliary output one label for the sentence."""
DROPPING = Graph(
    (6,),
    (Node("fc1", Linear(6, 8), (INPUT,)), Node("drop", Dropout(0.5), ("fc1",)), Node("fc2", Linear(8, 5), ("drop",))),
)
OPTIMIZERS = {
    "momentum": lambda most: SGD(0.05, momentum=0.5, weight_decay=0.01, micro_batch=most),
    "plain": lambda most: SGD(0.1, micro_batch=most),
    "clip": lambda most: SGD(0.1, clip=0.5, micro_batch=most),
    "adam": lambda most: Adam(0.01, eps=1e-3, micro_batch=most),
}


def _trained(
    graph: Graph, data: Samples, optimizer: Optimizer, keep: float = 1.0
) -> tuple[float, dict[str, np.ndarray]]:
    learner = GraphLearner(model(graph), "reference", np.float64)
    neurons = NeuronSet.draw(learner.spec, keep, rng.stream(3, rng.NEURONS)) if keep < 1 else None
    found = learner.fit(data, BATCHES, optimizer, FitOptions(neurons))
    return found.loss_sum, dict(learner.read())


@pytest.mark.parametrize(
    ("name", "optimizer"), [*((name, "momentum") for name in PLAIN), *(("groupnorm", each) for each in OPTIMIZERS)]
)
def test_parts_take_the_step_of_the_whole_batch(name: str, optimizer: str) -> None:
    graph, make = PLAIN[name], OPTIMIZERS[optimizer]
    data = samples(graph, 14, dtype=np.float64)
    for keep, most in ((1.0, 3), (0.5, 1)):
        loss, whole = _trained(graph, data, make(0), keep)
        found_loss, found = _trained(graph, data, make(most), keep)
        assert found_loss == pytest.approx(loss, rel=1e-12)
        for parameter, value in whole.items():
            np.testing.assert_allclose(found[parameter], value, rtol=1e-9, atol=1e-10, err_msg=parameter)


@pytest.mark.parametrize(
    ("graph", "loss"),
    [
        (WORDS, CrossEntropy(ignore_index=2)),
        (PLAIN["mlp"], CrossEntropy(label_smoothing=0.1)),
        (PLAIN["mlp"], BinaryCrossEntropy(pos_weight=(2.0, 1.0, 0.5, 3.0, 1.0))),
        (MIXED, CrossEntropy()),
    ],
    ids=["places", "smoothed", "decisions", "an auxiliary output of another kind"],
)
def test_other_losses_count_every_example_alike(graph: Graph, loss: Loss) -> None:
    chance = np.random.default_rng(3)
    shape = (14, *graph.output_shape[1:]) if loss.has_labels else (14, *graph.output_shape)
    y = chance.integers(0, 4, shape).astype(np.int32) if loss.has_labels else chance.integers(0, 2, shape).astype(float)
    x = chance.integers(0, 11, (14, 5)) if graph in (WORDS, MIXED) else samples(graph, 14, dtype=np.float64).x
    more = (chance.integers(0, 3, 14).astype(np.int32),) if graph is MIXED else ()
    data = Samples(x.astype(float), y, loss=loss, auxiliary=more)
    _, whole = _trained(graph, data, SGD(0.1))
    _, found = _trained(graph, data, SGD(0.1, micro_batch=3))
    for parameter, value in whole.items():
        np.testing.assert_allclose(found[parameter], value, rtol=1e-9, atol=1e-12, err_msg=parameter)


def test_a_part_larger_than_the_batch_changes_no_bit() -> None:
    data = samples(DEEP, 14)
    found = []
    for most in (0, 7, 100):
        learner = GraphLearner(model(DEEP))
        learner.fit(data, BATCHES, SGD(0.1, micro_batch=most))
        found.append({name: value.tobytes() for name, value in learner.read().items()})
    assert found[0] == found[1] == found[2]


def test_the_account_is_what_is_held_and_falls() -> None:
    held = []
    for most in (0, 4, 2):
        terms = Terms.of(SGD(0.1, micro_batch=most))
        account = estimate("exact", TrainingConfiguration("deep", DEEP, 8, examples=8, terms=terms))
        learner = GraphLearner(model(DEEP), limit_bytes=account.total)
        learner.fit(samples(DEEP, 8), [np.arange(8, dtype=np.int32)], SGD(0.1, micro_batch=most))
        assert learner.memory()["arena"] == account.parts["arena"]
        held.append(account.parts["arena"])
    assert held[0] > 1.5 * held[1] > 1.5 * held[2]


def test_a_limit_and_parts_go_together() -> None:
    data, one = samples(DEEP, 8), [np.arange(8, dtype=np.int32)]
    free = GraphLearner(model(DEEP))
    free.fit(data, one, SGD(0.1, micro_batch=4))
    account = estimate("exact", TrainingConfiguration("deep", DEEP, 8, examples=8, terms=Terms(micro_batch=4)))
    limited = GraphLearner(model(DEEP), limit_bytes=account.total - account.parts["arena"] // 4)
    limited.fit(data, one, SGD(0.1, micro_batch=4))
    assert limited.memory()["arena"] < free.memory()["arena"]
    for name, value in free.read().items():
        np.testing.assert_array_equal(limited.read()[name], value)


def test_parts_read_their_rows_of_every_batch_on_a_device() -> None:
    standin.backend()
    data, found = samples(PLAIN["mlp"], 14), []
    for backend in ("native", "cuda"):
        learner = GraphLearner(model(PLAIN["mlp"]), backend)
        for batches in (BATCHES, [BATCHES[1][::-1].copy()]):
            learner.fit(data, batches, SGD(0.1, micro_batch=3))
        found.append(dict(learner.read()))
    for name, value in found[0].items():
        np.testing.assert_allclose(found[1][name], value, rtol=1e-4, atol=1e-5, err_msg=name)


def test_what_has_no_parts_is_refused() -> None:
    with pytest.raises(ValueError, match="micro_batch=-1; expected a number of examples, or 0 for whole batches"):
        SGD(0.1, micro_batch=-1)
    with pytest.raises(TrainingError, match="micro_batch=2 with dropout or noise; expected a model without"):
        GraphLearner(model(DROPPING)).fit(samples(DROPPING, 14), BATCHES, SGD(0.1, micro_batch=2))
    with pytest.raises(TrainingError, match="micro_batch=2 with a learner of torch; expected 0, whole batches"):
        TorchLearner(model(DROPPING)).fit(samples(DROPPING, 14), BATCHES, SGD(0.1, micro_batch=2))
    data = samples(PLAIN["mlp"], 14)
    weighted = Samples(data.x, data.y, loss=CrossEntropy(weight=(1.0,) * PLAIN["mlp"].output_shape[0]))
    with pytest.raises(TrainingError, match="expected a loss without weights of classes"):
        GraphLearner(model(PLAIN["mlp"])).fit(weighted, BATCHES, SGD(0.1, micro_batch=2))
