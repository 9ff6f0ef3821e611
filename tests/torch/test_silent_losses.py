"""A module may do something in training only, or to gradients only: from_torch refuses it, warns of it, or does it.

A forward in evaluation mode shows nothing of it, so the check on the example output finds none of these.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F  # noqa: N812  (the name every torch user writes)
from torch import Tensor, nn
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

from edgefl.torch import from_torch
from tests.torch.differential import difference, silent_loss
from tests.torch.traced import Forward, example

Step = Callable[[nn.Module, Tensor], object]
FEATURES = 6


def net(step: Step, **layers: nn.Module) -> nn.Module:
    """A module of two Linear layers, `first` and `head`, and further layers, whose forward is `step`."""
    torch.manual_seed(4)
    return Forward(step, first=nn.Linear(FEATURES, 5), head=nn.Linear(5, 3), **layers).train()


def hidden(m: nn.Module, x: Tensor) -> Tensor:
    return torch.relu(m.first(x))


def _auxiliary_head(m: nn.Module, x: Tensor) -> object:
    h = hidden(m, x)
    return (m.head(h), m.aux(h)) if m.training else m.head(h)


def _auxiliary_sum(m: nn.Module, x: Tensor) -> Tensor:
    h = hidden(m, x)
    return m.head(h) + 0.3 * m.aux(h) if m.training else m.head(h)


def _noise(m: nn.Module, x: Tensor) -> Tensor:
    if m.training:
        x = x + 0.5 * torch.rand_like(x)
    return m.head(hidden(m, x))


def _weight_noise(m: nn.Module, x: Tensor) -> Tensor:
    scale = 1 + 0.3 * torch.randn(5) if m.training else torch.ones(5)
    return m.head(hidden(m, x) * scale)


def _drop_path(m: nn.Module, x: Tensor) -> Tensor:
    h = hidden(m, x)
    if m.training:
        return m.head(h + m.block(h) * (torch.rand(len(x), 1) < 0.7).float() / 0.7)
    return m.head(h + m.block(h))


def _bernoulli_path(m: nn.Module, x: Tensor) -> Tensor:
    h = hidden(m, x)
    y = m.block(h)
    if m.training:
        y = y * y.new_empty(y.shape[0], 1).bernoulli_(0.7).div_(0.7)
    return m.head(h + y)


def _own_dropout(m: nn.Module, x: Tensor) -> Tensor:
    h = hidden(m, x)
    return m.head(h * (torch.rand_like(h) < 0.5) * 2 if m.training else h)


def _layer_by_coin(m: nn.Module, x: Tensor) -> Tensor:
    h = hidden(m, x)
    if not m.training or torch.rand(()) < 0.5:
        h = torch.tanh(m.block(h))
    return m.head(h)


def _without_gradient(m: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        h = hidden(m, x)
    return m.head(h)


def _clamped_weights(m: nn.Module, x: Tensor) -> Tensor:
    if m.training:
        with torch.no_grad():
            m.head.weight.clamp_(-0.05, 0.05)
    return m.head(hidden(m, x))


def _moving_mean(m: nn.Module, x: Tensor) -> Tensor:
    if m.training:
        m.mean.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
    return m.head(hidden(m, x - m.mean))


def _by_grad_mode(m: nn.Module, x: Tensor) -> Tensor:
    return m.head(hidden(m, x) * (2.0 if torch.is_grad_enabled() else 1.0))


def _without_gradient_of_a_layer(m: nn.Module, x: Tensor) -> Tensor:
    h = hidden(m, x)
    with torch.set_grad_enabled(False):
        y = m.block(h)
    return m.head(h + y)


def _written_in_place(m: nn.Module, x: Tensor) -> Tensor:
    h = hidden(m, x)
    if m.training:
        h[:, :2].mul_(2.0)
    return m.head(h)


def _data(m: nn.Module, x: Tensor) -> Tensor:
    return m.head(hidden(m, x).data)


def _own_batch_norm(m: nn.Module, x: Tensor) -> Tensor:
    h = m.first(x)
    if m.training:
        h = (h - h.mean(0)) / h.std(0)
    return m.head(h)


class Reversed(torch.autograd.Function):
    """The identity, whose gradient has the other sign."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: object, grad: Tensor) -> Tensor:
        return -grad


class StaysFrozen(nn.BatchNorm1d):
    """A BatchNorm that stays in evaluation mode whatever its owner's mode is."""

    def train(self, mode: bool = True) -> StaysFrozen:
        return super().train(False)


def _one_in_evaluation(name: str, **layers: nn.Module) -> nn.Module:
    module = net(lambda m, x: m.head(m.extra(hidden(m, x))), **layers)
    module.get_submodule(name).eval()
    return module


def _with_mean() -> nn.Module:
    module = net(_moving_mean)
    module.register_buffer("mean", torch.zeros(FEATURES))
    return module


def _gradient_hook() -> nn.Module:
    module = net(lambda m, x: m.head(hidden(m, x)))
    module.first.register_full_backward_hook(
        lambda part, given, out: tuple(0.1 * each for each in given if each is not None)
    )
    return module


def _parameter_hook() -> nn.Module:
    module = net(lambda m, x: m.head(hidden(m, x)))
    module.first.weight.register_hook(lambda grad: 0.1 * grad)
    return module


def _spectral() -> nn.Module:
    module = net(lambda m, x: m.head(hidden(m, x)))
    parametrizations.spectral_norm(module.first)
    return module


def _weight_norm() -> nn.Module:
    module = net(lambda m, x: m.head(hidden(m, x)))
    parametrizations.weight_norm(module.first)
    return module


def _after(layer: nn.Module) -> nn.Module:
    return net(lambda m, x: m.head(m.extra(m.first(x))), extra=layer)


def _frozen_half() -> nn.Module:
    module = net(lambda m, x: m.head(hidden(m, x)))
    module.first.requires_grad_(False)
    return module


def _training(step: Callable[[nn.Module, Tensor], Tensor]) -> nn.Module:
    """A module that applies `step` to its hidden values in training alone."""
    return net(lambda m, x: m.head(step(m, hidden(m, x)) if m.training else hidden(m, x)))


CASES: dict[str, Callable[[], nn.Module]] = {
    "auxiliary head": lambda: net(_auxiliary_head, aux=nn.Linear(5, 3)),
    "auxiliary logits added": lambda: net(_auxiliary_sum, aux=nn.Linear(5, 3)),
    "noise on the input": lambda: net(_noise),
    "noise by factors": lambda: net(_weight_noise),
    "drop path by rand": lambda: net(_drop_path, block=nn.Linear(5, 5)),
    "drop path by bernoulli": lambda: net(_bernoulli_path, block=nn.Linear(5, 5)),
    "dropout by rand": lambda: net(_own_dropout),
    "dropout as a function": lambda: net(lambda m, x: m.head(F.dropout(hidden(m, x), 0.5, m.training))),
    "dropout that never ends": lambda: net(lambda m, x: m.head(F.dropout(hidden(m, x), 0.5))),
    "dropout as a module": lambda: _after(nn.Dropout(0.5)),
    "dropout in evaluation mode": lambda: _one_in_evaluation("extra", extra=nn.Dropout(0.5)),
    "dropout of an inner module in evaluation mode": lambda: _one_in_evaluation(
        "extra", extra=nn.Sequential(nn.Linear(5, 5), nn.Dropout(0.5))
    ),
    "alpha dropout": lambda: _after(nn.AlphaDropout(0.5)),
    "random rectifier": lambda: _after(nn.RReLU()),
    "layer by coin": lambda: net(_layer_by_coin, block=nn.Linear(5, 5)),
    "mixed examples": lambda: _training(lambda m, h: 0.7 * h + 0.3 * h.roll(1, 0)),
    "division in training": lambda: _training(lambda m, h: h / 0.5),
    "temperature in training": lambda: net(lambda m, x: m.head(hidden(m, x)) * (0.5 if m.training else 1.0)),
    "norm by the batch in training": lambda: net(_own_batch_norm),
    "frozen norm": lambda: _one_in_evaluation("extra", extra=nn.BatchNorm1d(5)),
    "norm that stays frozen": lambda: _after(StaysFrozen(5)),
    "norm as a function of fixed statistics": lambda: net(
        lambda m, x: m.head(F.batch_norm(m.first(x), m.extra.running_mean, m.extra.running_var)),
        extra=nn.BatchNorm1d(5),
    ),
    "norm without statistics": lambda: _after(nn.BatchNorm1d(5, track_running_stats=False)),
    "norm of a cumulative mean": lambda: _after(nn.BatchNorm1d(5, momentum=None)),
    "norm whose weights are frozen": lambda: _after(nn.BatchNorm1d(5).requires_grad_(False)),
    "moving mean in a buffer": _with_mean,
    "body without gradient": lambda: net(_without_gradient),
    "layer without gradient": lambda: net(_without_gradient_of_a_layer, block=nn.Linear(5, 5)),
    "values without gradient": lambda: net(_data),
    "branch on the mode of gradients": lambda: net(_by_grad_mode),
    "a view written in training": lambda: net(_written_in_place),
    "checkpointed body": lambda: net(lambda m, x: m.head(checkpoint(m.first, x, use_reentrant=False))),
    "detached body": lambda: net(lambda m, x: m.head(hidden(m, x).detach())),
    "detached shortcut": lambda: net(lambda m, x: m.head(hidden(m, x) + m.first(x).detach())),
    "detached weight": lambda: net(lambda m, x: F.linear(hidden(m, x), m.head.weight.detach(), m.head.bias)),
    "straight through": lambda: net(lambda m, x: m.head(hidden(m, x) + (m.first(x).round() - m.first(x)).detach())),
    "reversed gradient": lambda: net(lambda m, x: m.head(Reversed.apply(hidden(m, x)))),
    "hook on gradients": _gradient_hook,
    "hook on a parameter": _parameter_hook,
    "frozen layer": _frozen_half,
    "clamped weights": lambda: net(_clamped_weights),
    "spectral norm": _spectral,
    "weight norm": _weight_norm,
}


@pytest.mark.parametrize("case", CASES)
def test_nothing_of_training_is_lost_without_a_word(case: str) -> None:
    assert silent_loss(CASES[case](), example(12, FEATURES)) == ""


class Guarded(nn.Module):
    """A module behind a branch on the batch size, which torch.fx cannot trace and torch.export can."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> object:
        if x.shape[0] < 1:
            raise ValueError("expected examples")
        return self.inner(x)


EXPORTED = (  # in every run. The other cases take a second each
    "noise on the input", "drop path by bernoulli", "dropout in evaluation mode", "frozen norm", "reversed gradient",
    "detached body", "body without gradient", "clamped weights",
)  # fmt: skip


def _lost_by_export(case: str) -> str:
    module = CASES[case]()
    training = module.training
    guarded = Guarded(module)
    guarded.training = training
    return silent_loss(guarded, example(12, FEATURES))


@pytest.mark.parametrize("case", EXPORTED)
def test_torch_export_loses_nothing_either(case: str) -> None:
    assert _lost_by_export(case) == ""


@pytest.mark.parametrize("case", [case for case in CASES if case not in EXPORTED])
def test_torch_export_loses_nothing_in_further_cases(case: str) -> None:
    assert _lost_by_export(case) == ""


def test_a_module_that_only_export_reads_trains_as_in_torch() -> None:
    """Guarded modules are not all refused: this one is taken, and its step is exact."""
    module = Guarded(net(lambda m, x: m.head(hidden(m, x)))).train()
    assert difference(from_torch(module, example(2, FEATURES)), module, example(12, FEATURES)) == ""


def test_a_table_of_ids_whose_rows_are_renormalised_is_not_taken_as_a_plain_one() -> None:
    torch.manual_seed(4)
    module = nn.Sequential(nn.Embedding(7, 4, max_norm=0.5), nn.Flatten(), nn.Linear(12, 3))
    assert silent_loss(module, torch.arange(36).reshape(12, 3) % 7) == ""


LOST: dict[str, Step] = {  # what the module does, where the graph has Linear, ReLU and Linear alone
    "auxiliary logits added": _auxiliary_sum,
    "noise on the input": _noise,
    "dropout by rand": _own_dropout,
    "division in training": lambda m, x: m.head(hidden(m, x) / 0.5),
    "detached body": lambda m, x: m.head(hidden(m, x).detach()),
}


@pytest.mark.parametrize("case", LOST)
def test_the_comparison_sees_what_a_graph_has_lost(case: str) -> None:
    plain = from_torch(net(lambda m, x: m.head(hidden(m, x))), example(2, FEATURES))
    module = net(LOST[case], **({"aux": nn.Linear(5, 3)} if "auxiliary" in case else {}))
    assert difference(plain, module, example(12, FEATURES)) != ""
