"""Transformers as people write them, from torch to a graph: against torch in float64, and their neuron groups."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from edgefl.errors import GraphError
from edgefl.models.graph.operations import Attention, RMSNorm, Rotary
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.torch import from_torch
from edgefl.torch.aten_masks import mask_of

from .against_float64 import assert_as_in_float64

STEPS, WIDTH, SIZE = 5, 8, 2
X = torch.randn(3, STEPS, WIDTH, generator=torch.Generator().manual_seed(1))


class WrittenNorm(nn.Module):
    """An RMSNorm as language models write it. A weight of Gemma starts at 0 and has 1 added."""

    def __init__(self, width: int, offset: float = 0.0) -> None:
        super().__init__()
        self.offset, self.weight = offset, nn.Parameter(torch.linspace(0.5, 1.5, width))

    def forward(self, x: Tensor) -> Tensor:
        normal = x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)
        return normal * (self.offset + self.weight.float()) if self.offset else self.weight * normal


def turned(x: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


class Decoder(nn.Module):
    """One block of a language model: norms, attention with shared heads and rotary positions, and a gated MLP."""

    def __init__(self, heads: int = 4, kv_heads: int = 2, offset: float = 0.0, mask: Tensor | None = None) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.heads, self.kv_heads, self.mask = heads, kv_heads, mask
        self.norm, self.q_norm = WrittenNorm(WIDTH, offset), WrittenNorm(SIZE, offset)
        self.q = nn.Linear(WIDTH, heads * SIZE)
        self.k, self.v = (nn.Linear(WIDTH, kv_heads * SIZE, bias=False) for _ in range(2))
        self.o, self.last = nn.Linear(heads * SIZE, WIDTH), nn.RMSNorm(WIDTH)
        self.gate, self.up, self.down = nn.Linear(WIDTH, 6), nn.Linear(WIDTH, 6), nn.Linear(6, WIDTH)
        self.head = nn.Linear(WIDTH, 3)
        angles = torch.arange(STEPS)[:, None] * torch.tensor([1.0, 1.0])
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def split(self, x: Tensor, heads: int) -> Tensor:
        return x.view(x.shape[0], STEPS, heads, SIZE).transpose(1, 2)

    def repeated(self, x: Tensor) -> Tensor:
        times = self.heads // self.kv_heads
        return x[:, :, None].expand(x.shape[0], self.kv_heads, times, STEPS, SIZE).reshape(-1, self.heads, STEPS, SIZE)

    def forward(self, x: Tensor) -> Tensor:
        n = self.norm(x)
        k, v = (self.split(layer(n), self.kv_heads) for layer in (self.k, self.v))
        q = self.split(self.q(n), self.heads)
        q = self.q_norm(q)
        q, k = (each * self.cos + turned(each) * self.sin for each in (q, k))
        k, v = self.repeated(k), self.repeated(v)
        y = functional.scaled_dot_product_attention(q, k, v, self.mask, is_causal=self.mask is None, scale=0.4)
        x = x + self.o(y.transpose(1, 2).reshape(x.shape[0], STEPS, -1))
        n = self.last(x)
        x = x + self.down(functional.silu(self.gate(n)) * self.up(n))
        return self.head(x).mean(1)


BEHIND = torch.arange(STEPS)[:, None] - torch.arange(STEPS)
MASKS: dict[str, tuple[Tensor | None, bool, int, tuple[int, ...]]] = {
    "causal": (None, True, 0, ()),
    "all": (torch.ones(STEPS, STEPS, dtype=torch.bool), False, 0, ()),
    "boolean causal": (BEHIND >= 0, True, 0, ()),
    "window": ((BEHIND >= 0) & (BEHIND < 2), True, 2, ()),
    "both sides": (BEHIND.abs() < 2, False, 0, (1, STEPS, STEPS)),
    "added": (torch.zeros(STEPS, STEPS).masked_fill(BEHIND < 0, -torch.inf), True, 0, ()),
    "bias": (-0.5 * BEHIND.abs().float(), False, 0, (1, STEPS, STEPS)),
    "bias of heads": (torch.arange(4.0).view(4, 1, 1) * BEHIND, False, 0, (4, STEPS, STEPS)),
}


@pytest.mark.parametrize("name", MASKS)
def test_a_constant_mask_is_causal_or_a_window_or_a_bias(name: str) -> None:
    mask, *wanted, bias = MASKS[name]
    if mask is not None:
        found = mask_of(mask, 1, 4)
        assert [found.causal, found.window] == wanted
        assert bias == (() if found.bias is None else tuple(found.bias.shape))
        if found.bias is not None and mask.dtype != torch.bool:
            assert torch.equal(found.bias, mask.view(-1, STEPS, STEPS).transpose(1, 2))  # [masks, keys, queries]


@pytest.mark.parametrize("name", ["causal", "window", "bias of heads"])
def test_a_decoder_is_taken_with_each_mask(name: str) -> None:
    mask, causal, window, bias = MASKS[name]
    module = Decoder(mask=mask, offset=float(name == "window"))
    graph = from_torch(module, X).graph
    (op,) = [node.op for node in graph.nodes if isinstance(node.op, Attention)]
    assert (op.num_heads, op.kv_heads, op.causal, op.window, op.bias) == (4, 2, causal, window, bias)
    assert [node.op.num_features for node in graph.nodes if isinstance(node.op, RMSNorm)] == [WIDTH, SIZE, WIDTH]
    assert [node.op.positions for node in graph.nodes if isinstance(node.op, Rotary)] == [STEPS, STEPS]
    assert_as_in_float64(module, X)


def test_a_neuron_is_a_head_of_keys_or_a_row_of_the_gate() -> None:
    spec = ModelSpec.of(from_torch(Decoder(), X).graph)
    assert spec.groups == {"k": 2, "gate": 6}
    rows = {name: spec.params[f"{name}.weight"].rows for name in ("q", "k", "v", "gate", "up", "q_norm", "norm")}
    assert {name: axis and axis.repeat for name, axis in rows.items()} == {
        "q": 2 * SIZE, "k": SIZE, "v": SIZE, "gate": 1, "up": 1, "q_norm": None, "norm": None
    }  # fmt: skip
    assert spec.params["o.weight"].cols == rows["q"] and spec.params["down.weight"].cols == rows["gate"]


class Relative(nn.Module):
    """Attention with a bias by the distance of two steps: T5 reads rows of an embedding, Swin and LeViT a parameter."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        torch.manual_seed(6)
        self.kind, count = kind, 2 * STEPS - 1
        self.qkv, self.head = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, 3)
        if kind == "embedding":
            self.rows = nn.Embedding(count, 4)
        else:
            self.table = nn.Parameter(torch.randn((4, count) if kind == "columns" else (count, 4)))

    def bias(self) -> Tensor:
        places = BEHIND + STEPS - 1
        if self.kind == "columns":
            return self.table[:, places]
        rows = self.rows(places) if self.kind == "embedding" else self.table[places.view(-1)].view(STEPS, STEPS, -1)
        bias = rows.permute(2, 0, 1).unsqueeze(0)
        return torch.where(BEHIND >= 0, bias, -1e9) if self.kind == "causal" else bias

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).view(x.shape[0], STEPS, 3, 4, SIZE).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, self.bias())
        return self.head(y.transpose(1, 2).reshape(x.shape[0], STEPS, WIDTH)).mean(1)


@pytest.mark.parametrize("kind", ["embedding", "columns", "causal"])
def test_a_bias_of_distances_is_trained(kind: str) -> None:
    graph = assert_as_in_float64(Relative(kind), X).graph
    (op,) = [node.op for node in graph.nodes if isinstance(node.op, Attention)]
    assert op.bias == (4, STEPS, STEPS)
    assert [each.op.title for each in graph.computed].count("RowsAtPlaces") == 1


class Written(nn.Module):
    """Attention as products and a softmax, with a scale and a constant that is added."""

    def __init__(self, mask: Tensor, dropout: float = 0.0) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.qkv, self.head, self.mask = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, 3), mask
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (each.view(x.shape[0], STEPS, 4, SIZE).transpose(1, 2) for each in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(-2, -1) / 1.5 + self.mask
        y = (self.dropout(scores.softmax(-1)) @ v).permute(0, 2, 1, 3).reshape(x.shape[0], STEPS, WIDTH)
        return self.head(y).mean(1)


@pytest.mark.parametrize("name", ["causal", "bias of heads", "dropout"])
def test_attention_that_is_written_out_is_one_operation(name: str) -> None:
    mask = MASKS["bias of heads"][0] if name == "bias of heads" else MASKS["added"][0]
    assert mask is not None
    module = Written(mask, 0.25 if name == "dropout" else 0.0)
    graph = from_torch(module, X).graph if name == "dropout" else assert_as_in_float64(module, X).graph
    (op,) = [node.op for node in graph.nodes if isinstance(node.op, Attention)]
    assert (op.scale, op.causal, op.p) == (1 / 1.5, name != "bias of heads", 0.25 if name == "dropout" else 0.0)


class Windowed(nn.Module):
    """Attention within windows of 2 x 2 cells, with a bias of distances, as Swin has it. Windows join the batch.

    shift  number of cells by which the windows are shifted around the plane, with a mask of the cells that meet there
    """

    def __init__(self, shift: int) -> None:
        super().__init__()
        torch.manual_seed(8)
        self.shift, self.table = shift, nn.Parameter(torch.randn(9, 2))
        self.norm, self.qkv, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, 3)
        self.register_buffer("places", torch.tensor([4, 5, 7, 8, 3, 4, 6, 7, 1, 2, 4, 5, 0, 1, 3, 4]))

    def windows(self, x: Tensor) -> Tensor:
        x = x.view(-1, 2, 2, 2, 2, x.shape[-1]).permute(0, 1, 3, 2, 4, 5)
        return x.reshape(-1, 4, x.shape[-1])

    def forward(self, x: Tensor) -> Tensor:
        batch, part = x.shape[0], WIDTH // 2
        x = functional.pad(x, (0, 0, 0, 1, 0, 1))
        x = self.windows(torch.roll(x, (-self.shift, -self.shift), (1, 2)))
        q, k, v = self.qkv(self.norm(x)).reshape(batch * 4, 4, 3, 2, part).permute(2, 0, 3, 1, 4)
        scores = q * part**-0.5 @ k.transpose(-2, -1)
        scores = scores + self.table[self.places].view(4, 4, -1).permute(2, 0, 1).contiguous().unsqueeze(0)
        if self.shift:
            cells = torch.arange(4)[:, None] // 3 * 2 + torch.arange(4) // 3
            region = self.windows(cells[None, :, :, None].float())[:, :, 0]
            mask = torch.zeros(4, 4, 4).masked_fill(region[:, None] != region[:, :, None], -100.0)
            scores = (scores.view(batch, 4, 2, 4, 4) + mask[None, :, None]).view(-1, 2, 4, 4)
        y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch * 4, 4, WIDTH)
        y = torch.tanh(x + y).view(batch, 2, 2, 2, 2, WIDTH).permute(0, 1, 3, 2, 4, 5).reshape(batch, 4, 4, WIDTH)
        y = torch.roll(y, (self.shift, self.shift), (1, 2))[:, :3, :3]
        return self.head(torch.cat([y[:, 1:, 1:], y[:, :2, 1:]], -2)).mean((1, 2))


def test_attention_within_windows_has_a_head_for_each_window() -> None:
    x = torch.randn(5, 3, 3, WIDTH, generator=torch.Generator().manual_seed(9))
    graph = assert_as_in_float64(Windowed(1), x).graph
    (op,) = [node.op for node in graph.nodes if isinstance(node.op, Attention)]
    assert (op.num_heads, op.kv_heads, op.head_dim, op.bias) == (8, 8, WIDTH // 2, (8, 4, 4))


class OfChannels(nn.Module):
    """Attention between the channels of a head, of queries and keys of length 1, as EdgeNeXt has it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(9)
        self.qkv, self.head = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, 3)
        self.gain = nn.Parameter(torch.tensor([0.5, 2.0]).view(2, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).reshape(x.shape[0], STEPS, 3, 2, -1).permute(2, 0, 3, 4, 1).unbind(0)
        q, k = functional.normalize(q, dim=-1), functional.normalize(k, dim=-1)
        shares = ((q @ k.transpose(-2, -1)) * self.gain).softmax(-1)
        y = (shares @ v).permute(0, 3, 1, 2).reshape(x.shape[0], STEPS, WIDTH)
        return self.head(x + y).mean(1)


def test_attention_between_channels_has_a_position_for_each_channel() -> None:
    graph = assert_as_in_float64(OfChannels(), X).graph
    (op,) = [node.op for node in graph.nodes if isinstance(node.op, Attention)]
    assert (op.num_heads, op.head_dim) == (2, STEPS)


class Merged(nn.Module):
    """A block of GPT-2, whose layers see examples and steps in one axis, with a weight [inputs, outputs]."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.weight, self.bias = nn.Parameter(0.3 * torch.randn(WIDTH, 3 * WIDTH)), nn.Parameter(torch.ones(3 * WIDTH))
        self.dropout, self.head = dropout, nn.Linear(WIDTH, 3)

    def forward(self, x: Tensor) -> Tensor:
        qkv = torch.addmm(self.bias, x.view(-1, WIDTH), self.weight).view(x.shape[0], STEPS, 3 * WIDTH)
        q, k, v = (part.view(x.shape[0], STEPS, 4, SIZE).transpose(1, 2) for part in qkv.split(WIDTH, dim=2))
        p = self.dropout if self.training else 0.0
        y = functional.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True)
        return self.head(y.transpose(1, 2).reshape(x.shape[0], STEPS, WIDTH)).mean(1)


def test_layers_of_merged_steps_are_taken() -> None:
    model = from_torch(Merged(0.25), X)
    assert [node.op.p for node in model.graph.nodes if isinstance(node.op, Attention)] == [0.25]
    assert_as_in_float64(Merged(0.0), X)  # random numbers of torch and of edgefl differ


REFUSED: dict[str, tuple[Tensor, str]] = {
    "no key": (BEHIND > 0, "attn_mask leaves out all keys of a query; expected at least one key for each query"),
    "examples": (torch.stack([BEHIND >= 0, BEHIND > -2])[:, None], "attn_mask differs from example to example"),
    "keys": (torch.ones(2, 3), "attn_mask of 2 queries and 3 keys; expected as many queries as keys"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_masks_without_a_meaning_are_refused(name: str) -> None:
    mask, words = REFUSED[name]
    with pytest.raises(GraphError, match=words):
        mask_of(mask, 2, 4)
