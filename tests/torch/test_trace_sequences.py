"""from_torch: recurrent layers, attention and Transformer encoders, in every way to write them that is taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from edgefl.errors import GraphError
from edgefl.learning import GraphLearner
from edgefl.models.graph.operations import GRU, LSTM, Linear, SelfAttention
from edgefl.torch import from_torch
from edgefl.torch.graph_module import to_torch
from tests.torch.traced import Forward, example

STEPS, FEATURES = 7, 6
LATER = torch.ones(9, 9, dtype=torch.bool).triu(1)
Step = Callable[[Any, Tensor], Tensor]


def ends(kind: str) -> dict[str, Step]:
    """Ways to read what a recurrent layer returns."""
    last = {"GRU": lambda m, x: m.r(x)[1], "LSTM": lambda m, x: m.r(x)[1][0]}[kind]
    return {
        "last place": lambda m, x: m.r(x)[0][:, -1],
        "mean": lambda m, x: m.r(x)[0].mean(1),
        "at each place": lambda m, x: m.h(m.r(x)[0]).mean(dim=1),
        "last state": lambda m, x: last(m, x)[-1],
        "last state, its axis taken out": lambda m, x: last(m, x).squeeze(0),
    }


def unpacked_lstm(m: Any, x: Tensor) -> Tensor:
    out, (state, _) = m.r(x)
    return out[:, 0] + state[0]


def from_zeros(make: Callable[[Any, Tensor], Any]) -> Step:
    """An initial state as torch's tutorials write it, which is where a layer begins without one."""
    return lambda m, x: m.r(x, make(m, x))[0][:, -1]


def zeros(m: Any, x: Tensor) -> Tensor:
    return torch.zeros(m.r.num_layers, x.size(0), m.r.hidden_size).to(x.device)


def new_zeros(m: Any, x: Tensor) -> Tensor:
    return x.new_zeros(1, x.shape[0], 4).requires_grad_()


class Stateful(nn.Module):
    """Begins where the batch before ended."""

    def __init__(self) -> None:
        super().__init__()
        self.r, self.state = nn.GRU(FEATURES, 4, batch_first=True), None

    def forward(self, x: Tensor) -> Tensor:
        y, self.state = self.r(x, self.state)
        return y[:, -1]


def attended(mask: Tensor | None = None) -> Step:
    def step(m: Any, x: Tensor) -> Tensor:
        y, _ = m.a(x, x, x, attn_mask=mask)
        return (x + y)[:, 0]

    return step


def recurrent(kind: type[nn.GRU] | type[nn.LSTM], step: Step, **settings: Any) -> nn.Module:
    torch.manual_seed(1)
    sizes = {"batch_first": True} | settings
    return Forward(step, r=kind(FEATURES, 4, **sizes), h=nn.Linear(4, 4))


def attention(step: Step, **settings: Any) -> nn.Module:
    torch.manual_seed(1)
    return Forward(step, a=nn.MultiheadAttention(FEATURES, **({"num_heads": 2, "batch_first": True} | settings)))


def encoder(activation: str = "relu", norm_first: bool = False, mask: Tensor | None = None) -> nn.Module:
    torch.manual_seed(1)
    layer = nn.TransformerEncoderLayer(FEATURES, 3, 8, 0.0, activation, batch_first=True, norm_first=norm_first)
    norm = nn.LayerNorm(FEATURES) if norm_first else None
    whole = nn.TransformerEncoder(layer, 2, norm, enable_nested_tensor=False)
    return Forward(lambda m, x: m.e(x, mask=mask).mean(1), e=whole)


def taken() -> dict[str, nn.Module]:
    found = {f"GRU, {name}": recurrent(nn.GRU, step) for name, step in ends("GRU").items()}
    found |= {f"LSTM, {name}": recurrent(nn.LSTM, step, bias=False) for name, step in ends("LSTM").items()}
    found["LSTM, unpacked"] = recurrent(nn.LSTM, unpacked_lstm)
    found["GRU from zeros"] = recurrent(nn.GRU, from_zeros(zeros))
    found["LSTM from zeros"] = recurrent(nn.LSTM, from_zeros(lambda m, x: (zeros(m, x), new_zeros(m, x))))
    found["steps first"] = recurrent(nn.GRU, lambda m, x: m.r(x.transpose(0, 1))[0][-1], batch_first=False)
    float_mask = nn.Transformer.generate_square_subsequent_mask(STEPS)
    for name, mask in (
        ("none", None),
        ("of nothing", LATER[:7, :7] & False),
        ("later", LATER[:7, :7]),
        ("float", float_mask),
    ):
        found[f"attention, mask {name}"] = attention(attended(mask))
    found["attention without bias"] = attention(attended(), bias=False, num_heads=6)
    for norm_first in (False, True):
        for activation in ("relu", "gelu"):
            found[f"encoder, {activation}, {norm_first}"] = encoder(
                activation, norm_first, float_mask if norm_first else None
            )
    return found


def test_what_is_taken_computes_the_same_and_goes_back_to_torch() -> None:
    x = example(3, STEPS, FEATURES)
    for name, module in taken().items():
        attributes = set(vars(module))
        model = from_torch(module, x)
        assert set(vars(module)) == attributes, name  # constants of the trace are gone, and what forward wrote
        read = {key for node in model.graph.nodes for key in map(f"{node.name}.{{}}".format, node.op.parameters())}
        assert read == set(model.params) <= set(module.state_dict()), name
        expected = module.eval()(x).detach().numpy()
        found = GraphLearner(model, "reference", np.float64).predict(x.numpy().astype(np.float64))
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6, err_msg=name)
        assert from_torch(to_torch(model), x).graph == model.graph, name


def test_settings_are_kept() -> None:
    def first(module: nn.Module, kind: type) -> Any:
        return next(n.op for n in from_torch(module, example(3, STEPS, FEATURES)).graph.nodes if isinstance(n.op, kind))

    assert first(recurrent(nn.GRU, ends("GRU")["mean"]), GRU) == GRU(FEATURES, 4)
    assert first(recurrent(nn.LSTM, ends("LSTM")["mean"], bias=False), LSTM) == LSTM(FEATURES, 4, bias=False)
    assert first(attention(attended()), SelfAttention) == SelfAttention(FEATURES, 2, 3)
    assert first(attention(attended(LATER[:7, :7])), SelfAttention) == SelfAttention(FEATURES, 2, 3, causal=True)
    assert first(attention(attended(), bias=False), SelfAttention) == SelfAttention(FEATURES, 2, 3, bias=False)
    assert first(attention(attended(), bias=False), Linear) == Linear(FEATURES, FEATURES, bias=False)


REFUSALS: dict[str, tuple[nn.Module, str]] = {
    "initial state": (
        recurrent(nn.GRU, lambda m, x: m.r(x, x.relu())[0][:, 0]),
        "an initial state; expected no state, or torch.zeros that forward makes",
    ),
    "cells": (recurrent(nn.LSTM, lambda m, x: m.r(x)[1][1][0]), "the cells of an LSTM; expected its outputs"),
    "of features": (Forward(lambda m, x: m.r(x[:, 0])[0], r=nn.GRU(6, 4)), "input of 1 extents; expected steps"),
    "other keys": (attention(lambda m, x: m.a(x, x.relu(), x)[0]), "query, key and value differ"),
    "its weights": (
        attention(lambda m, x: m.a(x, x, x)[1].flatten(1)),
        "in module 'a' (MultiheadAttention): ",
    ),
    "dropout": (attention(attended(), dropout=0.2), "dropout=0.2 of attention's shares; expected 0"),
    "a band": (attention(attended(LATER[:7, :7] | LATER[:7, :7].T)), "attn_mask of shape (7, 7); expected no mask"),
    "weights of scores": (attention(attended(torch.ones(7, 7))), "attn_mask of shape (7, 7); expected no mask"),
    "a mask of the data": (
        attention(lambda m, x: m.a(x, x, x, attn_mask=x.mT)[0]),
        "attn_mask is computed from the input; expected a constant",
    ),
    "padding": (
        attention(lambda m, x: m.a(x, x, x, key_padding_mask=LATER[:3, :7])[0]),
        "key_padding_mask is given; expected None",
    ),
    "zero attention": (attention(attended(), add_zero_attn=True), "add_zero_attn=True; expected False"),
    "bias of keys": (attention(attended(), add_bias_kv=True), "add_bias_kv=True; expected False"),
    "padding of an encoder": (
        Forward(
            lambda m, x: m.e(x, src_key_padding_mask=LATER[:3, :7]),
            e=nn.TransformerEncoderLayer(FEATURES, 2, 4, 0.0, batch_first=True),
        ),
        "forward ties itself to one batch size",
    ),
}

OF_STATES: dict[str, tuple[nn.Module, str]] = {  # torch.export takes seconds for each
    "the states of two layers": (
        recurrent(nn.GRU, lambda m, x: m.r(x)[1].mean(0), num_layers=2),
        "the last states of several layers; expected the state of one layer, as by h[-1]",
    ),
    "projection": (recurrent(nn.LSTM, ends("LSTM")["mean"], proj_size=2), "proj_size=2; expected 0"),
    "learned initial state": (
        Forward(
            lambda m, x: m.r(x, m.h.weight[:1].unsqueeze(0).expand(-1, x.size(0), -1))[0][:, 0],
            r=nn.GRU(FEATURES, 4, batch_first=True),
            h=nn.Linear(4, 1),
        ),
        "an initial state; expected no state, or torch.zeros",
    ),
    "state of the batch before": (Stateful(), "its output differs at a second call; expected a forward that keeps"),
}


@pytest.mark.filterwarnings("ignore:.*")
@pytest.mark.parametrize("refusals", [REFUSALS, OF_STATES], ids=["attention and steps", "states"])
def test_what_has_no_representation_is_refused_and_named(refusals: dict[str, tuple[nn.Module, str]]) -> None:
    for name, (module, message) in refusals.items():
        with pytest.raises(GraphError) as error:
            from_torch(module, example(3, STEPS, FEATURES))
        assert message in str(error.value), name
