"""Tests of the values that a step of a part of a model keeps for its backward pass, counted by hand,
and of the account of what a learner holds.

The model is an inverted residual of MobileNetV2 on planes of 4 x 4 whose BatchNorms keep their running statistics: 2
channels, expanded to 6, a depthwise convolution, projected to 2, added, averaged, and a Linear layer of 3 outputs.
"""

from __future__ import annotations

import numpy as np
import pytest

from edgefl.learning import SGD, FitOptions, GraphLearner, Samples
from edgefl.learning.lowering.arena_inventory import saved_bytes
from edgefl.learning.lowering.lower import lower
from edgefl.learning.lowering.updates import Terms
from edgefl.learning.memory import TrainingConfiguration, estimate
from edgefl.models.graph import INPUT, Graph, Model, Node
from edgefl.models.graph.operations import Add, BatchNorm2d, Conv2d, Flatten, GlobalAvgPool, Linear, ReLU6
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.trainable_parameters import Trainable, TrainableParameters
from edgefl.rng import INIT, stream

BATCH, FLOAT = 3, 4
NODES = (
    Node("expand", Conv2d(2, 6, (1, 1), bias=False), (INPUT,)),
    Node("bn1", BatchNorm2d(6), ("expand",)),
    Node("relu1", ReLU6(), ("bn1",)),
    Node("depth", Conv2d(6, 6, (3, 3), padding=(1, 1), groups=6, bias=False), ("relu1",)),
    Node("bn2", BatchNorm2d(6), ("depth",)),
    Node("relu2", ReLU6(), ("bn2",)),
    Node("project", Conv2d(6, 2, (1, 1), bias=False), ("relu2",)),
    Node("bn3", BatchNorm2d(2), ("project",)),
    Node("add", Add(), ("bn3", INPUT)),
    Node("mean", GlobalAvgPool(), ("add",)),
    Node("flat", Flatten(), ("mean",)),
    Node("fc", Linear(2, 3), ("flat",)),
)
STATISTICS = frozenset(f"bn{i}.running_{what}" for i in (1, 2, 3) for what in ("mean", "var"))
GRAPH = Graph((2, 4, 4), NODES, STATISTICS)
SPEC = ModelSpec.of(GRAPH)
BITS = BATCH * 6 * 16 // 8  # the bits of a ReLU6: 36 bytes for 6 planes of 16 values in each of 3 examples
LOGITS = FLOAT * BATCH * 3
WIDE, NARROW = FLOAT * BATCH * 6 * 16, FLOAT * BATCH * 2 * 16  # results of 6 and of 2 channels
BIASES = ["bn1.bias", "bn2.bias", "bn3.bias", "fc.bias"]
CASES: dict[str, tuple[Trainable, int]] = {
    "head": (["fc"], FLOAT * BATCH * 2 + LOGITS),  # the inputs of fc
    "biases": (BIASES, 2 * BITS + LOGITS),  # nothing but the bits of the two ReLU6
    "last bias": (["fc.bias"], LOGITS),
    "norms": (["bn1", "bn2", "bn3"], 2 * BITS + 2 * WIDE + NARROW + LOGITS),  # the input of each norm
    "bias of bn2": (["bn2.bias"], BITS + LOGITS),
    "projection": (["project.weight"], WIDE + LOGITS),
    "a column of the projection": (
        TrainableParameters.sliced(SPEC, {"project.weight": (None, [4])}),
        WIDE // 6 + LOGITS,  # one of 6 channels
    ),
    "a row of the projection": (TrainableParameters.sliced(SPEC, {"project.weight": ([1], None)}), WIDE + LOGITS),
    "2 rows of the depthwise convolution": (
        TrainableParameters.sliced(SPEC, {"depth.weight": ([0, 3], None)}),
        WIDE // 3 + BITS + LOGITS,  # 2 of 6 planes, and the ReLU6 above
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_saved_that_nothing_needs(case: str) -> None:
    trainable, expected = CASES[case]
    assert saved_bytes(lower(GRAPH, SPEC, BATCH, trainable, terms=Terms(momentum=True))) == expected


@pytest.mark.parametrize("case", CASES)
def test_a_learner_holds_what_the_account_says(case: str) -> None:
    trainable = CASES[case][0]
    learner = GraphLearner(Model(GRAPH, GRAPH.init(stream(1, INIT))))
    x = np.random.default_rng(0).standard_normal((BATCH, 2, 4, 4)).astype(np.float32)
    data = Samples(x, np.zeros(BATCH, np.int32))
    learner.fit(data, [np.arange(BATCH, dtype=np.int32)], SGD(0.1, momentum=0.9), FitOptions(trainable))
    terms = Terms(momentum=True)
    training = TrainingConfiguration("", GRAPH, BATCH, "full", examples=BATCH, terms=terms, trainable=trainable)
    parts, held = estimate("exact", training).parts, learner.memory()
    assert {name: size for name, size in held.items() if name != "scratch"} == {
        name: size for name, size in parts.items() if name != "scratch"
    }
    chosen = TrainableParameters.of(SPEC, trainable).blocks(SPEC)
    assert held["states"] == FLOAT * sum(part.flat(SPEC.params[name].shape).size for name, part in chosen.items())


def test_only_the_exact_account_knows_names_and_only_for_the_whole_model() -> None:
    training = TrainingConfiguration("", GRAPH, BATCH, "full", trainable=BIASES)
    with pytest.raises(ValueError, match="account=bound with trainable; expected account exact"):
        estimate("bound", training)
    with pytest.raises(ValueError, match="trainable with method=drop; expected method full"):
        TrainingConfiguration("", GRAPH, BATCH, "drop", trainable=BIASES)
