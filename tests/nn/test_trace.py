"""from_torch: modules in every style become the graph a reader expects; what has no representation is named."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812  (the name every torch user writes)
from torch import Tensor, nn

from edgefl.errors import GraphError
from edgefl.graph import Model
from edgefl.graph.operations import AvgPool2d, BatchNorm2d, Conv2d, GroupNorm, LeakyReLU, Linear, MaxPool2d
from edgefl.nn import from_torch, to_torch


def example(*shape: int, seed: int = 3) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def randomised(module: nn.Module) -> nn.Module:
    """Parameters and running statistics that no initialisation would give, so that a mix-up cannot hide."""
    generator = torch.Generator().manual_seed(5)
    for name, value in module.state_dict().items():
        if value.is_floating_point():
            value.copy_(torch.rand(value.shape, generator=generator) + (0.5 if "var" in name else -0.4))
    return module


def assert_same_function(module: nn.Module, x: Tensor) -> Model:
    """Trace, go back to torch, and compare outputs, gradients and running statistics in training mode."""
    model = from_torch(randomised(module), x)
    twin = to_torch(model)
    module.train()
    expected, found = module(x.clone()), twin(x.clone())
    assert torch.allclose(found, expected, rtol=1e-5, atol=1e-5)
    expected.square().sum().backward()
    found.square().sum().backward()
    gradients = {name: value.grad for name, value in module.named_parameters()}
    for name, value in twin.named_parameters():
        assert torch.allclose(value.grad, gradients[name], rtol=1e-3, atol=1e-3 * gradients[name].abs().max().item())
    state = module.state_dict()
    for name, value in twin.state_dict().items():
        assert torch.allclose(value, state[name], rtol=1e-5, atol=1e-5)
    return model


def operations(model: Model) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(node.name, node.op.title, node.inputs) for node in model.graph.nodes]


class Forward(nn.Module):
    """A module whose forward is given: `step(self, x)`, with `layers` as submodules."""

    def __init__(self, step, **layers: nn.Module) -> None:
        super().__init__()
        self.step = step
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, x: Tensor) -> Tensor:
        return self.step(self, x)


class Block(nn.Module):
    """A residual block as torchvision writes it: one ReLU module used twice, += and an optional shortcut."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out, eps=1e-3, momentum=0.3)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, out, 1, stride), nn.GroupNorm(2, out))

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        y += self.shortcut(x)
        return self.relu(y)


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Block(3, 3, 1), Block(3, 4, 2)])
        self.head = nn.Linear(4, 5)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.head(torch.flatten(F.adaptive_avg_pool2d(x, (1, 1)), 1))


def test_nested_residual_network() -> None:
    model = assert_same_function(Residual(), example(4, 3, 8, 8))
    assert operations(model) == [
        ("layers.0.conv1", "Conv2d", ("input",)),
        ("layers.0.bn1", "BatchNorm2d", ("layers.0.conv1",)),
        ("layers.0.relu", "ReLU", ("layers.0.bn1",)),
        ("layers.0.conv2", "Conv2d", ("layers.0.relu",)),
        ("layers.0.bn2", "BatchNorm2d", ("layers.0.conv2",)),
        ("add", "Add", ("layers.0.bn2", "input")),
        ("layers.0.relu_1", "ReLU", ("add",)),
        ("layers.1.conv1", "Conv2d", ("layers.0.relu_1",)),
        ("layers.1.bn1", "BatchNorm2d", ("layers.1.conv1",)),
        ("layers.1.relu", "ReLU", ("layers.1.bn1",)),
        ("layers.1.conv2", "Conv2d", ("layers.1.relu",)),
        ("layers.1.bn2", "BatchNorm2d", ("layers.1.conv2",)),
        ("layers.1.shortcut.0", "Conv2d", ("layers.0.relu_1",)),
        ("layers.1.shortcut.1", "GroupNorm", ("layers.1.shortcut.0",)),
        ("add_1", "Add", ("layers.1.bn2", "layers.1.shortcut.1")),
        ("layers.1.relu_1", "ReLU", ("add_1",)),
        ("adaptive_avg_pool2d", "GlobalAvgPool", ("layers.1.relu_1",)),
        ("flatten", "Flatten", ("adaptive_avg_pool2d",)),
        ("head", "Linear", ("flatten",)),
    ]


def test_settings_of_every_module_are_kept() -> None:
    module = nn.Sequential(
        nn.Conv2d(4, 8, (3, 2), (2, 1), (1, 0), (1, 2), groups=2),
        nn.BatchNorm2d(8, eps=1e-3, momentum=0.2),
        nn.Conv2d(8, 16, 3, padding=1, groups=8, bias=False),
        nn.GroupNorm(4, 16, eps=1e-4),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, padding=1),
        nn.AvgPool2d((2, 3), padding=(1, 1), count_include_pad=False),
        nn.Dropout(0.0),
        nn.Flatten(),
        nn.Linear(16 * 2 * 2, 3, bias=False),
        nn.LeakyReLU(0.2),
    )
    model = assert_same_function(module, example(3, 4, 9, 10))
    ops = {node.name: node.op for node in model.graph.nodes}
    assert ops["0"] == Conv2d(4, 8, (3, 2), (2, 1), (1, 0), (1, 2), groups=2)
    assert ops["1"] == BatchNorm2d(8, 1e-3, 0.2)
    assert ops["2"] == Conv2d(8, 16, (3, 3), padding=(1, 1), groups=8, bias=False)
    assert ops["3"] == GroupNorm(4, 16, 1e-4)
    assert ops["5"] == MaxPool2d((3, 3), (2, 2), (1, 1))
    assert ops["6"] == AvgPool2d((2, 3), (2, 3), (1, 1), count_include_pad=False)
    assert ops["9"] == Linear(64, 3, bias=False)
    assert ops["10"] == LeakyReLU(0.2)
    assert "7" not in ops


TAILS = {  # how a [batch, 4, 4, 4] result is written on the way to [batch, 64], in the styles people use
    "F.relu, torch.flatten": lambda m, x: torch.flatten(F.relu(x), 1),
    "torch.relu, x.flatten": lambda m, x: torch.relu(x).flatten(1),
    "method relu, start_dim": lambda m, x: torch.flatten(x.relu(), start_dim=1),
    "relu_, view with size(0)": lambda m, x: torch.relu_(x).view(x.size(0), -1),
    "in place, view with shape": lambda m, x: F.relu(x, inplace=True).view(x.shape[0], -1),
    "view with size(dim=0)": lambda m, x: x.relu().view(x.size(dim=0), -1),
    "view with size()": lambda m, x: x.relu_().view(x.size()[0], -1),
    "view with -1 and features": lambda m, x: F.relu_(x).view(-1, 64),
    "reshape with a tuple": lambda m, x: x.reshape((x.size(0), 64)),
    "torch.reshape": lambda m, x: torch.reshape(x, (x.size(0), -1)),
    "contiguous": lambda m, x: x.contiguous().view(x.size(0), -1),
}


@pytest.mark.parametrize("style", TAILS)
def test_every_way_to_write_relu_and_flatten(style) -> None:
    tail = TAILS[style]
    module = Forward(lambda m, x: m.fc(tail(m, m.conv(x))), conv=nn.Conv2d(2, 4, 3), fc=nn.Linear(64, 3))
    model = assert_same_function(module, example(5, 2, 6, 6))
    assert [op for _, op, _ in operations(model) if op != "ReLU"] == ["Conv2d", "Flatten", "Linear"]


LEAKY = {
    "module": (lambda m, x: m.leaky(x), 0.3),
    "F.leaky_relu": (lambda m, x: F.leaky_relu(x), 0.01),
    "a slope by position": (lambda m, x: F.leaky_relu(x, -0.2), -0.2),
    "a slope by name, in place": (lambda m, x: F.leaky_relu(x, negative_slope=0.5, inplace=True), 0.5),
    "F.leaky_relu_, an integer": (lambda m, x: F.leaky_relu_(x, 2), 2.0),
}


@pytest.mark.parametrize("style", LEAKY)
def test_every_way_to_write_leaky_relu(style) -> None:
    step, slope = LEAKY[style]
    module = Forward(lambda m, x: step(m, m.conv(x)), conv=nn.Conv2d(2, 4, 3), leaky=nn.LeakyReLU(0.3, inplace=True))
    model = assert_same_function(module, example(5, 2, 6, 6))
    assert model.graph.nodes[-1].op == LeakyReLU(slope)


def test_unpacked_shape_is_known() -> None:
    def step(m, x):
        x = m.pool(m.conv(x))
        batch, channels, _height, _width = x.shape
        return m.fc(x.view(batch, channels))

    layers = {"conv": nn.Conv2d(2, 4, 3), "pool": nn.AdaptiveAvgPool2d(1), "fc": nn.Linear(4, 3)}
    model = assert_same_function(Forward(step, **layers), example(5, 2, 6, 6))
    assert [op for _, op, _ in operations(model)] == ["Conv2d", "GlobalAvgPool", "Flatten", "Linear"]


def test_result_of_which_only_the_shape_is_read_is_refused() -> None:
    module = Forward(lambda m, x: m.fc(x.view(m.conv(x).size(0), -1)), conv=nn.Conv2d(2, 2, 1), fc=nn.Linear(72, 3))
    assert refused(module) == "results ['conv'] are never used; expected only the last node 'fc'"


@pytest.mark.parametrize(
    "add",
    [
        lambda a, b: a + b,
        lambda a, b: torch.add(a, b),
        lambda a, b: torch.add(a, b, alpha=1),
        lambda a, b: a.add(b),
        lambda a, b: a.add_(b),
        lambda a, b: sum_in_place(a, b),
    ],
)
def test_every_way_to_write_a_sum(add) -> None:
    layers = {"a": nn.Conv2d(2, 4, 3, padding=1), "b": nn.Conv2d(2, 4, 1)}
    model = assert_same_function(Forward(lambda m, x: add(m.a(x), m.b(x)), **layers), example(3, 2, 5, 5))
    assert operations(model)[-1][1:] == ("Add", ("a", "b"))


def twice(x: Tensor) -> Tensor:
    return x + x


def sum_in_place(a: Tensor, b: Tensor) -> Tensor:
    a += b
    return a


@pytest.mark.parametrize(
    ("pool", "expected"),
    [
        (lambda x: F.max_pool2d(x, 2), MaxPool2d((2, 2), (2, 2))),
        (lambda x: F.max_pool2d(x, (3, 2), stride=2, padding=1), MaxPool2d((3, 2), (2, 2), (1, 1))),
        (lambda x: torch.max_pool2d(x, 3, 1), MaxPool2d((3, 3), (1, 1))),
        (lambda x: F.avg_pool2d(x, 2), AvgPool2d((2, 2), (2, 2))),
        (
            lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
            AvgPool2d((3, 3), (2, 2), (1, 1), count_include_pad=False),
        ),
    ],
)
def test_every_way_to_write_pooling(pool, expected) -> None:
    module = Forward(lambda m, x: pool(m.conv(x)), conv=nn.Conv2d(2, 4, 3))
    assert assert_same_function(module, example(3, 2, 9, 9)).graph.nodes[-1].op == expected


@pytest.mark.parametrize(
    ("pool", "expected"),
    [
        (lambda x: F.adaptive_avg_pool2d(x, 1), ["GlobalAvgPool"]),
        (lambda x: x.mean((2, 3), keepdim=True), ["GlobalAvgPool"]),
        (lambda x: x.mean([2, 3]), ["GlobalAvgPool", "Flatten"]),
        (lambda x: torch.mean(x, dim=(-1, -2)), ["GlobalAvgPool", "Flatten"]),
    ],
)
def test_every_way_to_write_global_pooling(pool, expected) -> None:
    module = Forward(lambda m, x: pool(m.conv(x)), conv=nn.Conv2d(2, 4, 3))
    model = assert_same_function(module, example(3, 2, 9, 9))
    assert [op for _, op, _ in operations(model)][1:] == expected


def test_name_of_a_function_gives_way_to_a_module_of_that_name() -> None:
    layers = {"conv": nn.Conv2d(2, 2, 1), "relu": nn.Conv2d(2, 2, 1)}
    model = assert_same_function(Forward(lambda m, x: m.relu(F.relu(m.conv(x))), **layers), example(2, 2, 4, 4))
    assert [(name, op) for name, op, _ in operations(model)] == [
        ("conv", "Conv2d"),
        ("relu_1", "ReLU"),
        ("relu", "Conv2d"),
    ]


def test_module_called_with_a_keyword_is_taken() -> None:
    model = assert_same_function(Forward(lambda m, x: m.fc(input=x), fc=nn.Linear(3, 2)), example(4, 3))
    assert operations(model) == [("fc", "Linear", ("input",))]


def test_parameters_are_copies() -> None:
    module = nn.Sequential(nn.Linear(3, 2))
    params = from_torch(module, example(2, 3)).params
    params["0.weight"][:] = 7
    assert not (module[0].weight == 7).any()


def test_module_keeps_its_modes_and_statistics() -> None:
    module = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2), nn.ReLU()).train()
    module[1].eval()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    from_torch(module, example(2, 1, 4, 4))
    assert [part.training for part in module.modules()] == [True, True, False, True]
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def refused(module: nn.Module, *shape: int) -> str:
    with pytest.raises(GraphError) as error:
        from_torch(module, example(*(shape or (2, 2, 6, 6))))
    return str(error.value)


def test_first_module_it_cannot_take_is_named() -> None:
    message = refused(nn.Sequential(nn.Conv2d(2, 2, 1), nn.Sigmoid(), nn.Tanh()))
    assert message.startswith("module '1' (Sigmoid): expected one of Conv2d, Linear")


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (lambda m, x: torch.sigmoid(m.conv(x)), "function torch.sigmoid: edgefl has no operation for it"),
        (lambda m, x: F.gelu(m.conv(x)), "function torch.nn.functional.gelu: edgefl has no operation"),
        (lambda m, x: m.conv(x).sigmoid(), "method 'sigmoid': edgefl has no operation"),
        (lambda m, x: m.conv(x) * 2, "mul: edgefl has no operation"),
        (lambda m, x: twice(m.conv(x)), "node 'add': inputs ('conv', 'conv'); expected two different results"),
        (lambda m, x: m.conv(x) + 1, "summand 1; expected the result of an operation"),
        (lambda m, x: m.conv(x) + m.conv.bias, "attribute 'conv.bias': a parameter or buffer used outside its module"),
        (lambda m, x: F.dropout(m.conv(x), 0.5), "function torch.nn.functional.dropout"),
        (lambda m, x: torch.add(m.conv(x), x, alpha=2), "alpha=2; expected 1"),
        (lambda m, x: torch.flatten(m.conv(x)), "start_dim=0; expected 1"),
        (lambda m, x: m.conv(x).flatten(1, 2), "end_dim=2; expected -1"),
        (lambda m, x: m.conv(x).view(-1, 36), "method 'view': sizes [-1, 36]; expected [x.size(0), -1] or [-1, 72]"),
        (lambda m, x: m.conv(x).view(2, -1), "sizes [2, -1]"),
        (lambda m, x: m.conv(x).mean(1), "dim=1; expected [2, 3]"),
        (lambda m, x: m.conv(x).mean(), "dim=None; expected [2, 3]"),
        (lambda m, x: F.max_pool2d(m.conv(x), 2, ceil_mode=True), "max_pool2d: ceil_mode=True; expected False"),
        (lambda m, x: F.max_pool2d(m.conv(x), 2, dilation=2), "dilation=(2, 2)"),
        (lambda m, x: F.avg_pool2d(m.conv(x), 2, divisor_override=3), "divisor_override=3"),
        (lambda m, x: F.adaptive_avg_pool2d(m.conv(x), 2), "output_size=2; expected 1"),
        (lambda m, x: m.conv(x).relu(1, 2), "method 'relu': arguments that edgefl does not know"),
        (lambda m, x: nn.ReLU()(m.conv(x)), "Forward cannot be traced: module is not installed as a submodule"),
        (lambda m, x: m.conv(m.conv(x)), "module 'conv' (Conv2d): called twice; edgefl has no shared weights"),
        (lambda m, x: (m.conv(x), x), "the module returns (conv, x); expected the result of its last operation"),
        (lambda m, x: x, "the module returns x; expected the result of its last operation"),
        (lambda m, x: m.conv(x) if x.sum() > 0 else x, "Forward cannot be traced"),
    ],
)
def test_forward_it_cannot_take_is_named(step, message) -> None:
    assert message in refused(Forward(step, conv=nn.Conv2d(2, 2, 1)))


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (nn.Conv2d(2, 2, 3, padding="same"), "padding='same'; expected integers"),
        (nn.Conv2d(2, 2, 3, padding=1, padding_mode="reflect"), "padding_mode='reflect'; expected 'zeros'"),
        (nn.BatchNorm2d(2, affine=False), "affine=False; expected True"),
        (nn.BatchNorm2d(2, track_running_stats=False), "track_running_stats=False; expected True"),
        (nn.BatchNorm2d(2, momentum=None), "momentum=None; expected a float"),
        (nn.GroupNorm(2, 2, affine=False), "affine=False; expected True"),
        (nn.MaxPool2d(2, ceil_mode=True), "ceil_mode=True; expected False"),
        (nn.MaxPool2d(2, dilation=2), "dilation=(2, 2); expected (1, 1)"),
        (nn.MaxPool2d(2, return_indices=True), "return_indices=True; expected False"),
        (nn.MaxPool2d(16), "expected a window of at most 255 cells"),
        (nn.AvgPool2d(2, ceil_mode=True), "ceil_mode=True; expected False"),
        (nn.AvgPool2d(2, divisor_override=3), "divisor_override=3; expected None"),
        (nn.AdaptiveAvgPool2d(2), "output_size=2; expected 1"),
        (nn.Flatten(0), "start_dim=0; expected 1"),
        (nn.Dropout(0.5), "p=0.5; expected 0"),
        (nn.LeakyReLU(float("inf")), "negative_slope=inf; expected a float that is finite in float32"),
        (nn.LeakyReLU(float("nan")), "negative_slope=nan; expected a float that is finite in float32"),
        (nn.LeakyReLU(-1e39), "negative_slope=-1e+39; expected a float that is finite in float32"),
        (nn.Conv2d(3, 2, 1), "input with 2 channels; expected 3"),
        (nn.Linear(6, 2), "input of shape (2, 6, 6); expected (6,)"),
    ],
)
def test_setting_it_cannot_take_is_named(layer, message) -> None:
    assert f"module 'layer' ({type(layer).__name__}): " in refused(Forward(lambda m, x: m.layer(x), layer=layer))
    assert message in refused(Forward(lambda m, x: m.layer(x), layer=layer))


def test_subclass_of_a_known_module_is_not_taken_for_it() -> None:
    class Scaled(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            return super().forward(input) * 2

    assert "attribute '0.weight'" in refused(nn.Sequential(Scaled(3, 2)), 2, 3)


@pytest.mark.parametrize("overwrite", [F.relu, F.leaky_relu])
def test_value_overwritten_in_place_and_read_later_is_refused(overwrite) -> None:
    def step(m, x):
        x = m.conv(x)
        return overwrite(x, inplace=True) + x

    message = refused(Forward(step, conv=nn.Conv2d(2, 2, 1)))
    assert "in place, and add reads the overwritten conv; expected inplace=False" in message


def test_overwrite_through_a_view_is_caught_on_the_example() -> None:
    def step(m, x):
        x = m.conv(x)
        return m.fc(torch.relu_(x.view(x.size(0), -1))) + m.fc2(x.flatten(1))

    layers = {"conv": nn.Conv2d(2, 2, 1), "fc": nn.Linear(72, 2), "fc2": nn.Linear(72, 2)}
    assert "its output on the example differs by" in refused(Forward(step, **layers))


def test_tied_parameters_are_refused() -> None:
    module = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
    module[2].weight = module[0].weight
    assert refused(module, 2, 3) == "2.weight shares its memory with 0.weight; edgefl has no shared weights"


def test_parameters_of_another_type_are_refused() -> None:
    assert refused(nn.Sequential(nn.Linear(3, 2).double()), 2, 3) == "0.weight is torch.float64; expected torch.float32"


def test_example_of_another_type_is_refused() -> None:
    with pytest.raises(GraphError, match=r"example_input: torch.float64 of 2 axes; expected float32"):
        from_torch(nn.Sequential(nn.Linear(3, 2)), example(2, 3).double())


def test_second_input_is_refused() -> None:
    class Two(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return x + y

    assert refused(Two()) == "input 'y': a second input; expected one"
