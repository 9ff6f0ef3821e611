"""Operations of Transformers on given values: attention, RMSNorm and rotary positions. Products are Linear layers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from edgefl.models.graph.operations.base import Operation, ParamInfo, Shape
from edgefl.models.graph.operations.sequence import steps


@dataclass(frozen=True)
class Attention(Operation):
    """Scaled dot-product attention of given queries, keys and values, which lie one below the other.

    The input is [(num_heads + 2 kv_heads) * head_dim, positions], and the result is [num_heads * head_dim, positions].
    A run of num_heads / kv_heads heads of queries shares one head of keys and values.

    scale   factor of the products of queries and keys
    causal  whether a position takes values of positions up to itself only
    window  number of positions up to itself, from which a causal position takes values. 0 stands for all
    p       probability with which training drops a weight of a value
    bias    shape [masks, keys, queries] of a parameter that is added to the products. Each mask belongs to
            num_heads / masks heads. () stands for no bias
    """

    num_heads: int
    kv_heads: int
    head_dim: int
    scale: float
    causal: bool = False
    window: int = 0
    p: float = 0.0
    bias: Shape = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_heads % self.kv_heads:
            self.refuse(f"kv_heads={self.kv_heads}", f"a divisor of num_heads={self.num_heads}")
        if self.p >= 1:
            self.refuse(f"p={self.p}", "0 <= p < 1")
        if self.bias and (len(self.bias) != 3 or self.num_heads % self.bias[0] or self.bias[1] != self.bias[2]):
            self.refuse(f"bias={self.bias}", f"masks that divide num_heads={self.num_heads}, keys and as many queries")
        if self.window and not self.causal:
            self.refuse(f"window={self.window}", "causal=True with a window")

    @property
    def features(self) -> int:
        """Return the number of features of the result."""
        return self.num_heads * self.head_dim

    @property
    def rows(self) -> int:
        """Return the number of features of queries, keys and values."""
        return self.features + 2 * self.kv_heads * self.head_dim

    @property
    def shared(self) -> int:
        """Return the number of features of the queries that share a head of keys."""
        return self.features // self.kv_heads

    @property
    def drops(self) -> bool:
        return self.p > 0

    def of_rows(self, rows: int) -> Attention:
        """Return the attention of fewer heads, whose queries, keys and values have so many features."""
        kept = self.kv_heads * rows // self.rows
        return replace(self, num_heads=self.num_heads // self.kv_heads * kept, kv_heads=kept)

    def output(self, *inputs: Shape) -> Shape:
        places = steps(self, inputs[0], self.rows)
        if self.bias and self.bias[1] != places[-1]:
            self.refuse(f"bias={self.bias} for {places[-1]} positions", f"{places[-1]} keys and queries")
        return (self.features, *places)

    def parameters(self) -> dict[str, ParamInfo]:
        return {"bias": ParamInfo(self.bias)} if self.bias else {}

    def macs_by_weight(self, output: Shape) -> dict[str, int]:
        positions = output[-1]
        pairs = positions * (positions + 1) // 2 if self.causal else positions**2
        return {"": 2 * self.features * pairs}


@dataclass(frozen=True)
class RMSNorm(Operation):
    """Division of the channels of each position by their root mean square, and multiplication by offset + weight.

    Channels in several runs of num_features are divided by the root mean square of their run, as for heads.

    offset  a constant, which is 1 in models whose weight starts at 0
    """

    num_features: int
    eps: float = 1e-6
    offset: float = 0.0

    def output(self, *inputs: Shape) -> Shape:
        if inputs[0][0] % self.num_features:
            self.refuse(f"input of shape {inputs[0]}", f"channels in runs of {self.num_features}")
        return inputs[0]

    def parameters(self) -> dict[str, ParamInfo]:
        return {"weight": ParamInfo((self.num_features,))}


@dataclass(frozen=True)
class Rotary(Operation):
    """Rotary positions (Su et al., 2021): each run of head_dim channels is rotated by the parameters cos and sin.

    A channel d of the first half of a run becomes cos[d] x[d] - sin[d] x[d + head_dim / 2]. A channel of the second
    half becomes cos[d] x[d] + sin[d] x[d - head_dim / 2]. cos and sin are frozen, [head_dim, positions].
    """

    head_dim: int
    positions: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.head_dim % 2:
            self.refuse(f"head_dim={self.head_dim}", "an even number")

    def output(self, *inputs: Shape) -> Shape:
        channels, *places = inputs[0]
        if not places or channels % self.head_dim or math.prod(places) != self.positions:
            self.refuse(f"input of shape {inputs[0]}", f"runs of {self.head_dim} channels, {self.positions} positions")
        return inputs[0]

    def parameters(self) -> dict[str, ParamInfo]:
        shape = (self.head_dim, self.positions)
        return {"cos": ParamInfo(shape, "frozen"), "sin": ParamInfo(shape, "frozen")}
