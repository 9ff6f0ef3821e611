"""Single products of every convolution and Linear layer of the models: forward, gradient of input, gradient of weight.

Native with the channels that are active at each p against PyTorch's dense product. A p below 1 is left out where the
layer's position makes it equal to p = 1 (the forward pass, most input gradients). Bias is left out on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from bench import machine, peers
from bench.bound import LayerMacs, layer_macs
from bench.rows import Row, native_name, row
from bench.runner import Contender, Effort, clock_for, interleave
from bench.step import KEEPS, SEED, Case
from edgefl.graph import Graph
from edgefl.kernels import native
from edgefl.ops import Conv2d, Linear, Op
from edgefl.rng import NEURONS, stream
from edgefl.selection import NeuronSet
from edgefl.spec import ModelSpec

KINDS = ("forward", "grad_input", "grad_weight")
Array = np.ndarray[Any, np.dtype[np.float32]]


class Layer(NamedTuple):
    """A convolution or Linear layer with random operands; macs by p."""

    op: Op
    x: Array
    weight: Array
    dy: Array
    macs: dict[float, LayerMacs]


def measure(cases: Sequence[Case], threads: Sequence[int], effort: Effort) -> Iterator[Row]:
    """Rows of each case, batch size, layer (equal ones once), kind of product, number of threads and p."""
    for case in cases:
        for batch in case.batches:
            for name, layer in _layers(case.graph, batch).items():
                for kind in KINDS:
                    yield from _measure(f"{case.model} {name} {kind}", layer, kind, threads, effort)


def _measure(work: str, layer: Layer, kind: str, threads: Sequence[int], effort: Effort) -> Iterator[Row]:
    counts = {keep: getattr(macs, kind) for keep, macs in layer.macs.items()}
    if counts[1.0] == 0:
        return
    keeps = [keep for keep in KEEPS if keep == 1 or counts[keep] != counts[1.0]]
    runs = {native_name(keep): _native(layer, kind, layer.macs[keep]) for keep in keeps}
    x, weight, dy = (torch.from_numpy(array) for array in (layer.x, layer.weight, layer.dy))
    contenders = runs | peers.products(layer.op, x, weight, dy, kind)
    for count in threads:
        machine.use_threads(count)
        timings = interleave(contenders, effort, clock_for(count))
        for keep in keeps:
            yield row(work, len(layer.x), count, keep, timings, counts[keep] / counts[1.0])


def _layers(graph: Graph, batch: int) -> dict[str, Layer]:
    """The layers of a model that differ in geometry, by the name of the first of its kind."""
    spec, values = ModelSpec.of(graph), np.random.RandomState(SEED)
    macs = {keep: layer_macs(graph, NeuronSet.draw(spec, keep, stream(SEED, NEURONS))) for keep in KEEPS}
    layers: dict[str, Layer] = {}
    seen: set[object] = set()
    for node in graph.nodes:
        key = (node.op, graph.shapes[node.inputs[0]])
        if isinstance(node.op, Conv2d | Linear) and key not in seen:
            seen.add(key)
            shapes = (graph.shapes[node.inputs[0]], node.op.parameters()["weight"].shape, graph.shapes[node.name])
            x, weight, dy = (
                values.standard_normal(shape).astype(np.float32)
                for shape in ((batch, *shapes[0]), shapes[1], (batch, *shapes[2]))
            )
            layers[node.name] = Layer(node.op, x, weight, dy, {keep: macs[keep][node.name] for keep in KEEPS})
    return layers


def _native(layer: Layer, kind: str, macs: LayerMacs) -> Contender:
    call = _conv_call(layer, kind, macs) if isinstance(layer.op, Conv2d) else _linear_call(layer, kind, macs)

    def run(repeats: int) -> None:
        for _ in range(repeats):
            call()

    return run


def _conv_call(layer: Layer, kind: str, macs: LayerMacs) -> Callable[[], object]:
    op, x, weight, dy, _ = layer
    assert isinstance(op, Conv2d)
    geometry = (op.stride, op.padding, op.dilation, op.groups)
    if kind == "forward":
        y = np.empty_like(dy)
        return lambda: native.conv2d_forward(x, weight, None, y, *geometry)
    if kind == "grad_input":
        dx = np.empty_like(x)
        return lambda: native.conv2d_grad_input(dy, weight, dx, *geometry, None, macs.inputs)
    dw = _compact(weight, macs)
    return lambda: native.conv2d_grad_weight(x, dy, dw, *geometry, macs.rows, macs.cols, op.in_channels)


def _linear_call(layer: Layer, kind: str, macs: LayerMacs) -> Callable[[], object]:
    _, x, weight, dy, _ = layer
    if kind == "forward":
        y = np.empty_like(dy)
        return lambda: native.linear_forward(x, weight, None, y)
    if kind == "grad_input":
        dx = np.empty_like(x)
        return lambda: native.linear_grad_input(dy, weight, dx, None, macs.inputs)
    dw = _compact(weight, macs)
    return lambda: native.linear_grad_weight(x, dy, dw, macs.rows, macs.cols)


def _compact(weight: Array, macs: LayerMacs) -> Array:
    rows = weight.shape[0] if macs.rows is None else len(macs.rows)
    cols = weight.shape[1] if macs.cols is None else len(macs.cols)
    return np.empty((rows, cols, *weight.shape[2:]), np.float32)
