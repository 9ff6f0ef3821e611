"""Operations on sequences [features, steps]: RNN, GRU, LSTM and self-attention.

The parameters have torch's names and layouts. The rows of several gates, or of queries, keys and values, lie one below
the other in one matrix. The initial state is always 0. There is no mask but the causal one, and no second direction or
layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from edgefl.models.graph.operations.base import Operation, ParamInfo, Shape


def steps(op: Operation, shape: Shape, features: int) -> Shape:
    """Return the extents that follow the features in the shape of a sequence, or of a plane of one row.

    Raises  GraphError for every other shape, and for another number of features.
    """
    if len(shape) not in (2, 3) or shape[0] != features or (len(shape) == 3 and shape[1] != 1):
        op.refuse(f"input of shape {shape}", f"({features}, steps)")
    return shape[1:]


@dataclass(frozen=True)
class Recurrent(Operation):
    """One recurrent layer in one direction over a sequence. It begins with the state 0.

    The result is the states after each step, [hidden_size, steps].
    """

    input_size: int
    hidden_size: int
    bias: bool = True
    main: ClassVar[str] = "weight_ih_l0"
    gates: ClassVar[int]

    def output(self, *inputs: Shape) -> Shape:
        return (self.hidden_size, *steps(self, inputs[0], self.input_size))

    def parameters(self) -> dict[str, ParamInfo]:
        rows = self.gates * self.hidden_size
        weights = {"weight_ih_l0": (rows, self.input_size), "weight_hh_l0": (rows, self.hidden_size)}
        biases = {"bias_ih_l0": (rows,), "bias_hh_l0": (rows,)} if self.bias else {}
        return {name: ParamInfo(shape) for name, shape in (weights | biases).items()}

    def macs_by_weight(self, output: Shape) -> dict[str, int]:
        each = self.gates * self.hidden_size * output[-1]
        return {"weight_ih_l0": each * self.input_size, "weight_hh_l0": each * self.hidden_size}


@dataclass(frozen=True)
class RNN(Recurrent):
    """Elman's recurrent layer: h' = tanh of a sum of products, or the rectifier of the sum."""

    relu: bool = False
    gates: ClassVar[int] = 1


@dataclass(frozen=True)
class GRU(Recurrent):
    """A gated recurrent unit: h' = (1 - z) n + z h with the gates r, z and n."""

    gates: ClassVar[int] = 3


@dataclass(frozen=True)
class LSTM(Recurrent):
    """A long short-term memory: h' = o tanh(c') and c' = f c + i g with the gates i, f, g and o."""

    gates: ClassVar[int] = 4


@dataclass(frozen=True)
class SelfAttention(Operation):
    """The first half of nn.MultiheadAttention, up to its out_proj, which is a Linear.

    The result is [heads * head_dim, positions]. Queries, keys and values of every position are products with
    in_proj_weight. In each head, a position takes the mean of the values, weighted by softmax(k . q / sqrt(head_dim)).
    With `causal` it takes values of positions up to itself only.
    """

    in_features: int
    num_heads: int
    head_dim: int
    causal: bool = False
    bias: bool = True
    main: ClassVar[str] = "in_proj_weight"

    @property
    def features(self) -> int:
        """Return the number of features of the result, which queries, keys and values have, too."""
        return self.num_heads * self.head_dim

    def output(self, *inputs: Shape) -> Shape:
        return (self.features, *steps(self, inputs[0], self.in_features))

    def parameters(self) -> dict[str, ParamInfo]:
        weight = {"in_proj_weight": ParamInfo((3 * self.features, self.in_features))}
        return weight | ({"in_proj_bias": ParamInfo((3 * self.features,))} if self.bias else {})

    def macs_by_weight(self, output: Shape) -> dict[str, int]:
        positions = output[-1]
        pairs = positions * (positions + 1) // 2 if self.causal else positions**2
        return {"in_proj_weight": 3 * self.features * self.in_features * positions, "": 2 * self.features * pairs}
