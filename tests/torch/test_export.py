"""from_torch by torch.export: forms that torch.fx does not take, against the module in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812  (the name every torch user writes)
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from edgefl.errors import GraphError
from edgefl.models.graph.operations import Dropout, Linear
from edgefl.torch import from_torch, to_torch
from tests.torch.against_float64 import assert_as_in_float64
from tests.torch.traced import example

PLANES, FEATURES, STEPS = example(6, 2, 6, 6), example(6, 5), example(6, 7, 6)


class Own(nn.Module):
    """A module whose forward is given, with parameters, buffers and layers by their names."""

    def __init__(self, step: Callable[[Any, Tensor], Any], **parts: Any) -> None:
        super().__init__()
        self.step = step
        for name, part in parts.items():
            if isinstance(part, nn.Parameter):
                self.register_parameter(name, part)
            elif isinstance(part, Tensor):
                self.register_buffer(name, part)
            else:
                self.add_module(name, part)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
        return self.step(self, x)


def weight(*shape: int) -> nn.Parameter:
    return nn.Parameter(example(*shape, seed=sum(shape)) * 0.5)


def classes(features: int = 5) -> nn.Linear:
    torch.manual_seed(features)
    return nn.Linear(features, 3)


def normed(m: Any, x: Tensor) -> Tensor:
    found = F.batch_norm(m.conv(x), m.mean, m.var, m.gain, m.shift, m.training)
    return m.fc(F.relu(found).mean((2, 3)))


def in_place(m: Any, x: Tensor) -> Tensor:
    found = m.first(x)
    found += 1
    found.relu_()
    return m.fc(found)


def asserted(m: Any, x: Tensor) -> Tensor:
    hidden = m.first(x)
    torch._assert(hidden.shape[1] == 5, "five features")
    return m.fc(hidden if hidden.ndim == 2 else hidden.flatten(1))


class Attending(nn.Module):
    """Attention of two heads, written out on one layer for queries, keys and values, or on three layers."""

    def __init__(self, **layers: nn.Module) -> None:
        super().__init__()
        self.layers, self.out, self.fc, self.token = nn.ModuleDict(layers), nn.Linear(6, 6), classes(6), weight(1, 1, 6)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([self.token.expand(x.size(0), -1, -1), x], 1)
        batch, steps, features = x.shape
        if len(self.layers) == 1:
            q, k, v = self.layers["whole"](x).reshape(batch, steps, 3, 2, 3).permute(2, 0, 3, 1, 4).unbind(0)
        else:
            q, k, v = (layer(x).view(batch, steps, 2, 3).transpose(1, 2) for layer in self.layers.values())
        y = F.scaled_dot_product_attention(q, k, v, is_causal=len(self.layers) > 1)
        return self.fc((x + self.out(y.transpose(1, 2).reshape(batch, steps, features)))[:, 0])


CASES: dict[str, tuple[nn.Module, Tensor, str]] = {
    "batch_norm of own parameters": (
        Own(normed, conv=nn.Conv2d(2, 4, 3), mean=torch.zeros(4), var=torch.ones(4), gain=weight(4), shift=weight(4),
            fc=classes(4)), PLANES, "Conv2d BatchNorm2d ReLU GlobalAvgPool Flatten Linear"),
    "conv2d of an own kernel": (
        Own(lambda m, x: F.conv2d(x, m.kernel, stride=2).flatten(1), kernel=weight(3, 2, 3, 3)), PLANES,
        "Conv2d Flatten"),
    "linear of own parameters": (
        Own(lambda m, x: F.linear(F.silu(F.linear(x, m.a, m.b)), m.c), a=weight(8, 5), b=weight(8), c=weight(3, 8)),
        FEATURES, "Linear SiLU Linear"),
    "a product with a transposed parameter": (Own(lambda m, x: x @ m.a.t(), a=weight(3, 5)), FEATURES, "Linear"),
    "layer_norm": (
        Own(lambda m, x: m.fc(F.layer_norm(x, (5,), m.a, m.b)), a=weight(5), b=weight(5), fc=classes()), FEATURES,
        "LayerNorm Linear"),
    "layer_norm without parameters": (
        Own(lambda m, x: m.fc(F.layer_norm(x, (5,))), fc=classes()), FEATURES, "LayerNorm Linear"),
    "group_norm": (
        Own(lambda m, x: F.group_norm(m.conv(x), 2, m.a, m.b).mean((2, 3)), conv=nn.Conv2d(2, 4, 3), a=weight(4),
            b=weight(4)), PLANES, "Conv2d GroupNorm GlobalAvgPool Flatten"),
    "numbers": (
        Own(lambda m, x: 1 - (m.fc(x) * 3 + 1) / 2, fc=classes()), FEATURES,
        "Linear MulParameter AddParameter MulParameter MulParameter AddParameter"),
    "standardised features": (
        Own(lambda m, x: m.fc((x - m.mu) / m.sd), mu=example(5), sd=example(5).exp(), fc=classes()), FEATURES,
        "AddParameter MulParameter Linear"),
    "standardised planes": (
        Own(lambda m, x: m.conv((x - m.mu) / m.sd).mean((2, 3)), mu=example(1, 2, 1, 1), sd=example(2, 1, 1).exp(),
            conv=nn.Conv2d(2, 4, 3)), PLANES, "AddParameter MulParameter Conv2d GlobalAvgPool Flatten"),
    "fixed positions": (
        Own(lambda m, x: m.fc(x + m.table[:, : x.size(1)]).mean(1), table=example(1, 20, 6), fc=classes(6)), STEPS,
        "AddParameter Permute Linear GlobalAvgPool Flatten"),
    "a difference of results": (
        Own(lambda m, x: m.a(x) - m.b(x), a=classes(), b=nn.Linear(5, 3)), FEATURES,
        "Linear Linear Elementwise"),
    "constants": (
        Own(lambda m, x: m.fc(x) * torch.where(torch.arange(3) == 1, 2.0, 1.0) + torch.arange(3).cumsum(0),
            fc=classes()), FEATURES, "Linear MulParameter AddParameter"),
    "identities": (
        Own(lambda m, x: torch.cat([m.fc(x) * 1 + 0], 1).contiguous().clone(), fc=classes()), FEATURES, "Linear"),
    "writes in place": (
        Own(in_place, first=nn.Linear(5, 4), fc=classes(4)), FEATURES, "Linear AddParameter ReLU Linear"),
    "assertions and branches on shapes of results": (
        Own(asserted, first=nn.Linear(5, 5), fc=classes()), FEATURES, "Linear Linear"),
    "instance norms of planes and sequences, and a reflecting convolution": (
        nn.Sequential(nn.Conv2d(2, 4, 3, padding=1, padding_mode="reflect"), nn.InstanceNorm2d(4), nn.ReLU(),
                      nn.Flatten(2), nn.InstanceNorm1d(4, affine=True), nn.Tanh(), nn.Flatten(), classes(144)), PLANES,
        "ReflectionPad2d Conv2d GroupNorm ReLU Reshape GroupNorm Tanh Flatten Linear"),
    "statistics of the batch in evaluation, too": (
        nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4, track_running_stats=False), nn.ReLU(), nn.Flatten(),
                      nn.Linear(64, 5), nn.BatchNorm1d(5, affine=False, track_running_stats=False), classes()), PLANES,
        "Conv2d BatchNorm2d ReLU Flatten Linear BatchNorm1d Linear"),
    "both directions of an RNN": (
        Own(lambda m, x: m.fc(torch.cat(((h := m.r(x)[1])[-2], h[-1]), 1)),
            r=nn.RNN(6, 4, 2, "relu", batch_first=True, bidirectional=True), fc=classes(8)), STEPS,
        "Permute RNN Flip RNN Flip Concat RNN Flip RNN Slice Slice Flatten Flatten Concat Linear"),
    "two layers of an LSTM": (
        Own(lambda m, x: m.fc(m.r(x)[0][:, -1]), r=nn.LSTM(6, 4, 2, batch_first=True), fc=classes(4)), STEPS,
        "Permute LSTM LSTM Slice Flatten Linear"),
    "the last states of three layers": (
        Own(lambda m, x: m.fc((h := m.r(x)[1])[-1]) + m.fd(h[0]), r=nn.GRU(6, 4, 3, batch_first=True), fc=classes(4),
            fd=nn.Linear(4, 3)), STEPS,
        "Permute GRU GRU GRU Slice Slice Flatten Linear Flatten Linear Add"),
    "rows of a longer table of positions": (
        Own(lambda m, x: m.fc(x + m.table(torch.arange(x.size(1)))).mean(1), table=nn.Embedding(12, 6),
            fc=classes(6)), STEPS, "AddParameter Permute Linear GlobalAvgPool Flatten"),
    "a slice of a longer parameter": (
        Own(lambda m, x: m.fc(x + m.table[:, : x.size(1)]).mean(1), table=weight(1, 20, 6), fc=classes(6)), STEPS,
        "AddParameter Permute Linear GlobalAvgPool Flatten"),
    "a product of three factors": (
        Own(lambda m, x: m.fc(F.conv2d(x, torch.einsum("ijkl,ir,js->rskl", m.t, m.o, m.i)).mean((2, 3))),
            t=weight(2, 3, 3, 3), o=weight(2, 4), i=weight(3, 2), fc=classes(4)), PLANES,
        "Conv2d GlobalAvgPool Flatten Linear"),
    "filters of frequencies": (
        Own(lambda m, x: F.linear(x, torch.sin((m.low.abs() + 0.1) * m.steps) / m.steps), low=weight(3, 1),
            steps=torch.arange(1.0, 6.0).unsqueeze(0)), FEATURES, "Linear"),
    "a bag of words": (
        Own(lambda m, x: m.fc(torch.relu(m.rows(x))), rows=nn.EmbeddingBag(9, 6, mode="sum"), fc=classes(6)),
        torch.arange(42).reshape(6, 7) % 9, "Embedding GlobalAvgPool Flatten MulParameter ReLU Linear"),
    "a weight normalised along its window": (
        Own(lambda m, x: m.fc(m.conv(x).mean((2, 3))),
            conv=parametrizations.weight_norm(nn.Conv2d(2, 4, 3), dim=2), fc=classes(4)), PLANES,
        "Conv2d GlobalAvgPool Flatten Linear"),
    "features of positions": (
        Own(lambda m, x: m.fc((x + m.project(torch.arange(108).view(1, 3, 6, 6).to(x.dtype) / 108)).mean((2, 3))),
            project=nn.Conv2d(3, 2, 1), fc=nn.Linear(2, 3)), PLANES, "AddParameter GlobalAvgPool Flatten Linear"),
    "a weight divided by its length": (
        Own(lambda m, x: F.linear(F.normalize(x, dim=1), F.normalize(m.w, dim=1)), w=weight(3, 5)), FEATURES,
        "Elementwise Reduce Elementwise Elementwise Elementwise Linear"),
    "sums of a weight": (
        Own(lambda m, x: F.linear(x, m.w / m.w.abs().sum(1, keepdim=True)), w=weight(3, 5)),
        FEATURES, "Linear"),
    "a low-rank sum": (
        Own(lambda m, x: F.linear(x, m.w + (m.b @ m.a) * 0.5), w=weight(3, 5), a=weight(2, 5), b=weight(3, 2)),
        FEATURES, "Linear"),
    "a normalised weight": (
        Own(lambda m, x: m.fc(m.a(x)), a=parametrizations.weight_norm(nn.Linear(5, 4)), fc=classes(4)), FEATURES,
        "Linear Linear"),
    "attention of one layer, with a class token": (
        Attending(whole=nn.Linear(6, 18)), STEPS,
        "Permute Slice MulParameter AddParameter Permute Concat Permute SelfAttention Linear Permute Add Permute Slice "
        "Flatten Linear"),
    "causal attention of three layers": (
        Attending(q=nn.Linear(6, 6), k=nn.Linear(6, 6), v=nn.Linear(6, 6)), STEPS,
        "Permute Slice MulParameter AddParameter Permute Concat Permute SelfAttention Linear Permute Add Permute Slice "
        "Flatten Linear"),
    "a layer that is called twice": (
        Own(lambda m, x: m.fc(m.a(F.relu(m.a(x)))), a=nn.Linear(5, 5), fc=classes()), FEATURES,
        "Linear ReLU Linear Linear"),
    "a tied table": (
        Own(lambda m, x: F.linear(m.rows(x).mean(1), m.rows.weight), rows=nn.Embedding(9, 6)),
        torch.arange(42).reshape(6, 7) % 9, "Embedding GlobalAvgPool Flatten Linear"),
    "ids": (
        Own(lambda m, x: (m.fc(m.rows(x)) * 2).mean(1), rows=nn.Embedding(9, 6), fc=classes(6)),
        torch.arange(42).reshape(6, 7) % 9, "Embedding Linear MulParameter GlobalAvgPool Flatten"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_outputs_and_gradients_are_those_of_torch_in_float64(name: str) -> None:
    module, x, expected = CASES[name]
    model = assert_as_in_float64(module, x, name)
    assert [node.op.title for node in model.graph.nodes] == expected.split()
    own = {key for key, _ in module.named_parameters()} | {key for key, _ in module.named_buffers()}
    assert {key for key in model.params if key not in own} == {key for key in model.params if "constant-" in key}


def test_names_of_parameters_are_those_of_the_module() -> None:
    module = nn.Sequential(nn.ModuleDict({"a-b": nn.Linear(5, 4)})["a-b"], nn.ReLU())
    module = Own(lambda m, x: m.get_submodule("a-b")(x) * 2, **{"a-b": module[0], "w": weight(3)})
    model = from_torch(module, FEATURES)
    assert list(model.params) == ["a-b.weight", "a-b.bias", "constant-mul"]
    assert model.graph.nodes[0].name == "a_b" and model.graph.frozen == {"constant-mul"}
    assert {"a-b.weight", "a-b.bias"} < set(to_torch(model).state_dict())


def test_a_whole_buffer_keeps_its_name_and_is_frozen() -> None:
    model = from_torch(Own(lambda m, x: m.fc(x * m.scale), scale=example(5), fc=classes()), FEATURES)
    assert model.graph.frozen == {"scale"} and list(model.params) == ["scale", "fc.weight", "fc.bias"]


def test_frozen_parts_are_frozen_in_the_graph() -> None:
    module = Own(normed, conv=nn.Conv2d(2, 4, 3), mean=torch.zeros(4), var=torch.ones(4), gain=weight(4),
                 shift=weight(4), fc=classes(4))  # fmt: skip
    module.conv.bias.requires_grad_(False)
    assert from_torch(module, PLANES).graph.frozen == {"conv.bias"}
    fixed = Own(lambda m, x: m.fc(m.norm(m.conv(x)).mean((2, 3)) * 2), conv=nn.Conv2d(2, 4, 3), norm=nn.BatchNorm2d(4),
                fc=classes(4))  # fmt: skip
    fixed.norm.eval()
    expected = {"norm.running_mean", "norm.running_var", "constant-mul"}
    assert assert_as_in_float64(fixed, PLANES).graph.frozen == expected


def test_an_example_of_one_and_a_batch_of_any_size() -> None:
    module = Own(lambda m, x: (m.fc(x) * 2).view(x.size(0), -1), fc=classes())
    model = from_torch(module, FEATURES[:1])
    np.testing.assert_allclose(to_torch(model)(FEATURES).detach(), module(FEATURES).detach(), atol=1e-6)


def test_a_dropout_by_function_stays_a_dropout() -> None:
    module = Own(lambda m, x: m.fc(F.dropout(x * 2, 0.3, training=m.training)), fc=classes())
    assert [node.op for node in from_torch(module, FEATURES).graph.nodes][1:] == [Dropout(0.3), Linear(5, 3)]


def auxiliary(m: Any, x: Tensor) -> Any:
    return (m.a(x) * 2, m.b(x)) if m.training else m.a(x) * 2


def noisy(m: Any, x: Tensor) -> Tensor:
    return m.a(x + torch.rand_like(x) if m.training else x) * 2


def kept(m: Any, x: Tensor) -> Tensor:
    m.seen.add_(1)
    return m.a(x) * m.seen


def without_gradient(m: Any, x: Tensor) -> Tensor:
    with torch.no_grad():
        hidden = m.b(x)
    return m.a(hidden)


REFUSED: dict[str, tuple[Callable[[Any, Tensor], Any], str]] = {
    "further outputs in training": (auxiliary, "the module returns 2 outputs in training (0, 1) and 1 in"),
    "noise in training": (noisy, "torch.rand_like: edgefl has no operation for it: write nn.Dropout"),
    "a scale of training": (
        lambda m, x: m.a(x) * (-2 if m.training else 1), "in training mode forward computes another MulParameter"),
    "a layer of training": (
        lambda m, x: torch.tanh(m.a(x) * 2) if m.training else m.a(x) * 2, "and in evaluation mode nothing more"),
    "a count in a buffer": (kept, "forward writes into 'seen'; expected a forward that keeps no state"),
    "no gradient": (without_gradient, "torch.no_grad: edgefl has no operation for it: set requires_grad=False"),
    "a detached result": (lambda m, x: m.a(m.b(x).detach()), "torch.detach: edgefl has no operation for it: set"),
    "random numbers": (lambda m, x: m.a(x) + torch.rand(3), "torch.rand: random values; expected a Dropout"),
    "one batch size": (lambda m, x: m.a(x) * 2 if x.size(0) == 6 else m.a(x), "forward ties itself to one batch size"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_training_would_lose_is_refused(name: str) -> None:
    step, message = REFUSED[name]
    with pytest.raises(GraphError) as error:
        from_torch(Own(step, a=classes(), b=nn.Linear(5, 5), seen=torch.ones(())), FEATURES)
    assert message in str(error.value)


def test_a_refusal_names_the_line_and_the_count() -> None:
    with pytest.raises(GraphError) as error:
        from_torch(Own(lambda m, x: torch.erf(torch.erf(m.a(x))), a=classes()), FEATURES)
    line = Own.forward.__code__.co_firstlineno + 1
    assert str(error.value) == (
        f"test_export.py, line {line} (`return self.step(self, x)`): torch.erf: edgefl has no operation for it "
        "(the module has 2 such operations)"
    )
