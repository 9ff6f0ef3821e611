"""Converted models against torch's own: what they compute, in training loops of torch, and what they stay."""

from __future__ import annotations

import copy
import io
import warnings

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from edgefl.torch import SparseConv2d, convert, native_tensors, plain
from edgefl.torch.conversion import PLAIN, converted
from edgefl.torch.native_block import FollowingReLU, LeadingReLU, NativeBatchNorm2d, NativeMaxPool2d
from edgefl.torch.native_convolution import NativeConv2d
from tests.torch.small_networks import NETWORKS, batch, made

native = pytest.mark.skipif(native_tensors.ops() is None, reason="the native extension was not built")


def steps(model: nn.Module, dtype: torch.dtype = torch.float32, count: int = 3) -> list[float]:
    """Losses of training steps with momentum and weight decay."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3)
    losses = []
    for step in range(count):
        x, y = batch(seed=step, dtype=dtype)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def gradients(model: nn.Module, x: Tensor) -> list[Tensor]:
    """Return the gradients of the input and of all parameters, for a fixed gradient of the output."""
    x = x.clone().requires_grad_()
    out = model(x)
    output_grad = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
    return list(torch.autograd.grad(out, [x, *model.parameters()], output_grad))


def assert_near(found: Tensor, exact: Tensor, factor: float = 2e-5) -> None:
    assert found.shape == exact.shape
    assert (found - exact).abs().max() <= factor * (1 + exact.abs().max())


@pytest.mark.parametrize("name", NETWORKS)
def test_float64_trains_to_the_same_bits_by_torch(name) -> None:
    model = made(name).double()
    ours = convert(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert steps(ours, torch.float64) == steps(model, torch.float64)
    for key, value in model.state_dict().items():
        assert torch.equal(ours.state_dict()[key], value)


@native
@pytest.mark.parametrize("name", NETWORKS)
def test_native_gradients_are_near_those_in_float64(name) -> None:
    exact, ours = made(name).double(), convert(made(name))
    x, _ = batch()
    for found, expected in zip(gradients(ours, x), gradients(exact, x.double()), strict=True):
        assert_near(found, expected, 1e-4)
    for key, value in exact.state_dict().items():
        assert_near(ours.state_dict()[key], value)


@native
@pytest.mark.parametrize("name", NETWORKS)
def test_training_natively_stays_beside_torch(name) -> None:
    model = made(name)
    ours = convert(model)
    assert steps(ours) == pytest.approx(steps(model), rel=1e-3)


@pytest.mark.parametrize("name", NETWORKS)
def test_evaluation_and_what_the_model_is_made_of(name) -> None:
    model = made(name)
    ours = convert(model)
    assert [each for each, _ in ours.named_parameters()] == [each for each, _ in model.named_parameters()]
    assert ours.state_dict().keys() == model.state_dict().keys()
    x, _ = batch()
    with torch.no_grad():
        assert_near(ours.eval()(x), model.eval()(x))
    kinds = [type(each) for each in model.modules()]
    assert [type(each) for each in plain(ours).modules()] == kinds
    assert [type(each) for each in model.modules()] == kinds, "the copy's origin is as it was"


def blocks(model: nn.Module) -> dict[str, list[str]]:
    """The followers of each block by the name of its first module."""
    names = {id(module): name for name, module in model.named_modules()}
    links = {name: getattr(module, "edgefl_link", None) for name, module in converted(model)}
    return {name: [names[id(each)] for each in link.followers] for name, link in links.items() if link}


def test_blocks_that_are_found() -> None:
    assert blocks(convert(made("cifar"))) == {"bn1": ["relu1", "pool1"], "bn2": ["relu2", "pool2"]}
    assert blocks(convert(made("lenet"))) == {"1": ["2"], "4": ["5"]}
    assert blocks(convert(made("branching"))) == {"features.1": ["features.2", "features.3"]}
    assert blocks(convert(made("vgg11")))["1"] == ["2", "3"]
    assert blocks(convert(made("vgg11")))["9"] == ["10"]
    residual = blocks(convert(made("resnet18")))
    assert residual == {"1": ["2"], **{f"{at}.bn1": [f"{at}.relu"] for at in (3, 4, 5, 6)}}
    assert blocks(convert(made("mobilenet")))["3.conv.4"] == ["3.conv.5"]


def test_what_is_not_a_block() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.relu, self.norm2, self.pool = (
                nn.BatchNorm2d(3),
                nn.ReLU(),
                nn.BatchNorm2d(3),
                nn.MaxPool2d(2),
            )

        def forward(self, x: Tensor) -> Tensor:
            y = self.norm(x)
            return self.pool(self.norm2(self.relu(y)) + y)

    indices = nn.Sequential(nn.ReLU(), nn.MaxPool2d(2, return_indices=True))
    norms = nn.Sequential(nn.BatchNorm2d(3, affine=False), nn.ReLU(), nn.GroupNorm(1, 3), nn.ReLU6())
    for model in (Twice(), indices, norms):
        assert blocks(convert(model)) == {}
    assert type(convert(indices)[1]) is nn.MaxPool2d


@native
def test_a_block_is_one_operation_and_keeps_its_input_alone() -> None:
    layers = nn.Sequential(nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2))
    model, (x, _) = convert(layers), batch()
    y = model(x.requires_grad_())
    assert y.grad_fn.name() == "NormReLUBackward"
    (x_kept, *rest) = y.grad_fn.saved_tensors
    assert x_kept is x
    assert sum(each.numel() for each in rest) == 4 * 3
    rectified = convert(nn.Sequential(nn.ReLU(), nn.MaxPool2d(2)))(x)
    codes, bits = rectified.grad_fn.saved_tensors
    assert codes.dtype == torch.uint8
    assert codes.shape == rectified.shape
    assert bits.numel() * 8 == codes.numel()


@native
def test_a_shared_relu_passes_on_what_a_norm_has_rectified() -> None:
    block = convert(made("resnet18"))[4]
    seen: list[Tensor] = []
    block.conv2.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    block(torch.randn(2, 4, 16, 16)).sum().backward()
    assert seen[0].grad_fn.name() == "NormReLUBackward"


@native
def test_hooks_on_a_part_see_its_own_values() -> None:
    layers = nn.Sequential(nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2))
    model, (x, _) = convert(layers), batch()
    whole = model(x)
    seen: list[tuple[Tensor, Tensor]] = []
    handle = model[1].register_forward_hook(lambda module, args, result: seen.append((args[0], result)))
    layers[0].load_state_dict(model[0].state_dict())
    assert_near(model(x), whole)
    ((before, after),) = seen
    assert before.min() < 0
    assert torch.equal(after, before.relu())
    handle.remove()
    model(x)
    assert len(seen) == 1


@native
@pytest.mark.parametrize("shape", [(1, 3, 1, 7), (2, 3, 5, 5), (3, 3, 2, 3)])
def test_planes_without_a_whole_window(shape) -> None:
    """Odd planes lose their last row. Planes of one row have no window, and torch says so."""
    layers = nn.Sequential(nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2))
    model, x = convert(layers), torch.randn(shape, generator=torch.Generator().manual_seed(4))
    if shape[2] == 1:
        with pytest.raises(RuntimeError, match="Output size is too small"):
            model(x)
    else:
        assert_near(model(x), layers(x))


@native
def test_state_dicts_load_both_ways_and_copies_are_apart() -> None:
    model = made("vgg11")
    ours = convert(made("vgg11", seed=5))
    ours.load_state_dict(model.state_dict())
    steps(ours)
    model.load_state_dict(ours.state_dict())
    x, _ = batch()
    assert_near(ours.eval()(x), model.eval()(x))
    other = copy.deepcopy(ours).train()
    stream = io.BytesIO()
    torch.save(ours, stream)
    stream.seek(0)
    loaded = torch.load(stream, weights_only=False)
    assert_near(loaded(x), ours(x), 0)
    assert blocks(loaded) == blocks(ours)
    before = {key: value.clone() for key, value in ours.state_dict().items()}
    steps(other)
    assert all(torch.equal(value, before[key]) for key, value in ours.state_dict().items())


def test_converting_in_place_keeps_parameters_and_their_optimizer() -> None:
    model = made("cifar")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    own = [id(each) for each in model.parameters()]
    assert convert(model, inplace=True) is model
    assert [id(each) for each in model.parameters()] == own
    assert type(model.bn1) is NativeBatchNorm2d
    assert type(model.relu1) is FollowingReLU
    assert type(model.pool1) is NativeMaxPool2d
    before = model.conv1.weight.detach().clone()
    F.cross_entropy(model(batch()[0]), batch()[1]).backward()
    optimizer.step()
    assert not torch.equal(model.conv1.weight, before)


@native
def test_parameters_that_need_no_gradient_get_none() -> None:
    model = convert(made("lenet"))
    model[0].weight.requires_grad_(False)
    F.cross_entropy(model(batch()[0]), batch()[1]).backward()
    assert model[0].weight.grad is None
    assert model[0].bias.grad is not None
    assert type(model[1]) is LeadingReLU


@native
def test_a_gradient_of_gradients_is_torchs() -> None:
    model, (x, _) = made("lenet"), batch()
    ours = convert(model)
    found = []
    for each in (model, ours):
        free = x.clone().requires_grad_()
        (first,) = torch.autograd.grad(each(free).square().sum(), free, create_graph=True)
        found.append(torch.autograd.grad(first.square().sum(), [free, *each.parameters()], allow_unused=True))
    for theirs, our in zip(*found, strict=True):
        assert (theirs is None) == (our is None)
        if theirs is not None:
            assert_near(our, theirs, 1e-4)


@native
@pytest.mark.parametrize("name", ["cifar", "resnet18"])
def test_a_gradient_of_gradients_through_norms(name) -> None:
    found = []
    for model in (made(name), convert(made(name))):
        free = batch()[0].requires_grad_()
        (first,) = torch.autograd.grad(model(free).square().sum(), free, create_graph=True)
        found.append(torch.autograd.grad(first.square().sum(), list(model.parameters()), allow_unused=True))
    for theirs, ours in zip(*found, strict=True):
        if theirs is not None:
            assert_near(ours, theirs, 1e-3)


def test_other_types_go_to_torch_and_that_is_said_once() -> None:
    native_tensors._say.cache_clear()
    model = convert(made("cifar")).double()
    x, _ = batch(dtype=torch.float64)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model(x)
        model(x)
    (warning,) = said
    assert str(warning.message).startswith("converted layers leave torch.float64 on cpu to torch")


@native
def test_transforms_and_autocast_go_to_torch() -> None:
    model = convert(made("lenet"))
    x, _ = batch()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert model(x).dtype == torch.bfloat16
        apart = torch.func.vmap(lambda one: model(one.unsqueeze(0)).squeeze(0))(x)
    assert_near(apart, model(x))


@native
def test_gradcheck_by_the_fallback() -> None:
    model = convert(nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2))).double()
    x = torch.randn(2, 2, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(6)).requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch.autograd.gradcheck(model, (x,))


@native
def test_threads_are_torchs() -> None:
    ops, model = native_tensors.ops(), convert(made("lenet"))
    before, own = ops.threads(), torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        model(batch()[0])
        assert ops.threads() == 3
    finally:
        torch.set_num_threads(own)
        ops.set_threads(before)


@native
def test_inputs_that_do_not_lie_in_order() -> None:
    model, (x, _) = made("lenet"), batch()
    ours = convert(model)
    turned = x.contiguous(memory_format=torch.channels_last)
    assert_near(ours(turned), model(x))
    assert_near(ours(x.transpose(2, 3)), model(x.transpose(2, 3).contiguous()))


def test_a_batch_of_none_and_one_image_alone() -> None:
    model, layer = convert(made("lenet")), convert(nn.Conv2d(3, 4, 3))
    assert model(torch.zeros(0, 3, 16, 16)).shape == (0, 5)
    assert layer(torch.zeros(3, 5, 5)).shape == (4, 3, 3)
    assert type(layer) is NativeConv2d


def test_sparse_layers_join_blocks() -> None:
    model = convert(made("cifar"), density=0.3)
    assert isinstance(model.conv2, SparseConv2d)
    assert blocks(model)["bn2"] == ["relu2", "pool2"]
    first, *_, last = steps(model, count=12)
    assert last < first
    with pytest.raises(ValueError, match="density=2"):
        convert(made("cifar"), density=2)


@native
def test_every_kind_of_module_is_taken_back() -> None:
    kinds = {type(each) for name in NETWORKS for _, each in converted(convert(made(name)))}
    assert kinds == set(PLAIN)


@native
def test_linear_layers_are_torchs_unless_the_kernels_are_faster() -> None:
    small, large = convert(nn.Linear(512, 200)), convert(nn.Linear(1024, 200))
    x = torch.randn(16, 2, 1024, generator=torch.Generator().manual_seed(7))
    assert small(x[:, 0, :512]).grad_fn.name() == "AddmmBackward0"
    y = large(x)
    assert y.shape == (16, 2, 200)
    assert y.grad_fn.next_functions[0][0].name() == "LinearProductBackward"
    assert_near(y, F.linear(x, large.weight, large.bias), 1e-4)
    (gradient,) = torch.autograd.grad(y.square().sum(), large.weight)
    (exact,) = torch.autograd.grad(F.linear(x, large.weight, large.bias).square().sum(), large.weight)
    assert_near(gradient, exact, 1e-4)


@native
def test_small_planes_are_left_to_torch_where_it_is_as_fast() -> None:
    pointwise = convert(nn.Conv2d(4, 6, 1))
    assert pointwise(torch.zeros(2, 4, 4, 4)).grad_fn.name() == "ConvolutionBackward0"
    assert pointwise(torch.zeros(2, 4, 8, 8)).grad_fn.name() == "ConvolutionBackward"
    for norm, least in ((nn.GroupNorm(2, 4), 8), (nn.BatchNorm2d(4), 2)):
        block = convert(nn.Sequential(norm, nn.ReLU()))
        assert block(torch.randn(2, 4, least, least)).grad_fn.name() == "NormReLUBackward"
        assert block(torch.randn(2, 4, least, least - 1)).grad_fn.name() == (
            "ReluBackward0" if least > 2 else "NormReLUBackward"
        )
        assert block(torch.randn(2, 4, 1, 1)).grad_fn.name() == "ReluBackward0"


@native
def test_a_larger_pool_after_a_norm_is_apart() -> None:
    layers = nn.Sequential(nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
    model, (x, _) = convert(layers), batch()
    assert blocks(model) == {"0": ["1"]}
    assert_near(model(x), layers(x))
