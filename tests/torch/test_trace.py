"""from_torch: modules in every style become the graph a reader expects."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812  (the name every torch user writes)
from torch import Tensor, nn

from edgefl.errors import GraphError
from edgefl.models.graph import Model
from edgefl.models.graph.operations import (
    ELU,
    FIXED_ACTIVATIONS,
    GELU,
    AdaptiveAvgPool2d,
    AvgPool2d,
    BatchNorm2d,
    CircularPad2d,
    Concat,
    Conv2d,
    Dropout,
    Dropout2d,
    GroupNorm,
    Interpolate,
    LeakyReLU,
    Linear,
    MaxPool2d,
    Mul,
    ReflectionPad2d,
    ReLU6,
    Sigmoid,
    Softplus,
    Tanh,
    Upsample,
    ZeroPad2d,
)
from edgefl.torch import from_torch, to_torch
from tests.torch.traced import Forward, example


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


SOFTMAXES = {
    "nn.LogSoftmax": lambda: nn.Sequential(nn.Linear(3, 2), nn.LogSoftmax(-1)),
    "nn.Softmax": lambda: nn.Sequential(nn.Linear(3, 2), nn.Softmax(1)),
    "F.softmax": lambda: Forward(lambda m, x: F.softmax(m.fc(x), 1), fc=nn.Linear(3, 2)),
    "F.log_softmax": lambda: Forward(lambda m, x: F.log_softmax(m.fc(x), dim=-1), fc=nn.Linear(3, 2)),
    "method softmax": lambda: Forward(lambda m, x: m.fc(x).softmax(1), fc=nn.Linear(3, 2)),
}


@pytest.mark.parametrize("make", SOFTMAXES.values(), ids=SOFTMAXES)
def test_a_softmax_at_the_end_is_left_to_the_loss(make) -> None:
    with pytest.warns(UserWarning, match=r"oftmax\(.*\) at the end is left to the loss: outputs are logits"):
        model = from_torch(make(), example(2, 3))
    assert [node.op for node in model.graph.nodes] == [Linear(3, 2)]


OTHER_STYLES = {
    "F.relu6": (F.relu6, ReLU6()),
    **{f"F.{op.__name__.lower()}": (getattr(F, op.__name__.lower()), op()) for op in FIXED_ACTIVATIONS},
    "F.gelu": (F.gelu, GELU()),
    "F.gelu, tanh": (lambda x: F.gelu(x, approximate="tanh"), GELU("tanh")),
    "F.elu": (lambda x: F.elu(x, alpha=0.5), ELU(0.5)),
    "F.elu_": (lambda x: F.elu_(x), ELU(1.0)),
    "F.softplus": (lambda x: F.softplus(x, 2, threshold=5), Softplus(2.0, 5.0)),
    "torch.sigmoid": (torch.sigmoid, Sigmoid()),
    "method sigmoid": (lambda x: x.sigmoid(), Sigmoid()),
    "torch.tanh": (torch.tanh, Tanh()),
    "method tanh": (lambda x: x.tanh(), Tanh()),
    "F.pad": (lambda x: F.pad(x, (1, 0, 2, 3)), ZeroPad2d((1, 0, 2, 3))),
    "F.pad of rows": (lambda x: F.pad(x, (1, 2)), ZeroPad2d((1, 2, 0, 0))),
    "F.interpolate": (lambda x: F.interpolate(x, scale_factor=(2, 3)), Upsample((2, 3))),
    "F.interpolate, bilinear": (lambda x: F.interpolate(x, (9, 4), mode="bilinear"), Interpolate((9, 4))),
    "F.interpolate, corners": (
        lambda x: F.interpolate(x, scale_factor=1.5, mode="bilinear", align_corners=True),
        Interpolate((9, 9), True),
    ),
    "F.pad, reflect": (lambda x: F.pad(x, (1, 0, 2, 3), mode="reflect"), ReflectionPad2d((1, 0, 2, 3))),
    "F.pad, circular": (lambda x: F.pad(x, (1, 0, 2, 0), mode="circular"), CircularPad2d((1, 0, 2, 0))),
    "F.dropout": (lambda x, training: F.dropout(x, 0.2, training=training), Dropout(0.2)),
    "F.dropout of planes": (lambda x, training: F.dropout2d(x, 0.2, training), Dropout2d(0.2)),
    "F.max_pool2d, cut": (lambda x: F.max_pool2d(x, 4, ceil_mode=True), MaxPool2d((4, 4), (4, 4), ceil_mode=True)),
    "F.avg_pool2d, cut": (lambda x: F.avg_pool2d(x, 4, ceil_mode=True), AvgPool2d((4, 4), (4, 4), ceil_mode=True)),
    "F.adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, 1), MaxPool2d((6, 6), (6, 6))),
    "unequal windows": (lambda x: F.adaptive_avg_pool2d(x, 4), AdaptiveAvgPool2d((4, 4))),
    "F.adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, (2, 3)), AdaptiveAvgPool2d((2, 3))),
}


@pytest.mark.parametrize("style", OTHER_STYLES)
def test_functions_that_mean_one_operation(style) -> None:
    function, op = OTHER_STYLES[style]
    call = (lambda m, x: function(m.conv(x), m.training)) if "dropout" in style else lambda m, x: function(m.conv(x))
    for is_training in (True, False):
        module = Forward(call, conv=nn.Conv2d(2, 2, 1)).train(is_training)
        model = from_torch(module, example(2, 2, 6, 6))
        assert [node.op for node in model.graph.nodes] == [Conv2d(2, 2, (1, 1)), op]
        assert module.conv.training == is_training


def test_maxima_over_more_cells_than_a_pool_takes_are_taken_in_parts() -> None:
    for pool, shape, kernels in (
        (nn.AdaptiveMaxPool2d(1), (2, 15, 17), [(15, 17)]),
        (nn.AdaptiveMaxPool2d((2, 1)), (2, 32, 20), [(1, 20), (16, 1)]),
        (nn.AdaptiveMaxPool2d((None, 3)), (2, 4, 6), [(1, 2)]),
        (nn.AdaptiveMaxPool1d(1), (2, 510), [255, 2]),
        (nn.AdaptiveMaxPool1d(4), (2, 12), [3]),
    ):
        conv = nn.Conv1d if len(shape) == 2 else nn.Conv2d
        graph = assert_same_function(nn.Sequential(conv(2, 2, 1), pool), example(3, *shape)).graph
        assert [node.op.kernel_size for node in graph.nodes[1:]] == kernels
    for pool, message in (
        (nn.AdaptiveMaxPool2d(4), "expected divisors"),
        (nn.AdaptiveMaxPool2d(1), "expected factors"),
    ):
        with pytest.raises(GraphError, match=message):
            from_torch(nn.Sequential(pool), example(2, 2, 257, 3))


def test_a_single_layer_is_a_sequential_of_it() -> None:
    layer = nn.Linear(3, 2)
    model = from_torch(layer, example(4, 3))
    assert [(node.name, node.op) for node in model.graph.nodes] == [("0", Linear(3, 2))]
    assert (model.params["0.weight"] == layer.weight.detach().numpy()).all()


def test_products_and_results_side_by_side() -> None:
    layers = {"a": nn.Conv2d(2, 3, 1), "b": nn.Conv2d(2, 3, 1)}
    for join in (lambda a, b: torch.cat((a, b), dim=1), lambda a, b: torch.concat([a, b], 1)):
        model = from_torch(Forward(lambda m, x, j=join: j(m.a(x), m.b(x)), **layers), example(2, 2, 6, 6))
        assert model.graph.nodes[-1].op == Concat()
        assert model.graph.nodes[-1].inputs == ("a", "b")
    for multiply in (lambda a, b: a * b, lambda a, b: torch.mul(b, a), lambda a, b: a.mul(b)):
        gated = Forward(lambda m, x, f=multiply: f(F.adaptive_avg_pool2d(m.a(x), 1), m.b(x)), **layers)
        nodes = from_torch(gated, example(2, 2, 6, 6)).graph.nodes
        assert nodes[-1].op == Mul()
        assert nodes[-1].inputs == ("b", "adaptive_avg_pool2d")  # the gate comes second, however it was written
        mapped = Forward(lambda m, x, f=multiply: f(m.a(x), m.map(x)), a=layers["a"], map=nn.Conv2d(2, 1, 1))
        assert from_torch(mapped, example(2, 2, 6, 6)).graph.nodes[-1].inputs == ("a", "map")
