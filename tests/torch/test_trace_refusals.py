"""from_torch: what has no representation in a graph is refused, and named."""

from __future__ import annotations

from collections import OrderedDict

import pytest
import torch
import torch.nn.functional as F  # noqa: N812  (the name every torch user writes)
from torch import Tensor, nn

from edgefl.errors import GraphError
from edgefl.models.graph.operations import Linear, MulParameter
from edgefl.torch import from_torch
from tests.torch.traced import Forward, example


def refused(module: nn.Module, *shape: int) -> str:
    with pytest.raises(GraphError) as error:
        from_torch(module, example(*(shape or (2, 2, 6, 6))))
    return str(error.value)


def test_first_module_it_cannot_take_is_named() -> None:
    message = refused(nn.Sequential(nn.Conv2d(2, 2, 1), nn.SELU(), nn.CELU()))
    assert message == ("torch.nn.functional.selu in module '1' (SELU): edgefl has no operation for it: write nn.ELU")


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (lambda m, x: torch.erf(m.conv(x)), "(`return self.step(self, x)`): torch.erf: edgefl has no operation for it"),
        (lambda m, x: F.selu(m.conv(x)), "torch.nn.functional.selu: edgefl has no operation for it: write nn.ELU"),
        (lambda m, x: m.conv(x).erf().erf(), "no operation for it (the module has 2 such operations)"),
        (
            lambda m, x: m.conv(x) / m.conv.bias.view(-1, 1, 1),
            "a divisor that is not a constant; expected a",
        ),
        (lambda m, x: torch.cat([m.conv(x), x]), "dim=0; expected the axis of channels, 1"),
        (lambda m, x: F.softmax(m.conv(x), 1), "softmax: expected at the end only, over the classes"),
        (lambda m, x: F.softmax(m.conv(x).flatten(1), 0), "dim=0; expected 1"),
        (lambda m, x: F.softmax(m.conv(x).flatten(1), 0) + 1, "softmax: dim=(0,); expected axes without the batch"),
        (lambda m, x: F.pad(m.conv(x), (1, -1)), "pad=[1, -1]; expected 2 or 4 numbers of at least 0"),
        (lambda m, x: F.pad(m.conv(x), (1, 1), value=2.0), "value=2.0; expected None"),
        (lambda m, x: F.interpolate(m.conv(x), scale_factor=1.5), "scale_factor=[1.5, 1.5]; expected whole numbers"),
        (lambda m, x: F.interpolate(m.conv(x), size=9), "scale_factor=[1.5, 1.5]; expected whole numbers"),
        (lambda m, x: F.interpolate(m.conv(x), scale_factor=2, mode="bicubic"), "write F.interpolate(mode='bilinear')"),
        (lambda m, x: m.conv(x) + x.size(0), "arithmetic with the batch size; expected numbers that all batches share"),
        (lambda m, x: m.conv(x) + torch.tensor(torch.inf), "a constant that is not finite; expected finite numbers"),
        (lambda m, x: m.conv(x) + m.conv.bias, "a parameter seen as (2,) with a result of [batch, 2, 6, 6]; expected"),
        (
            lambda m, x: m.conv(x) + m.conv.bias.view(-1, 1, 1)[0],
            "a value that forward computes from parameters; expected parameters",
        ),
        (
            lambda m, x: m.conv(x) + m.conv.bias.cumsum(0)[:, None, None],
            "a value that forward computes from parameters",
        ),
        (lambda m, x: m.conv(x).long().float(), "integers from a result; expected integers from the input"),
        (lambda m, x: F.dropout(m.conv(x), 0.5), "depend on data, or drop values in evaluation?"),
        (lambda m, x: torch.flatten(m.conv(x)), "start_dim=0 merges the batch with other axes; expected start_dim=1"),
        (
            lambda m, x: m.conv(x).view(-1, 36),
            "view: sizes [batch, 36] of [batch, 2, 6, 6]; expected 72 values in 1 to",
        ),
        (lambda m, x: m.conv(x).view(2, -1), "sizes [2, batch] of [batch, 2, 6, 6]; expected the batch first in both"),
        (lambda m, x: m.conv(x).view(x.size(0), 2, 6, 3, 2), "view: a view of 5 axes; expected at most 4"),
        (
            lambda m, x: m.conv(x).view(x.size(0) * 2, -1),
            "arithmetic with the batch size, 2; expected extents of spatial axes",
        ),
        (lambda m, x: m.conv(x).mean(), "torch.mean: dim=(0, 1, 2, 3); expected axes without the batch"),
        (lambda m, x: m.conv(x).amax(0), "torch.amax: dim=(0,); expected axes without the batch"),
        (lambda m, x: m.conv(x).permute(0, 1, 1, 2), "dims=(0, 1, 1, 2) of 4 axes; expected each axis once"),
        (lambda m, x: m.conv(x).transpose(1, 4), "dim=4; expected one of 4 axes"),
        (lambda m, x: m.conv(x.relu().transpose(0, 1)), "the batch is axis 1 of 4; expected axis 0 of 4"),
        (lambda m, x: m.conv(x).flatten(2)[:, :, ::2], "expected consecutive steps"),
        (lambda m, x: m.conv(x).flatten(2)[:, :, 36], "index 36; expected a number below 36"),
        (
            lambda m, x: m.conv(x)[:, :, 2],
            "index (slice(None, None, None), slice(None, None, None), 2) of [batch, 2, 6, 6]",
        ),
        (lambda m, x: m.conv(x).flatten(2).max(2)[1], "result 1; expected one of the first 1"),
        (lambda m, x: F.max_pool2d(m.conv(x), 2, dilation=2), "dilation=(2, 2)"),
        (lambda m, x: F.avg_pool2d(m.conv(x), 2, divisor_override=3), "divisor_override=3"),
        (lambda m, x: m.conv(x).relu(1, 2), "method 'relu': arguments that edgefl does not know"),
        (lambda m, x: x, "the module returns x; expected the result of its last operation"),
        (lambda m, x: m.conv(x) if x.sum() > 0 else x, "forward branches on values of the input: give forward one way"),
    ],
)
def test_forward_it_cannot_take_is_named(step, message) -> None:
    assert message in refused(Forward(step, conv=nn.Conv2d(2, 2, 1)))


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (nn.ConvTranspose2d(2, 2, 2, padding=6), "padding=(6, 6) of a result"),
        (nn.LayerNorm(5), "input of shape (6, 2, 6); expected (5,)"),
        (nn.Upsample(size=9), "size=9; expected None"),
        (
            nn.Upsample(scale_factor=1.4, mode="bilinear"),
            "scale_factor=1.4 of 6 cells; expected whole cells: give size=8",
        ),
        (nn.ReflectionPad2d(6), "padding=(6, 6, 6, 6) of shape (2, 6, 6); expected at most 5 for 6 cells"),
        (nn.InstanceNorm2d(2, track_running_stats=True), "expected track_running_stats=False"),
        (nn.BatchNorm2d(2, momentum=None), "momentum=None; expected a float"),
        (nn.MaxPool2d(2, dilation=2), "dilation=(2, 2); expected (1, 1)"),
        (nn.MaxPool2d(2, return_indices=True), "return_indices=True; expected False"),
        (nn.MaxPool2d(16), "expected a window of at most 255 cells"),
        (nn.AvgPool2d(2, divisor_override=3), "divisor_override=3; expected None"),
        (nn.Flatten(0), "start_dim=0 merges the batch with other axes"),
        (nn.Dropout(1.0), "Dropout: p=1.0; expected 0 <= p < 1"),
        (nn.Dropout3d(0.5), "a view of 5 axes; expected at most 4"),
        (nn.LeakyReLU(float("inf")), "negative_slope=inf; expected a float that is finite in float32"),
        (nn.LeakyReLU(float("nan")), "negative_slope=nan; expected a float that is finite in float32"),
        (nn.LeakyReLU(-1e39), "negative_slope=-1e+39; expected a float that is finite in float32"),
        (nn.Conv2d(3, 2, 1), "input with 2 channels; expected 3"),
        (nn.Linear(5, 2), "input of shape (6, 2, 6); expected (5, 2, 6)"),
    ],
)
def test_setting_it_cannot_take_is_named(layer, message) -> None:
    found = refused(Forward(lambda m, x: m.layer(x), layer=layer))
    assert f"module 'layer' ({type(layer).__name__}): " in found and message in found


def test_subclass_of_a_known_module_is_not_taken_for_it() -> None:
    class Scaled(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            return super().forward(input) * 2

    nodes = from_torch(nn.Sequential(Scaled(3, 2)), example(2, 3)).graph.nodes
    assert [node.op for node in nodes] == [Linear(3, 2), MulParameter((2,))]


def test_value_overwritten_in_place_and_read_later_has_the_new_values() -> None:
    def step(m, x):
        x = m.conv(x)
        return F.relu(x, inplace=True) + x

    model = from_torch(Forward(step, conv=nn.Conv2d(2, 2, 1)), example(2, 2, 6, 6))
    assert [node.op.title for node in model.graph.nodes] == ["Conv2d", "ReLU", "MulParameter"]
    assert model.params["constant-mul"].tolist() == [2, 2]


def test_overwrite_through_a_view_is_named() -> None:
    def step(m, x):
        x = m.conv(x)
        return m.fc(torch.relu_(x.view(x.size(0), -1))) + m.fc2(x.flatten(1))

    layers = {"conv": nn.Conv2d(2, 2, 1), "fc": nn.Linear(72, 2), "fc2": nn.Linear(72, 2)}
    expected = "in place, and flatten reads the overwritten conv2d; expected inplace=False"
    assert expected in refused(Forward(step, **layers))


def test_parameters_of_another_type_are_refused() -> None:
    found = refused(nn.Sequential(nn.Linear(3, 2).double()), 2, 3)
    assert found == "0.weight is torch.float64; expected torch.float32: module.float() converts it"


def test_parameters_without_values_are_refused() -> None:
    found = refused(nn.Sequential(nn.Linear(3, 2, device="meta")), 2, 3)
    assert found.startswith("0.weight is on the device meta; expected values")


def test_example_of_another_type_is_refused() -> None:
    with pytest.raises(GraphError, match=r"example_input: torch.float64 of 2 axes; expected float32"):
        from_torch(nn.Sequential(nn.Linear(3, 2)), example(2, 3).double())


def test_second_input_is_refused() -> None:
    class Two(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return x + y

    assert refused(Two()).startswith("forward of Two takes x, y; expected one input")


def test_arguments_with_defaults_keep_them() -> None:
    class Several(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 2)

        def forward(self, inputs: Tensor, mask: Tensor | None = None, deep: bool = False, *rest, **more) -> Tensor:
            found = self.fc(inputs if mask is None else inputs * mask)
            return (found, inputs) if deep or rest or more else found

    module = Several()
    model = from_torch(module, example(2, 3))
    assert model.graph == from_torch(nn.Sequential(OrderedDict(fc=module.fc)), example(2, 3)).graph
