"""Operations on sequences: GRU, LSTM and self-attention, on lines [features, steps].

The parameters have torch's names and layouts; of several gates, or of queries, keys and values, the rows lie one below
the other. Not here: a module's initial state, which is 0, masks but the causal one, and other directions and layers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from edgefl.models.graph.operations.base import Operation, ParamInfo, Shape


def steps(op: Operation, shape: Shape, features: int) -> Shape:
    """The number of steps, which follows the features in the shape of a sequence, or of a plane of one row; other
    shapes raise GraphError.
    """
    if len(shape) not in (2, 3) or shape[0] != features or (len(shape) == 3 and shape[1] != 1):
        op.refuse(f"input of shape {shape}", f"({features}, steps)")
    return shape[1:]


@dataclass(frozen=True)
class Recurrent(Operation):
    """One layer in one direction over a sequence from the state 0: the states after each step, [hidden_size, steps]."""

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
class GRU(Recurrent):
    """h' = (1 - z) n + z h with the gates r, z and n."""

    gates: ClassVar[int] = 3


@dataclass(frozen=True)
class LSTM(Recurrent):
    """h' = o tanh(c') and c' = f c + i g with the gates i, f, g and o."""

    gates: ClassVar[int] = 4


@dataclass(frozen=True)
class SelfAttention(Operation):
    """The first half of nn.MultiheadAttention, up to its out_proj, which is a Linear: [heads * head_dim, places].

    Queries, keys and values of every place are products with in_proj_weight; by heads, each place takes of the values
    the shares softmax(k . q / sqrt(head_dim)), where causal of the places up to itself only.
    """

    in_features: int
    num_heads: int
    head_dim: int
    causal: bool = False
    bias: bool = True
    main: ClassVar[str] = "in_proj_weight"

    @property
    def features(self) -> int:
        """The features of the result, which are those of queries, keys and values each."""
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
