"""MNN's steps on a ready float32 batch with every parameter trained: the graph's layers by MNN's layers and own
weights.

An operation for which MNN's Python has no layer is an error that names the operation. Unless `lazy_eval` is on, MNN's
optimiser returns False and nothing is trained.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import numpy as np
from MNN import expr, nn, optim

from bench.arm.workload import LEARNING_RATE, SCALE, SHIFT, Work
from bench.runner import Contender
from edgefl.models.graph import Graph
from edgefl.models.graph.graph import INPUT
from edgefl.models.graph.operations import (
    AdaptiveAvgPool2d,
    Add,
    BatchNorm2d,
    Conv2d,
    Flatten,
    GlobalAvgPool,
    Linear,
    MaxPool2d,
    Operation,
    ReLU,
    ReLU6,
)


class Layers(nn.Module):  # type: ignore[misc]
    """The nodes of a graph, in order."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.nodes, self.shapes = graph.nodes, graph.shapes
        for node in graph.nodes:
            if layer := _layer(node.op):
                setattr(self, _attribute(node.name), layer)

    def forward(self, x: expr.Var) -> expr.Var:
        results = {INPUT: x}
        for node in self.nodes:
            inputs = [results[name] for name in node.inputs]
            layer = getattr(self, _attribute(node.name), None)
            results[node.name] = layer(*inputs) if layer else _applied(node.op, *inputs)
        return results[self.nodes[-1].name]


def steps(work: Work) -> tuple[str, Contender]:
    """Return the version, and steps on the batch.

    Raises NotImplementedError for an operation that MNN's Python lacks.
    """
    expr.lazy_eval(True)
    expr.set_thread_number(1)
    module = Layers(work.model.graph)
    module.train(True)
    sgd = optim.SGD(module, LEARNING_RATE, 0.0, 0.0)
    (classes,) = work.model.graph.output_shape
    x = expr.const(work.x.astype(np.float32) * np.float32(SCALE) + np.float32(SHIFT), list(work.x.shape), expr.NCHW)
    targets = expr.one_hot(expr.const(work.y, [len(work.y)], expr.NCHW, expr.int), classes, 1.0, 0.0)

    def run(repeats: int) -> None:
        for _ in range(repeats):
            if not sgd.step(nn.loss.cross_entropy(expr.softmax(module.forward(x), -1), targets)):
                raise RuntimeError("MNN's SGD.step returned False: nothing was trained; expected True")

    return version("MNN"), run


def _attribute(name: str) -> str:
    return "layer_" + name.replace(".", "_")


def _layer(op: Operation) -> Any:
    """Return a module with parameters, or None for an operation without parameters."""
    if isinstance(op, Conv2d):
        depthwise = op.groups > 1
        settings = (list(op.kernel_size), list(op.stride), list(op.padding), list(op.dilation))
        return nn.conv(op.in_channels, op.out_channels, *settings, depthwise, op.bias, expr.CAFFE)
    if isinstance(op, Linear):
        return nn.linear(op.in_features, op.out_features, op.bias)
    return nn.batch_norm(op.num_features) if isinstance(op, BatchNorm2d) else None


def _applied(op: Operation, *inputs: expr.Var) -> expr.Var:
    x = inputs[0]
    if isinstance(op, (ReLU, ReLU6)):
        return (expr.relu6 if isinstance(op, ReLU6) else expr.relu)(x)
    if isinstance(op, MaxPool2d):
        return expr.max_pool(x, list(op.kernel_size), list(op.stride))
    if isinstance(op, Add):
        return inputs[0] + inputs[1]
    if isinstance(op, (GlobalAvgPool, AdaptiveAvgPool2d)):
        return expr.reshape(expr.reduce_mean(expr.convert(x, expr.NCHW), [2, 3]), [0, -1])
    if isinstance(op, Flatten):
        return expr.reshape(expr.convert(x, expr.NCHW), [0, -1])
    raise NotImplementedError(f"{type(op).__name__}: MNN's Python has no such layer to train")
