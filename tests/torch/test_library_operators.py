"""The kernels as torch.library's operators: their own checks, their gradients against torch's, and torch.compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from edgefl.torch import convert, library_operators, native_tensors

pytestmark = pytest.mark.skipif(native_tensors.ops() is None, reason="the native extension was not built")


def drawn(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def free(*shape: int, seed: int = 1) -> Tensor:
    return drawn(*shape, seed=seed).requires_grad_()


CONVOLUTION = (free(2, 4, 5, 6), free(6, 2, 3, 2, seed=2), free(6, seed=3), [2, 1], [1, 0], [1, 2], 2)
BATCH = (free(2, 3, 4, 5), free(3, seed=2), free(3, seed=3), torch.zeros(3), torch.ones(3), 1e-5, 0.1, True, False)
GROUP = (free(2, 4, 4, 5), free(4, seed=2), free(4, seed=3), 2, 1e-5, True)
POOL = (free(2, 3, 5, 6), [3, 2], [2, 2], [1, 0], True, True)

OPERATORS = {
    "convolution": (torch.ops.edgefl.convolution.default, CONVOLUTION),
    "batch_norm_relu": (torch.ops.edgefl.batch_norm_relu.default, BATCH),
    "group_norm_relu": (torch.ops.edgefl.group_norm_relu.default, GROUP),
    "max_pool": (torch.ops.edgefl.max_pool.default, POOL),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_torchs_own_checks_pass(name) -> None:
    op, arguments = OPERATORS[name]
    checks = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_static")
    assert set(torch.library.opcheck(op, arguments, test_utils=checks).values()) == {"SUCCESS"}


def by_torch_batch(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.relu6(F.batch_norm(x, None, None, weight, bias, True))


CASES: dict[str, tuple[Callable[..., Tensor], Callable[..., Tensor], tuple[Any, ...]]] = {
    "convolution": (
        library_operators.convolution,
        lambda x, weight, bias: F.conv2d(x, weight, bias, (2, 1), (1, 0), (1, 2), 2),
        CONVOLUTION,
    ),
    "batch_norm_relu": (library_operators.batch_norm_relu, by_torch_batch, BATCH),
    "group_norm_relu": (
        library_operators.group_norm_relu,
        lambda x, weight, bias: F.max_pool2d(F.relu(F.group_norm(x, 2, weight, bias)), 2),
        GROUP,
    ),
    "max_pool": (
        library_operators.max_pool,
        lambda x: F.max_pool2d(F.relu(x), (3, 2), (2, 2), (1, 0), ceil_mode=True),
        POOL,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients_are_torchs(name) -> None:
    ours, theirs, arguments = CASES[name]
    inputs = [each for each in arguments if isinstance(each, Tensor) and each.requires_grad]
    y, expected = ours(*arguments), theirs(*inputs)
    torch.testing.assert_close(y, expected, rtol=1e-5, atol=1e-5)
    output_grad = drawn(*y.shape, seed=9)
    found = torch.autograd.grad(y, inputs, output_grad)
    for gradient, exact in zip(found, torch.autograd.grad(expected, inputs, output_grad), strict=True):
        torch.testing.assert_close(gradient, exact, rtol=1e-4, atol=1e-4)


def test_running_statistics_move_as_torchs() -> None:
    mean, var = drawn(3, seed=4), drawn(3, seed=5).abs()
    own = mean.clone(), var.clone()
    library_operators.batch_norm_relu(*BATCH[:3], mean, var, 1e-5, 0.1, False, False)
    F.batch_norm(BATCH[0], *own, *BATCH[1:3], True, 0.1)
    torch.testing.assert_close((mean, var), own)


def test_a_compiled_model_is_one_graph_and_trains_as_the_eager_one() -> None:
    torch.manual_seed(1)
    layers = nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2), nn.ReLU(), nn.MaxPool2d(2)
    )  # fmt: skip
    eager, compiled = convert(layers), convert(layers)
    run = torch.compile(compiled, fullgraph=True, backend="aot_eager")
    x = drawn(2, 1, 10, 10)
    for _ in range(2):
        for model, call in ((eager, eager), (compiled, run)):
            model.zero_grad()
            call(x).sum().backward()
    for ours, theirs in zip(compiled.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-5)
    assert torch.equal(compiled[1].running_mean, eager[1].running_mean)
