"""Files that torch.onnx.export writes by TorchScript for modules of the usual kinds, against onnxruntime.

The other exporter needs onnxscript, which the tests do not install.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable

import numpy as np
import pytest

from tests.models.onnx.onnx_models import by_edgefl, by_onnxruntime, distance, read

torch = pytest.importorskip("torch")
nn = torch.nn


class Block(nn.Module):
    """Two convolutions with a shortcut, batch norms and a gate of squeeze and excitation."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.squeeze, self.excite = nn.Conv2d(4, 2, 1), nn.Conv2d(2, 4, 1)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        y = nn.functional.silu(self.bn1(self.conv1(x)))
        y = x + y * torch.sigmoid(self.excite(torch.relu(self.squeeze(y.mean((2, 3), keepdim=True)))))
        return self.head(y.mean((2, 3)))


class Encoder(nn.Module):
    """Ids of words, a Transformer's encoder, and the mean over the words."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(9, 8), nn.Linear(8, 3)
        self.positions = nn.Parameter(torch.randn(1, 6, 8))
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)

    def forward(self, x):
        return self.head(self.encoder(self.embed(x) + self.positions).mean(1))


class Recurrent(nn.Module):
    def __init__(self, kind: Callable) -> None:
        super().__init__()
        self.rnn, self.head = kind(3, 5, batch_first=True), nn.Linear(5, 2)

    def forward(self, x):
        return self.head(self.rnn(x)[0][:, -1])


class Shuffled(nn.Module):
    """Channels that are split, shuffled and joined, as in ShuffleNet."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv2d(2, 2, 3, padding=1, groups=2), nn.Linear(4, 2)

    def forward(self, x):
        a, b = x.chunk(2, 1)
        y = torch.cat((a, self.conv(b)), 1)
        y = y.view(y.size(0), 2, 2, y.size(2), y.size(3)).transpose(1, 2).contiguous()
        return self.head(y.view(y.size(0), 4, y.size(3), y.size(4)).amax((2, 3)))


def activations() -> nn.Module:
    kinds = [
        nn.GELU(),
        nn.GELU("tanh"),
        nn.Softplus(),
        nn.ELU(0.5),
        nn.Hardsigmoid(),
        nn.Hardswish(),
        nn.LeakyReLU(0.2),
    ]
    kinds += [nn.ReLU6(), nn.PReLU(4), nn.GroupNorm(2, 4), nn.InstanceNorm2d(4, affine=True), nn.Tanh()]
    layers = [layer for kind in kinds for layer in (nn.Conv2d(4, 4, 1), kind)]
    return nn.Sequential(*layers, nn.Upsample(scale_factor=2), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 3))


def pools() -> nn.Module:
    return nn.Sequential(
        nn.ConvTranspose2d(4, 4, 3, 2, 1, 1),
        nn.MaxPool2d(3, 2, 1),
        nn.AvgPool2d(3, 2, 1),
        nn.ZeroPad2d((1, 0, 2, 0)),
        nn.MaxPool2d(2, ceil_mode=True),
        nn.Flatten(),
        nn.LazyLinear(6),
        nn.BatchNorm1d(6),
        nn.Dropout(0.5),
        nn.Linear(6, 2),
    )


def keywords() -> nn.Module:
    return nn.Sequential(
        nn.Conv1d(4, 6, 3, padding="same"), nn.ReLU(), nn.BatchNorm1d(6), nn.MaxPool1d(2), nn.AdaptiveAvgPool1d(1),
        nn.Flatten(), nn.Linear(6, 2), nn.LogSoftmax(1),
    )  # fmt: skip


MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "block": (Block, (4, 8, 8)),
    "encoder": (Encoder, (6,)),
    "lstm": (lambda: Recurrent(nn.LSTM), (7, 3)),
    "gru": (lambda: Recurrent(nn.GRU), (7, 3)),
    "shuffled": (Shuffled, (4, 6, 6)),
    "activations": (activations, (4, 6, 6)),
    "pools": (pools, (4, 7, 7)),
    "keywords": (keywords, (4, 12)),
}


def exported(module: nn.Module, x: torch.Tensor, is_dynamic: bool, is_folded: bool = True) -> bytes:
    file = io.BytesIO()
    axes = {"input": {0: "batch"}} if is_dynamic else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module, (x,), file, dynamo=False, input_names=["input"], dynamic_axes=axes, opset_version=17,
            do_constant_folding=is_folded,
        )  # fmt: skip
    return file.getvalue()


def made(name: str) -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(4)
    make, shape = MODULES[name]
    module = make().eval()
    x = torch.randint(0, 9, (1, *shape)) if name == "encoder" else torch.randn(1, *shape)
    with torch.no_grad():
        module(x)
        for each, value in module.named_buffers():
            value.copy_(torch.rand(value.shape) + 0.5) if each.endswith(("mean", "var")) else None
    return module, x


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.filterwarnings("ignore:.*left to the loss")
def test_outputs_are_those_of_onnxruntime(name: str) -> None:
    module, x = made(name)
    shape = MODULES[name][1]
    for is_dynamic in (True, False):
        content = exported(module, x, is_dynamic)
        model = read(content)
        more = torch.randint(0, 9, (3, *shape)) if name == "encoder" else torch.randn(3, *shape)
        expected = by_onnxruntime(content, (more if is_dynamic else more[:1]).numpy())
        found = by_edgefl(model, more.numpy())[: len(expected)]
        if name == "keywords":
            found = found - np.log(np.exp(found).sum(1, keepdims=True))
        assert distance(found, expected) <= 1e-5


def test_parameters_keep_torchs_names_where_the_exporter_does() -> None:
    """Batch norms are folded into convolutions by default, and stay without constant folding."""
    module, x = made("block")
    names = set(module.state_dict()) - {"bn1.num_batches_tracked"}
    assert set(read(exported(module, x, True, is_folded=False)).params) == names
    folded = set(read(exported(module, x, True)).params)
    assert folded == {name for name in names if not name.startswith("bn1")} | {"conv1.bias"}
    recurrent, steps = made("lstm")
    assert set(read(exported(recurrent, steps, True)).params) == set(recurrent.state_dict())
