"""Sparse layers for torch models, against torch's dense ones whose weights are 0 outside the mask."""

from __future__ import annotations

import copy
import io

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from edgefl.models.neurons.density import counts
from edgefl.torch import SparseConv2d, SparseLinear, sparse_autograd, sparse_layers, sparsify

CONVOLUTIONS = [
    (6, 8, 3, {"padding": 1}, (9, 7)),
    (6, 5, (3, 2), {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2), "bias": False}, (9, 7)),
    (4, 20, 3, {"padding": 1}, (4, 4)),
    (8, 4, 1, {"stride": 2}, (6, 6)),
    (3, 7, 5, {}, (8, 12)),
]
DENSITIES = (0.0, 0.3, 1.0)


@pytest.fixture(params=["kernels", "dense"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Yield the way by the sparse kernels, and the way where they are not built."""
    if request.param == "dense":
        monkeypatch.setattr(sparse_layers, "native", lambda: None)
    elif sparse_autograd.native() is None:
        pytest.skip("the native extension was not built")
    else:
        monkeypatch.setattr(sparse_layers, "is_faster", lambda *_: True)
    return str(request.param)


def drawn(shape: torch.Size, density: float) -> Tensor:
    kept = torch.rand(shape, generator=torch.Generator().manual_seed(3)) < density
    if density < 1:
        kept[0] = False  # an output without weights
    return kept


def compare(dense: nn.Module, ours: nn.Module, kept: Tensor, x: Tensor) -> None:
    """Results and all gradients, against autograd in float64 on the dense layer with masked weights."""
    exact, wide = copy.deepcopy(dense).double(), x.detach().double().requires_grad_()
    with torch.no_grad():
        exact.weight.mul_(kept)
    narrow = x.detach().clone().requires_grad_()
    expected, found = exact(wide), ours(narrow)
    output_grad = torch.randn(found.shape, generator=torch.Generator().manual_seed(5))
    (expected * output_grad).sum().backward()
    (found * output_grad).sum().backward()
    pairs = [(found, expected), (narrow.grad, wide.grad), (ours.values.grad, exact.weight.grad[kept])]
    pairs += [(ours.bias.grad, exact.bias.grad)] if ours.bias is not None else []
    for ours_, theirs in pairs:
        torch.testing.assert_close(ours_, theirs.float(), rtol=1e-4, atol=1e-4)


def test_linear_layers_equal_torch() -> None:
    torch.manual_seed(0)
    for density in DENSITIES:
        for shape in ((5, 33), (40, 33), (130, 33), (2, 3, 33)):
            dense = nn.Linear(33, 70, bias=len(shape) == 2)
            kept = drawn(dense.weight.shape, density)
            compare(dense, SparseLinear.from_dense(dense, kept), kept, torch.randn(shape))


def test_convolutions_equal_torch() -> None:
    torch.manual_seed(0)
    for density in DENSITIES:
        for ins, outs, kernel, settings, size in CONVOLUTIONS:
            dense = nn.Conv2d(ins, outs, kernel, **settings)
            kept = drawn(dense.weight.shape, density)
            compare(dense, SparseConv2d.from_dense(dense, kept), kept, torch.randn(5, ins, *size))


def test_layers_run_dense_where_sparse_would_be_slower(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule on shape, batch and density decides. The results are equal."""
    monkeypatch.setattr(sparse_layers, "is_faster", sparse_autograd.is_faster)
    torch.manual_seed(0)
    linear, conv = nn.Linear(256, 256), nn.Conv2d(64, 64, 3, padding=1)
    wide, narrow, images = torch.randn(256, 256), torch.randn(16, 256), torch.randn(16, 64, 8, 8)
    for dense, x, density, is_sparse in (
        (linear, wide, 0.02, True),
        (linear, wide, 0.9, False),
        (linear, narrow, 0.4, True),  # a few examples do not pay for a whole weight
        (conv, images, 0.02, True),
        (conv, images, 0.9, False),
    ):
        kept = torch.rand(dense.weight.shape, generator=torch.Generator().manual_seed(3)) < density
        layer = (SparseLinear if dense is linear else SparseConv2d).from_dense(dense, kept)
        compare(dense, layer, kept, x)
        assert bool(layer._products) == (is_sparse and way == "kernels"), (type(layer), density, len(x))


def test_gradients_by_finite_differences_and_of_gradients() -> None:
    """They are in float64, which goes the dense way. The kernels' own gradients are compared above."""
    torch.manual_seed(0)
    linear = SparseLinear.from_dense(nn.Linear(6, 4), density=0.5).double()
    convolution = SparseConv2d.from_dense(nn.Conv2d(2, 3, 2), density=0.5).double()
    for layer, x in ((linear, torch.randn(3, 6)), (convolution, torch.randn(2, 2, 3, 3))):
        inputs = (x.double().requires_grad_(), layer.values, layer.bias)

        def result(x: Tensor, values: Tensor, bias: Tensor, layer: nn.Module = layer) -> Tensor:
            return torch.func.functional_call(layer, {"values": values, "bias": bias}, x)

        assert torch.autograd.gradcheck(result, inputs)
        assert torch.autograd.gradgradcheck(result, inputs)


def net() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, groups=4), nn.Flatten(), nn.Linear(576, 50),
        nn.ReLU(), nn.Linear(50, 4),
    )  # fmt: skip


def test_a_model_is_converted_by_density() -> None:
    """Every layer keeps its largest weights, as many as ERK says. Grouped convolutions stay as they are."""
    model = net()
    found = sparsify(model, density=0.2)
    shapes = {name: tuple(model.get_submodule(name).weight.shape) for name in ("0", "4", "6")}
    for name, count in counts(shapes, 0.2, "erk").items():
        layer, dense = found.get_submodule(name), model.get_submodule(name)
        if count == dense.weight.numel():
            assert type(layer) is type(dense)
            continue
        assert layer.values.numel() == count
        assert layer.values.abs().min() >= dense.weight[~layer.bits()].abs().max()
        torch.testing.assert_close(layer.to_dense().weight, dense.weight * layer.bits())
    assert type(found[2]) is nn.Conv2d
    assert isinstance(found[4], SparseLinear)
    uniform = sparsify(model, density=0.5, distribution="uniform")
    assert uniform[6].values.numel() == 100
    chosen = sparsify(model, masks={"6": drawn(model[6].weight.shape, 0.3)})
    assert isinstance(chosen[6], SparseLinear)
    assert type(chosen[4]) is nn.Linear


def test_training_moves_the_weights_that_there_are_and_saving_keeps_the_mask() -> None:
    model, x, y = sparsify(net(), density=0.2), torch.randn(8, 3, 8, 8), torch.arange(8) % 4
    start, losses = copy.deepcopy(model), []
    optimiser = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-3)
    for _ in range(12):
        optimiser.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    assert (model[4].values != start[4].values).float().mean() > 0.5
    assert (model[4].to_dense().weight[~start[4].bits()] == 0).all()
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other = sparsify(net().apply(lambda m: m.reset_parameters() if hasattr(m, "reset_parameters") else None), 0.2)
    other(x)  # so that structures of the former mask are there
    assert not torch.equal(other[4].mask, model[4].mask)
    other.load_state_dict(torch.load(file), strict=True)
    torch.testing.assert_close(other(x), model(x))
    torch.testing.assert_close(copy.deepcopy(other)(x), model(x))


def test_what_does_not_fit_is_named() -> None:
    linear, kept = nn.Linear(6, 4), torch.ones(4, 6, dtype=torch.bool)
    with pytest.raises(ValueError, match=r"mask of torch.bool and shape \(6, 4\); expected torch.bool and \(4, 6\)"):
        SparseLinear.from_dense(linear, kept.T)
    with pytest.raises(ValueError, match=r"density=1.5 and no mask; expected a mask, or a density above 0"):
        SparseLinear.from_dense(linear, density=1.5)
    with pytest.raises(ValueError, match=r"density=0.5 and a mask; expected a mask, or a density"):
        SparseLinear.from_dense(linear, kept, density=0.5)
    with pytest.raises(ValueError, match=r"groups=2, padding_mode='zeros', padding=\(0, 0\); expected one group"):
        SparseConv2d.from_dense(nn.Conv2d(4, 4, 3, groups=2), density=0.5)
    with pytest.raises(ValueError, match=r"density=None and no masks; expected a density, or masks"):
        sparsify(net())
    with pytest.raises(ValueError, match=r"mask of module '2'; expected one of 0, 4, 6"):
        sparsify(net(), masks={"2": kept})
    layer, other = SparseLinear.from_dense(linear, density=0.5), SparseLinear.from_dense(linear, kept)
    with pytest.raises(ValueError, match=r"mask with 24 weights; expected 12, as many as values"):
        layer.load_state_dict(other.state_dict())
