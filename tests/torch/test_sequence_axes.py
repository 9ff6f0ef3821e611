"""Modules of sequences read by samples whose axes the caller names: the order that the module takes is found, or the
axes that would fit are named.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from edgefl.errors import GraphError
from edgefl.learning.losses import Loss
from edgefl.torch.sequence_axes import read_with
from edgefl.torch.users_module import model_of

CHANNELS, STEPS = 3, 20


class Recurrent(nn.Module):
    """The last state of a recurrent layer."""

    def __init__(self, kind: type[nn.RNNBase], channels: int = CHANNELS) -> None:
        super().__init__()
        self.layer, self.out = kind(channels, 4, batch_first=True), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.layer(x)[0][:, -1])


class Transformer(nn.Module):
    """A layer at each step, attention, and a mean over steps."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(CHANNELS, 4), nn.Linear(4, 2)
        self.layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.layer(self.into(x)).mean(1))


class TurnedFirst(nn.Module):
    """[N, steps, channels] to a convolution along steps."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.out = nn.Conv1d(CHANNELS, 4, 3), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.conv(x.transpose(1, 2)).mean(2))


def conv(channels: int = CHANNELS) -> nn.Module:
    return nn.Sequential(nn.Conv1d(channels, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(4, 2))


def flat() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(CHANNELS * STEPS, 2))


FIRST, LAST = (CHANNELS, STEPS), (STEPS, CHANNELS)
MODULES: dict[str, tuple[Callable[[], nn.Module], str, tuple[int, int]]] = {
    "Conv1d": (conv, "NCL", FIRST),
    "LSTM": (lambda: Recurrent(nn.LSTM), "NLC", LAST),
    "GRU": (lambda: Recurrent(nn.GRU), "NLC", LAST),
    "Transformer": (Transformer, "NLC", LAST),
    "Conv1d of turned axes": (TurnedFirst, "NLC", LAST),
}


def samples(axes: str, channels: int = CHANNELS, steps: int = STEPS) -> np.ndarray:
    """Return samples as a data set has them: [N, channels, steps] where the axes are known, else images."""
    x = np.random.default_rng(2).normal(size=(2, channels, steps)).astype(np.float32)
    return x if axes else x[:, np.newaxis]


def said(module: nn.Module, inputs: np.ndarray, axes: str) -> str:
    with pytest.raises(GraphError) as error:
        read_with(module, inputs, axes)
    return str(error.value)


@pytest.mark.parametrize("axes", ["NCL", "NLC"])
@pytest.mark.parametrize(("make", "order", "shape"), MODULES.values(), ids=MODULES)
def test_of_named_axes_the_modules_own_order_is_found(make, order: str, shape: tuple[int, int], axes: str) -> None:
    model, _ = read_with(make(), samples(axes), axes)
    assert model.graph.input_shape == shape


@pytest.mark.parametrize("axes", ["NCL", "NLC"])
@pytest.mark.parametrize(("make", "order", "shape"), MODULES.values(), ids=MODULES)
def test_axes_that_contradict_the_module_are_named(make, order: str, shape: tuple[int, int], axes: str) -> None:
    right = {"NCL": "NLC", "NLC": "NCL"}[axes]
    assert said(make(), samples(axes, STEPS, CHANNELS), axes).endswith(
        f"gives the data another order; expected axes={right}"
    )


@pytest.mark.parametrize(("make", "order", "shape"), MODULES.values(), ids=MODULES)
def test_of_axes_that_nobody_names_the_modules_order_is_expected(make, order: str, shape: tuple[int, int]) -> None:
    as_taken, otherwise = samples("", *shape), samples("", *shape[::-1])
    assert read_with(make(), as_taken)[0].graph.input_shape == shape
    named = {"NCL": "channels and steps", "NLC": "steps and channels"}[order]
    other = {"NCL": "NLC", "NLC": "NCL"}[order]
    a, b = shape
    expected = f"the module takes [N, {a}, {b}], {named}, and x is [N, {b}, {a}]; expected axes={other}"
    assert said(make(), otherwise, "") == expected


def test_as_many_channels_as_steps() -> None:
    for module in (conv(4), Recurrent(nn.LSTM, 4)):
        assert read_with(module, samples("NLC", 4, 4), "NLC")[0].graph.input_shape == (4, 4)
    square = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
    assert read_with(square, samples("", 4, 4))[0].graph.input_shape == (1, 4, 4)
    for axes in ("NCL", "NLC"):
        assert said(square, samples(axes, 4, 4), axes) == (
            f"axes={axes}: no layer of the module says which of 4 x 4 values of an example are channels and which are "
            "steps; expected no axes, and x as the module takes it"
        )


@pytest.mark.parametrize(("axes", "shape"), [("NCL", FIRST), ("NLC", LAST), ("", (1, *FIRST))])
def test_a_module_that_takes_either_order_has_the_callers(axes: str, shape: tuple[int, ...]) -> None:
    assert read_with(flat(), samples(axes), axes)[0].graph.input_shape == shape


def test_what_fits_in_no_order_says_both() -> None:
    found = said(conv(7), samples("NCL"), "NCL")
    assert found == (
        "with x as [N, 3, 20]: module '0' (Conv1d): Conv1d: input with 3 channels; expected 7; "
        "with x as [N, 20, 3]: module '0' (Conv1d): Conv1d: input with 20 channels; expected 7"
    )
    assert said(conv(7), samples(""), "") == "module '0' (Conv1d): Conv1d: input with 3 channels; expected 7"
    assert said(nn.Sequential(nn.Conv2d(7, 2, 1)), samples(""), "").endswith("input with 1 channels; expected 7")


def test_an_attempt_in_vain_says_nothing() -> None:
    module = nn.Sequential(conv(), nn.Softmax(1))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        read_with(module, samples(""))
        read_with(module, samples("NLC"), "NLC")
    said_once = "Softmax(dim=1) at the end is left to the loss: outputs are logits"
    assert [str(each.message) for each in found] == [said_once] * 2


ENDS = {
    "softmax, cross-entropy": (nn.Softmax(1), "cross-entropy", None),
    "log_softmax, cross-entropy": (nn.LogSoftmax(1), "cross-entropy", None),
    "sigmoid, bce": (nn.Sigmoid(), "bce", None),
    "softmax, mse": (nn.Softmax(1), "mse", "the module ends in Softmax, and loss=mse would train the layers before it"),
    "softmax, bce": (
        nn.Softmax(1),
        "bce",
        "expected loss=cross-entropy, which includes it, or a module without Softmax",
    ),
    "log_softmax, huber": (nn.LogSoftmax(1), "huber", "the module ends in LogSoftmax, and loss=huber"),
}


@pytest.mark.parametrize(("end", "loss", "refused"), ENDS.values(), ids=ENDS)
def test_a_last_layer_that_the_loss_has_is_left_to_it(end: nn.Module, loss: str, refused: str | None) -> None:
    module = nn.Sequential(nn.Linear(4, 2), end)
    inputs = np.eye(4, dtype=np.float32)
    with pytest.warns(UserWarning, match=r"at the end is left to (the loss|loss=bce): outputs are logits"):
        if refused is None:
            assert [node.name for node in model_of(module, inputs, "", Loss.parse(loss)).graph.nodes] == ["0"]
            return
        with pytest.raises(GraphError) as error:
            model_of(module, inputs, "", Loss.parse(loss))
    assert refused in str(error.value)


def test_a_sigmoid_whose_values_are_learnt_stays() -> None:
    module = nn.Sequential(nn.Linear(4, 2), nn.Sigmoid())
    model = model_of(module, np.eye(4, dtype=np.float32), "", Loss.parse("mse"))
    assert [node.name for node in model.graph.nodes] == ["0", "1"]
    assert torch.equal(torch.tensor(model.params["0.bias"]), module[0].bias.detach())
