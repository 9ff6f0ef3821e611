"""Usual architectures of sequences and texts, written here after their papers.

Sources  Kim 2014 (TextCNN), Hochreiter and Schmidhuber 1997, Cho et al. 2014, Press and Wolf 2017 (tied embeddings),
         Radford et al. 2019 (GPT-2), Hu et al. 2022 (LoRA), Gorishniy et al. 2021 (FT-Transformer, tabular ResNet)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from bench.collection.entry import Entry, ids, values
from bench.collection.kinds_of_pfllib import TextConvolutions


class LastState(nn.Module):
    """An embedding or features, a recurrent layer, and a head over the last state."""

    def __init__(self, recurrent: nn.Module, width: int, vocabulary: int = 0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 16) if vocabulary else nn.Identity()
        self.recurrent, self.fc = recurrent, nn.Linear(width, 6)

    def forward(self, x: Tensor) -> Tensor:
        states = self.recurrent(self.embedding(x))[0]
        result: Tensor = self.fc(states[:, -1, :])
        return result


class MeanStates(nn.Module):
    """A bidirectional LSTM, and the mean of both directions' states over time."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(60, 16)
        self.lstm = nn.LSTM(16, 16, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(32, 4)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.lstm(self.embedding(x))
        result: Tensor = self.fc(states.mean(dim=1))
        return result


class RecurrentLanguage(nn.Module):
    """An LSTM language model with logits at every position. `tied` shares the embedding with the head."""

    def __init__(self, tied: bool) -> None:
        super().__init__()
        self.embedding, self.drop = nn.Embedding(50, 24), nn.Dropout(0.2)
        self.lstm, self.head = nn.LSTM(24, 24, batch_first=True), nn.Linear(24, 50)
        if tied:
            self.head.weight = self.embedding.weight

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.lstm(self.drop(self.embedding(x)))
        result: Tensor = self.head(self.drop(states))
        return result


class CausalBlock(nn.Module):
    """A block of GPT-2: attention over earlier positions and an MLP, each behind a norm and with a shortcut."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.size()
        parts = self.qkv(self.norm1(x)).split(width, dim=2)
        q, k, v = (part.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for part in parts)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).contiguous().view(batch, length, width))
        result: Tensor = x + self.mlp(self.norm2(x))
        return result


class MinGpt(nn.Module):
    """A small GPT. `tied` shares the embedding with the head."""

    def __init__(self, tied: bool, vocabulary: int = 50, width: int = 32) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(32, width)
        self.blocks = nn.Sequential(CausalBlock(width, 4), CausalBlock(width, 4))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        if tied:
            self.head.weight = self.tokens.weight

    def forward(self, x: Tensor) -> Tensor:
        positions = torch.arange(0, x.size(1), dtype=torch.long, device=x.device)
        x = self.tokens(x) + self.positions(positions)
        result: Tensor = self.head(self.norm(self.blocks(x)))
        return result


class EncoderClassifier(nn.Module):
    """torch's own encoder layers with their default dropout, over trained positions."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(60, 32)
        self.positions = nn.Parameter(0.02 * torch.randn(1, 12, 32))
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.encoder, self.fc = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(32, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.encoder(self.embedding(x) + self.positions)
        result: Tensor = self.fc(x.mean(dim=1))
        return result


class FeatureTransformer(nn.Module):
    """FT-Transformer: a token for each number, a class token, attention, and a head over the class token."""

    def __init__(self, features: int = 8, width: int = 16) -> None:
        super().__init__()
        self.weight, self.bias = (nn.Parameter(0.3 * torch.randn(features, width)) for _ in range(2))
        self.token = nn.Parameter(0.3 * torch.randn(1, 1, width))
        self.blocks = nn.ModuleList(CausalFree(width, 4) for _ in range(2))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, 3))

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.unsqueeze(-1) * self.weight + self.bias
        x = torch.cat([self.token.expand(x.size(0), -1, -1), tokens], dim=1)
        for block in self.blocks:
            x = block(x)
        result: Tensor = self.head(x[:, 0])
        return result


class CausalFree(nn.Module):
    """A block of attention over all positions and an MLP, each behind a norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        result: Tensor = x + self.mlp(self.norm2(x))
        return result


class TabularBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.first, self.second = nn.BatchNorm1d(width), nn.Linear(width, 64), nn.Linear(64, width)
        self.drop1, self.drop2 = nn.Dropout(0.2), nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.drop1(torch.relu(self.first(self.norm(x))))
        result: Tensor = x + self.drop2(self.second(y))
        return result


def tabular_resnet() -> nn.Module:
    blocks = [TabularBlock(32), TabularBlock(32)]
    return nn.Sequential(nn.Linear(20, 32), *blocks, nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 1))


class LowRank(nn.Module):
    """A frozen Linear layer plus trained factors of rank 4, scaled by alpha / rank."""

    def __init__(self, inputs: int, outputs: int, alpha: float = 8.0, rank: int = 4) -> None:
        super().__init__()
        self.base = nn.Linear(inputs, outputs).requires_grad_(False)
        self.a, self.b = nn.Linear(inputs, rank, bias=False), nn.Linear(rank, outputs, bias=False)
        self.scaling = alpha / rank

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.base(x) + self.b(self.a(x)) * self.scaling
        return result


def lora_mlp() -> nn.Module:
    return nn.Sequential(LowRank(32, 64), nn.ReLU(), LowRank(64, 64), nn.ReLU(), nn.Linear(64, 5))


TEXT = ids(12, 60)
ENTRIES = (
    Entry("own/textcnn", lambda: TextConvolutions(60, 12), TEXT),
    Entry("own/lstm", lambda: LastState(nn.LSTM(16, 24, batch_first=True), 24, 60), TEXT),
    Entry("own/lstm_2_layers", lambda: LastState(nn.LSTM(16, 24, 2, batch_first=True), 24, 60), TEXT),
    Entry("own/gru", lambda: LastState(nn.GRU(8, 24, batch_first=True), 24), values(20, 8)),
    Entry("own/gru_2_layers", lambda: LastState(nn.GRU(8, 24, 2, batch_first=True), 24), values(20, 8)),
    Entry("own/rnn", lambda: LastState(nn.RNN(8, 24, batch_first=True), 24), values(20, 8)),
    Entry("own/bilstm", MeanStates, TEXT),
    Entry("own/lstm_language", lambda: RecurrentLanguage(False), ids(12, 50), classes=2),
    Entry("own/lstm_language_tied", lambda: RecurrentLanguage(True), ids(12, 50), classes=2),
    Entry("own/mingpt", lambda: MinGpt(False), ids(12, 50), classes=2),
    Entry("own/mingpt_tied", lambda: MinGpt(True), ids(12, 50), classes=2),
    Entry("own/transformer_encoder", EncoderClassifier, TEXT),
    Entry("own/ft_transformer", FeatureTransformer, values(8)),
    Entry("own/tabular_resnet", tabular_resnet, values(20), "values"),
    Entry("own/lora_mlp", lora_mlp, values(32)),
)
