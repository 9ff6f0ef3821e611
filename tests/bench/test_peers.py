"""PyTorch's paths compute the same thing, so that the fastest of them is a fair peer."""

import pytest
import torch

from bench import peers
from edgefl.models.graph import Model
from edgefl.models.graph.architectures import build
from edgefl.models.graph.operations import Conv2d, Linear, Operation
from edgefl.rng import INIT, stream
from edgefl.torch import to_torch


@pytest.mark.parametrize(
    ("op", "x_shape", "dy_shape"),
    [
        (Conv2d(3, 4, (3, 3), (2, 1), (1, 0)), (2, 3, 7, 6), (2, 4, 4, 4)),
        (Linear(5, 3), (2, 5), (2, 3)),
    ],
)
def test_every_path_of_a_product_gives_what_autograd_gives(op: Operation, x_shape: tuple, dy_shape: tuple) -> None:
    torch.manual_seed(1)
    x = torch.randn(x_shape, requires_grad=True)
    weight = torch.randn(op.parameters()["weight"].shape, requires_grad=True)
    dy = torch.randn(dy_shape)
    if isinstance(op, Conv2d):
        y = torch.nn.functional.conv2d(x, weight, None, op.stride, op.padding)
        calls = peers._conv_products(op, x.detach(), weight.detach(), dy)
    else:
        y = torch.nn.functional.linear(x, weight)
        calls = peers._linear_products(x.detach(), weight.detach(), dy)
    y.backward(dy)
    expected = {"forward": (y.detach(), 0), "grad_input": (x.grad, 0), "grad_weight": (weight.grad, 1)}
    for kind, (value, position) in expected.items():
        assert len(calls[kind]) == 2
        for path, call in calls[kind].items():
            result = call()
            found = result if isinstance(result, torch.Tensor) else result[position]
            assert torch.allclose(found, value, atol=1e-5), (kind, path)


def test_onednn_linear_trains_like_the_module_it_replaces() -> None:
    graph = build("fedspu_cifar", (3, 8, 8), 10)
    model = Model(graph, graph.init(stream(1, INIT)))
    plain, replaced = to_torch(model), to_torch(model)
    peers._use_onednn_linear(replaced)
    assert sum(isinstance(module, peers._OneDnn) for module in replaced.modules()) == 3
    x, y = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(1)), torch.tensor([1, 2, 3, 4])
    for module in (plain, replaced):
        torch.nn.functional.cross_entropy(module(x), y).backward()
    others = dict(replaced.named_parameters())
    for name, parameter in plain.named_parameters():
        assert torch.allclose(parameter.grad, others[name].grad, atol=1e-6), name
