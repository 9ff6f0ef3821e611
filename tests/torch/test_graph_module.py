"""to_torch: graphs become torch modules, and from_torch gives the same graph back."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from edgefl import rng
from edgefl.errors import GraphError
from edgefl.models.graph import Graph, Model, Node, architectures
from edgefl.models.graph.operations import Add, AvgPool2d, BatchNorm2d, Conv2d, Flatten, Linear, ReLU
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.submodel import sub_params
from edgefl.torch import from_torch, to_torch
from tests.learning import graphs

INPUTS = {
    "fedspu_speech": (1, 32, 32),
    "digits_cnn": (1, 8, 8),
    "pflego_omniglot": (1, 16, 16),
    "lenet5": (1, 16, 16),
    "resnet18": (3, 8, 8),
}


def fresh(graph: Graph) -> Model:
    """Random parameters with running statistics and norm weights away from 0 and 1."""
    params = graph.init(rng.stream(1, rng.INIT))
    stream = rng.stream(2, rng.INIT)
    for value in params.values():
        if value.min() == value.max():
            value += (stream.uniform(value.size) - 0.2).astype(np.float32)
    return Model(graph, params)


def batch(graph: Graph, size: int = 3) -> torch.Tensor:
    return torch.randn(size, *graph.input_shape, generator=torch.Generator().manual_seed(4))


@pytest.mark.parametrize("name", architectures.PUBLISHED)
def test_built_in_models_survive_the_way_to_torch_and_back(name) -> None:
    model = fresh(architectures.build(name, INPUTS.get(name, (3, 32, 32)), 7))
    module = to_torch(model)
    assert {key for key in module.state_dict() if not key.endswith("num_batches_tracked")} == model.params.keys()
    back = from_torch(module, batch(model.graph, 2))
    assert back.graph == model.graph
    assert all((back.params[key] == value).all() for key, value in model.params.items())
    with torch.no_grad():
        assert module.eval()(batch(model.graph, 2)).shape == (2, 7)


def test_every_operation_by_hand() -> None:
    graph = Graph(
        (1, 2, 4),
        (
            Node("conv", Conv2d(1, 2, (1, 1)), ("input",)),
            Node("bn", BatchNorm2d(2, eps=1.0), ("conv",)),
            Node("relu", ReLU(), ("bn",)),
            Node("sum", Add(), ("relu", "conv")),
            Node("pool", AvgPool2d((2, 2), (2, 2)), ("sum",)),
            Node("flatten", Flatten(), ("pool",)),
            Node("fc", Linear(4, 1), ("flatten",)),
        ),
    )
    params = {
        "conv.weight": np.array([1, -1], np.float32).reshape(2, 1, 1, 1),
        "conv.bias": np.array([0, 1], np.float32),
        "bn.weight": np.array([2, 2], np.float32),
        "bn.bias": np.array([0, 0], np.float32),
        "bn.running_mean": np.array([1, 1], np.float32),
        "bn.running_var": np.array([3, 0], np.float32),
        "fc.weight": np.array([[1, 10, 100, 1000]], np.float32),
        "fc.bias": np.array([0.5], np.float32),
    }
    module = to_torch(Model(graph, params)).eval()
    x = torch.tensor([[[[1.0, 3.0, 0.0, 2.0], [1.0, 3.0, 0.0, 2.0]]]])
    # channel 0 is x + relu(x - 1), channel 1 is (1 - x) + relu(-2 x) = 1 - x as x >= 0, then means of column pairs
    assert module(x).item() == 0.5 + 1 * 3.0 + 10 * 1.5 + 100 * -1.0 + 1000 * 0.0


def test_module_runs_in_training_mode_and_tracks_statistics() -> None:
    graph = Graph((2, 2, 2), (Node("bn", BatchNorm2d(2, momentum=0.5), ("input",)),))
    module = to_torch(Model(graph, graph.init(rng.stream(1, rng.INIT))))
    x = torch.zeros(1, 2, 2, 2)
    x[0, 0, 0, 0] = 4.0
    module(x)
    assert module.state_dict()["bn.running_mean"].tolist() == [0.5, 0.0]
    assert module.state_dict()["bn.running_var"].tolist() == [0.5 + 0.5 * 4.0, 0.5]


def test_names_may_continue_other_names() -> None:
    graph = Graph(
        (3,),
        (
            Node("a.b.c", Linear(3, 4), ("input",)),
            Node("a.b", Linear(4, 5), ("a.b.c",)),
            Node("a.d", Linear(5, 2), ("a.b",)),
        ),
    )
    model = fresh(graph)
    assert to_torch(model).state_dict().keys() == model.params.keys()
    assert from_torch(to_torch(model), batch(graph)).graph == graph


@pytest.mark.parametrize("name", ["training", "forward", "edgefl_graph", "_modules", "fc.weight"])
def test_name_that_no_torch_module_can_have_is_refused(name) -> None:
    graph = Graph((3,), (Node("fc", Linear(3, 4), ("input",)), Node(name, Linear(4, 2), ("fc",))))
    with pytest.raises(GraphError, match=f"node '{name}' cannot be a torch module"):
        to_torch(fresh(graph))


def test_parameters_of_another_graph_are_refused() -> None:
    graph = architectures.build("digits_cnn", (1, 8, 8), 10)
    with pytest.raises(GraphError, match=r"'fc\.bias' is missing"):
        to_torch(Model(graph, {name: value for name, value in fresh(graph).params.items() if name != "fc.bias"}))


MIXED = Graph(  # depthwise with a multiplier, a residual sum, and two Linear layers
    (3, 8, 8),
    (
        Node("stem", Conv2d(3, 6, (3, 3), padding=(1, 1)), ("input",)),
        Node("bn", BatchNorm2d(6), ("stem",)),
        Node("relu", ReLU(), ("bn",)),
        Node("dw", Conv2d(6, 12, (3, 3), padding=(1, 1), groups=6), ("relu",)),
        Node("dw_bn", BatchNorm2d(12), ("dw",)),
        Node("dw_relu", ReLU(), ("dw_bn",)),
        Node("point", Conv2d(12, 6, (1, 1)), ("dw_relu",)),
        Node("point_bn", BatchNorm2d(6), ("point",)),
        Node("sum", Add(), ("point_bn", "relu")),
        Node("relu2", ReLU(), ("sum",)),
        Node("pool", AvgPool2d((2, 2), (2, 2)), ("relu2",)),
        Node("flatten", Flatten(), ("pool",)),
        Node("fc1", Linear(96, 8), ("flatten",)),
        Node("relu3", ReLU(), ("fc1",)),
        Node("fc", Linear(8, 4), ("relu3",)),
    ),
)
ZEROED = {  # after which node the inactive neurons of which group are set to zero, and their multiplicity
    "fedspu_emnist": {"relu1": ("conv1", 1), "relu2": ("conv2", 1)},
    "lenet5": {"relu1": ("conv1", 1), "relu2": ("conv2", 1), "relu3": ("fc1", 1)},
    "mixed": {"relu": ("stem", 1), "dw_relu": ("stem", 2), "point_bn": ("stem", 1), "relu3": ("fc1", 1)},
}
GRAPHS = {
    "fedspu_emnist": architectures.build("fedspu_emnist", (1, 16, 16), 5),
    "lenet5": architectures.build("lenet5", (1, 16, 16), 5),
    "mixed": MIXED,
}


@pytest.mark.parametrize("keep", [0.2, 0.6])
@pytest.mark.parametrize("name", GRAPHS)
def test_dropout_equals_zeroed(name, keep) -> None:
    """A sub-model computes what the full model does with the outputs of the dropped neurons at zero."""
    graph, model = GRAPHS[name], fresh(GRAPHS[name])
    neurons = NeuronSet.draw(ModelSpec.of(graph), keep, rng.stream(6, rng.NEURONS))
    full = to_torch(model).eval()
    for node, (group, repeat) in ZEROED[name].items():
        kept = torch.zeros(neurons.sizes[group])
        kept[torch.tensor(neurons.active[group]).long()] = 1
        mask = kept.repeat_interleave(repeat)
        full.get_submodule(node).register_forward_hook(
            lambda module, inputs, y, mask=mask: y * mask.reshape(-1, *[1] * (y.dim() - 2))
        )
    small = to_torch(Model(graph.sub(neurons), sub_params(graph, model.params, neurons))).eval()
    with torch.no_grad():
        expected, found = full(batch(graph)), small(batch(graph))
    assert torch.allclose(found, expected, rtol=1e-4, atol=1e-5 * expected.abs().max().item())
    assert not torch.allclose(found, to_torch(model).eval()(batch(graph)))


@pytest.mark.parametrize("name", ["transformer", "expressions"])
def test_operations_of_transformers_and_expressions_come_back_as_they_were(name: str) -> None:
    """Also RMSNorm with an offset, a norm of heads, and a step that compares numbers."""
    model = graphs.model(graphs.GRAPHS[name])
    again = from_torch(to_torch(model), batch(model.graph))
    assert again.graph == model.graph
    assert all(np.array_equal(again.params[each], value) for each, value in model.params.items())
