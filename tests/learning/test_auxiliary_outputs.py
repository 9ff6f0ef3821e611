"""Auxiliary outputs: training minimises a weighted sum of losses, and evaluations compute the output alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from edgefl import rng
from edgefl.errors import DataError, GraphError
from edgefl.learning import SGD, Adam, FitOptions, GraphLearner, Samples
from edgefl.learning.losses import MSE, CrossEntropy, Loss
from edgefl.learning.lowering.lower import lower
from edgefl.learning.optimizers import Optimizer
from edgefl.models.graph import INPUT, Graph, Model, Node
from edgefl.models.graph.auxiliary_outputs import AuxiliaryOutput
from edgefl.models.graph.cuts import after, cuts
from edgefl.models.graph.heads import with_classes
from edgefl.models.graph.json import dumps, loads
from edgefl.models.graph.operations import BatchNorm2d, Conv2d, Flatten, GlobalAvgPool, Linear, ReLU
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.torch import TorchLearner
from edgefl.torch.graph_module import to_torch

from .graphs import model, samples

ROWS = np.arange(6, dtype=np.int32)
TERMS: dict[str, Optimizer] = {"plain": SGD(0.05), "adam": Adam(0.01, eps=1e-4), "fp16": SGD(0.05, saved="fp16")}


def _exits(other: int = 5) -> Graph:
    """An early exit, a second task with `other` classes on the same features, and the output."""
    nodes = (
        Node("conv", Conv2d(2, 6, (3, 3)), (INPUT,)),
        Node("norm", BatchNorm2d(6), ("conv",)),
        Node("relu", ReLU(), ("norm",)),
        Node("early_mean", GlobalAvgPool(), ("relu",)),
        Node("early_flat", Flatten(), ("early_mean",)),
        Node("early", Linear(6, 5), ("early_flat",)),
        Node("conv2", Conv2d(6, 6, (3, 3)), ("relu",)),
        Node("relu2", ReLU(), ("conv2",)),
        Node("flat", Flatten(), ("relu2",)),
        Node("task", Linear(24, other), ("flat",)),
        Node("fc", Linear(24, 5), ("flat",)),
    )
    return Graph((2, 6, 6), nodes, auxiliary=(AuxiliaryOutput("early", 0.3), AuxiliaryOutput("task", 2.0)))


def _torch_loss(graph: Graph, outputs: tuple[torch.Tensor, ...], targets: list[np.ndarray], loss: Loss) -> torch.Tensor:
    total = torch.zeros((), dtype=torch.float64)
    for output, y, weight in zip(outputs, targets, [1.0, *(each.weight for each in graph.auxiliary)], strict=True):
        if loss.has_labels:
            total = total + weight * functional.cross_entropy(output, torch.tensor(y).long())
        else:
            total = total + weight * functional.mse_loss(output, torch.tensor(y).double())
    return total


def _data(graph: Graph, loss: Loss, own_targets: bool) -> tuple[Samples, list[np.ndarray]]:
    data = samples(graph, len(ROWS), dtype=np.float64, loss=loss)
    more = tuple(samples(graph, len(ROWS), seed, np.float64, graph.shapes[each.result][0], loss).y
                 for seed, each in enumerate(graph.auxiliary, 1)) if own_targets else ()  # fmt: skip
    return replace(data, auxiliary=more), [data.y, *(more or [data.y] * len(graph.auxiliary))]


def test_a_weighted_sum_by_hand() -> None:
    """y = v u for x = 1 and an auxiliary output u, with u = 2, v = 3, target 0 and weight 1/2.

    The loss is 36 + 4 / 2 = 38. The slope of v is 2 * 6 * 2 = 24, and that of u is 2 * 6 * 3 + 2 * 2 / 2 = 38.
    """
    nodes = (Node("u", Linear(1, 1, bias=False), (INPUT,)), Node("v", Linear(1, 1, bias=False), ("u",)))
    graph = Graph((1,), nodes, auxiliary=(AuxiliaryOutput("u", 0.5),))
    params = {"u.weight": np.array([[2]], np.float32), "v.weight": np.array([[3]], np.float32)}
    learner = GraphLearner(Model(graph, params))
    data = Samples(np.ones((1, 1), np.float32), np.zeros((1, 1), np.float32), loss=MSE())
    found = learner.gradient(data, ROWS[:1])
    assert {name: value.tolist() for name, value in found.items()} == {"u.weight": [[38]], "v.weight": [[24]]}
    assert learner.evaluate(data, ROWS[:1]).loss_sum == 36
    assert learner.fit(data, [ROWS[:1]], SGD(0.0)).loss_sum == 38


def test_an_output_that_leads_to_an_auxiliary_output_stays_whole() -> None:
    """y = u and the auxiliary output v u for x = 1, with u = 2, v = 3, targets 0 and weight 1/2.

    The loss is u^2 + (v u)^2 / 2 = 4 + 18, du = 2 u + v (v u) = 4 + 18, and dv = u (v u) = 12.
    """
    nodes = (Node("u", Linear(1, 1, False), (INPUT,)), Node("v", Linear(1, 1, False), ("u",)),
             Node("y", Flatten(), ("u",)))  # fmt: skip
    graph = Graph((1,), nodes, auxiliary=(AuxiliaryOutput("v", 0.5),))
    params = {"u.weight": np.full((1, 1), 2, np.float32), "v.weight": np.full((1, 1), 3, np.float32)}
    data = Samples(np.ones((1, 1), np.float32), np.zeros((1, 1), np.float32), loss=MSE())
    found = GraphLearner(Model(graph, params)).gradient(data, ROWS[:1])
    assert {name: value.tolist() for name, value in found.items()} == {"u.weight": [[22]], "v.weight": [[12]]}
    assert found.loss_sum == 22


@pytest.mark.parametrize("keep", [1.0, 0.4])
@pytest.mark.parametrize(("loss", "own"), [(CrossEntropy(), False), (CrossEntropy(), True), (MSE(), True)])
def test_gradients_are_torchs_in_float64(loss: Loss, own: bool, keep: float) -> None:
    graph = _exits(7 if own else 5)
    given, (data, targets) = model(graph), _data(graph, loss, own)
    learner, twin = GraphLearner(given, "reference", np.float64), to_torch(given).double()
    neurons = NeuronSet.draw(learner.spec, keep, rng.stream(3, rng.NEURONS))
    total = _torch_loss(graph, twin.edgefl_outputs(torch.tensor(data.x)), targets, loss)
    total.backward()
    found = learner.gradient(data, ROWS, neurons)
    assert found.loss_sum == pytest.approx(6 * total.item(), rel=1e-9)
    for name, (rows, cols) in neurons.blocks(learner.spec, kinds=("learn",)).items():
        value = twin.get_parameter(name).grad
        assert value is not None
        expected = value.numpy() if rows is None else value.numpy()[rows]
        expected = expected if cols is None else expected[:, cols]
        np.testing.assert_allclose(found[name], expected, rtol=1e-8, atol=1e-11, err_msg=name)


@pytest.mark.parametrize("backend", ["native", "numba", "reference"])
@pytest.mark.parametrize("terms", TERMS)
def test_steps_are_torchs(terms: str, backend: str) -> None:
    graph, optimizer = _exits(), TERMS[terms]
    given, (data, targets) = model(graph), _data(graph, CrossEntropy(), False)
    data = replace(data, x=data.x.astype(np.float32))
    learner, twin = GraphLearner(given, backend), to_torch(given).double()
    steps = torch.optim.SGD(twin.parameters(), 0.05) if isinstance(optimizer, SGD) else torch.optim.Adam(
        twin.parameters(), 0.01, eps=1e-4)  # fmt: skip
    for _ in range(2):
        steps.zero_grad()
        _torch_loss(graph, twin.edgefl_outputs(torch.tensor(data.x).double()), targets, CrossEntropy()).backward()
        steps.step()
    learner.fit(data, [ROWS, ROWS], optimizer)
    bound = 2e-3 if terms == "fp16" else 2e-5
    for name, value in twin.named_parameters():
        np.testing.assert_allclose(learner.read()[name], value.detach().numpy(), bound, bound, err_msg=name)


def test_an_evaluation_computes_no_auxiliary_output() -> None:
    graph = _exits()
    for mode, expected in (("train", {"early", "task"}), ("evaluate", set()), ("predict", set())):
        nodes = {call.node for call in lower(graph, ModelSpec.of(graph), 2, mode=mode).calls}  # type: ignore[arg-type]
        assert nodes & {"early", "early_mean", "task"} - {"early_mean"} == expected, mode


def test_cuts_heads_and_groups_know_the_outputs() -> None:
    graph = _exits()
    assert loads(dumps(graph)) == graph
    assert cuts(graph) == ("relu",)  # an exit lies before the result flat
    late = replace(graph, auxiliary=(AuxiliaryOutput("task"),), nodes=(*graph.nodes[:3], *graph.nodes[6:]))
    assert cuts(late) == ("relu", "flat")
    assert after(late, "flat").auxiliary == late.auxiliary
    with pytest.raises(GraphError, match="head 'fc' of a graph with the auxiliary outputs early, task"):
        with_classes(graph, 3)
    assert ModelSpec.of(graph).params["early.bias"].rows is None
    with pytest.raises(GraphError, match="auxiliary outputs early, task; expected a GraphLearner"):
        TorchLearner(model(graph))


def test_a_fit_behind_a_cut_trains_the_outputs_after_it() -> None:
    graph = _exits()
    late = replace(graph, auxiliary=(AuxiliaryOutput("task"),), nodes=(*graph.nodes[:3], *graph.nodes[6:]))
    learner, data = GraphLearner(model(late)), samples(late, len(ROWS))
    start = learner.read()["task.weight"].copy()
    learner.fit(data, [ROWS], SGD(0.1), FitOptions(cut="relu"))
    assert (learner.read()["task.weight"] != start).any()
    with pytest.raises(DataError, match="targets of auxiliary outputs with a cut after 'relu'"):
        learner.fit(replace(data, auxiliary=(data.y,)), [ROWS], SGD(0.1), FitOptions(cut="relu"))


@pytest.mark.parametrize(
    ("auxiliary", "message"),
    [
        ((AuxiliaryOutput("fc"),), "auxiliary output 'fc'; expected the name of a node before the last node"),
        ((AuxiliaryOutput("task"),) * 2, "auxiliary output 'task'; expected the name of a node"),
        ((AuxiliaryOutput("task", 0.0),), "weight=0.0; expected a finite float > 0"),
        ((AuxiliaryOutput("task"),), r"results \['early'\] are never used"),
    ],
)
def test_outputs_that_do_not_fit_are_refused(auxiliary: tuple[AuxiliaryOutput, ...], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        replace(_exits(), auxiliary=auxiliary)


def test_targets_that_do_not_fit_are_refused() -> None:
    learner, data = GraphLearner(model(_exits(3))), samples(_exits(3), len(ROWS))
    with pytest.raises(DataError, match="label 4; expected labels below 3"):
        learner.fit(data, [ROWS], SGD(0.1))
    with pytest.raises(DataError, match="targets of 1 auxiliary outputs; expected none, or 2, one for each"):
        learner.fit(replace(data, auxiliary=(data.y,)), [ROWS], SGD(0.1))


def test_predictions_need_no_targets_of_auxiliary_outputs_of_another_shape() -> None:
    """y = planes [1, 2, 2] that are 3 x, and an auxiliary output of two features."""
    nodes = (
        Node("flat", Flatten(), (INPUT,)),
        Node("code", Linear(4, 2), ("flat",)),
        Node("planes", Conv2d(1, 1, (1, 1), bias=False), (INPUT,)),
    )
    made = model(Graph((1, 2, 2), nodes, auxiliary=(AuxiliaryOutput("code", 1.0),)))
    made.params["planes.weight"][...] = 3.0
    x = np.arange(8, dtype=np.float32).reshape(2, 1, 2, 2)
    np.testing.assert_array_equal(GraphLearner(made).predict(x), 3 * x)
