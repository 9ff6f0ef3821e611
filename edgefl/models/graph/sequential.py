"""A list of nodes to which built-in models append one layer after the other. This module knows no model."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from edgefl.models.graph.graph import INPUT, Node
from edgefl.models.graph.operations import BatchNorm2d, Conv2d, GroupNorm, Linear, MaxPool2d, Operation, ReLU, Shape

NORM_GROUPS = 2


@dataclass
class Layers:
    """Nodes that are appended one after the other, with the shape of every result so far."""

    input_shape: Shape
    nodes: list[Node] = field(default_factory=list)
    shapes: dict[str, Shape] = field(default_factory=dict)

    @property
    def last(self) -> str:
        return self.nodes[-1].name if self.nodes else INPUT

    @property
    def shape(self) -> Shape:
        return self.shapes.get(self.last, self.input_shape)

    def add(self, name: str, op: Operation, *inputs: str) -> None:
        """Append `op` on `inputs`, or on the last result if no inputs are given."""
        node = Node(name, op, inputs or (self.last,))
        self.shapes[name] = node.output({INPUT: self.input_shape} | self.shapes)
        self.nodes.append(node)

    def conv(self, name: str, out: int, kernel: int, *, stride: int = 1, pad: int = 0, bias: bool = True) -> None:
        op = Conv2d(self.shape[0], out, (kernel, kernel), (stride, stride), (pad, pad), bias=bias)
        self.add(name, op)

    def linear(self, name: str, out: int, *, bias: bool = True) -> None:
        self.add(name, Linear(math.prod(self.shape), out, bias))

    def pool(self, name: str, kernel: int = 2, *, stride: int = 2, pad: int = 0) -> None:
        self.add(name, MaxPool2d((kernel, kernel), (stride, stride), (pad, pad)))

    def group_norm(self, name: str) -> None:
        self.add(name, GroupNorm(NORM_GROUPS, self.shape[0]))

    def conv_bn(self, index: int, out: int, kernel: int, *, stride: int = 1, pad: int) -> None:
        """Append convolution, batch norm, ReLU and 2x2 pooling: the block of FedSPU's CNNs."""
        self.conv(f"conv{index}", out, kernel, stride=stride, pad=pad)
        self.add(f"bn{index}", BatchNorm2d(out))
        self.add(f"relu{index}", ReLU())
        self.pool(f"pool{index}")
