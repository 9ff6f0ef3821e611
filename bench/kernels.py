"""Single products of every convolution and Linear layer of the models: forward, gradient of input, gradient of weight.

Native products with the channels that are active at each p are compared with PyTorch's dense product. A p below 1 is
left out where the layer's position makes it equal to p = 1 (the forward pass, most input gradients). Bias is left out
on both sides. Arrays start on cache lines, as a learner's arrays and PyTorch's own results do.

A layer's three products are followed by their sum, "step". Its bound takes the share of each product that p leaves from
the layer's own times at p = 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch

from bench import machine, peers
from bench.rows import Row, native_name, row
from bench.runner import Contender, Effort, Timing, clock_for, interleave
from bench.step import KEEPS, SEED, Case
from edgefl.kernels import native
from edgefl.kernels.memory import aligned_bytes
from edgefl.learning.lowering.mac_counts import LayerMacs, layer_macs
from edgefl.models.graph import Graph
from edgefl.models.graph.operations import Conv2d, Linear, Operation
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.rng import NEURONS, stream

KINDS = ("forward", "grad_input", "grad_weight")
Array = np.ndarray[Any, np.dtype[np.float32]]


class Layer(NamedTuple):
    """A convolution or Linear layer with random operands. `macs` are multiply-adds by p."""

    op: Operation
    x: Array
    weight: Array
    dy: Array
    macs: dict[float, LayerMacs]


def measure(cases: Sequence[Case], threads: Sequence[int], effort: Effort) -> Iterator[Row]:
    """Yield rows of each case, batch size, layer (equal layers once), number of threads, kind of product and p."""
    for case in cases:
        for batch in case.batches:
            for name, layer in layers(case.graph, batch).items():
                for count in threads:
                    machine.use_threads(count)
                    work = f"{case.model} {name}"
                    products = [list(_measure(f"{work} {kind}", layer, kind, count, effort)) for kind in KINDS]
                    yield from chain(*products)
                    yield from _steps(f"{work} step", [rows for rows in products if rows])


def _steps(work: str, products: Sequence[Sequence[Row]]) -> Iterator[Row]:
    """Yield the sums over a layer's products for each p. A product without a row for p counts with its row of p = 1."""
    dense = [rows[0] for rows in products]
    whole_s = sum(row.native.median_s for row in dense)
    for keep in KEEPS:
        parts = [next((row for row in rows if row.keep == keep), rows[0]) for rows in products]
        native, eager, fastest = (
            Timing.total([getattr(row, side) for row in parts]) for side in ("native", "eager", "fastest")
        )
        bound = sum(whole.native.median_s * part.bound for whole, part in zip(dense, parts, strict=True)) / whole_s
        best = "/".join(dict.fromkeys(row.best for row in parts))
        frozen = native.median_s / whole_s
        yield Row(work, dense[0].batch, dense[0].threads, keep, native, eager, fastest, best, frozen, bound)


def _measure(work: str, layer: Layer, kind: str, threads: int, effort: Effort) -> Iterator[Row]:
    keeps = _keeps(layer, kind)
    if not keeps:
        return
    timings = interleave(contenders(layer, kind), effort, clock_for(threads))
    whole = getattr(layer.macs[1.0], kind)
    for keep in keeps:
        yield row(work, len(layer.x), threads, keep, timings, getattr(layer.macs[keep], kind) / whole)


def contenders(layer: Layer, kind: str) -> dict[str, Contender]:
    """Return the contenders for this product: the native kernel at each p that matters, and PyTorch's dense paths.

    The result is empty where the layer's position makes the product superfluous.
    """
    keeps = _keeps(layer, kind)
    if not keeps:
        return {}
    x, weight, dy = (torch.from_numpy(array) for array in (layer.x, layer.weight, layer.dy))
    native_runs = {native_name(keep): _native(layer, kind, layer.macs[keep]) for keep in keeps}
    return native_runs | peers.products(layer.op, x, weight, dy, kind)


def _keeps(layer: Layer, kind: str) -> list[float]:
    """Return the shares p for which the product differs from the product at p = 1, and 1. Return [] without such a
    product.
    """
    counts = {keep: getattr(macs, kind) for keep, macs in layer.macs.items()}
    return [keep for keep in KEEPS if counts[1.0] and (keep == 1 or counts[keep] != counts[1.0])]


def layers(graph: Graph, batch: int) -> dict[str, Layer]:
    """Return layers that differ in geometry or in their needs at some p, by the name of the first of its kind."""
    spec, values = ModelSpec.of(graph), np.random.RandomState(SEED)
    macs = {keep: layer_macs(graph, NeuronSet.draw(spec, keep, stream(SEED, NEURONS))) for keep in KEEPS}
    found: dict[str, Layer] = {}
    seen: set[object] = set()
    for node in graph.nodes:
        if not isinstance(node.op, Conv2d | Linear):
            continue
        counts = tuple(macs[keep][node.name][:3] for keep in KEEPS)
        key = (node.op, graph.shapes[node.inputs[0]], counts)
        if key not in seen:
            seen.add(key)
            shapes = (graph.shapes[node.inputs[0]], node.op.parameters()["weight"].shape, graph.shapes[node.name])
            x, weight, dy = (
                _filled(values.standard_normal(shape))
                for shape in ((batch, *shapes[0]), shapes[1], (batch, *shapes[2]))
            )
            found[node.name] = Layer(node.op, x, weight, dy, {keep: macs[keep][node.name] for keep in KEEPS})
    return found


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
        y = _empty(dy.shape)
        return lambda: native.conv2d_forward(x, weight, None, y, *geometry)
    if kind == "grad_input":
        dx = _empty(x.shape)
        return lambda: native.conv2d_grad_input(dy, weight, dx, *geometry, None, macs.inputs)
    dw = _compact(weight, macs)
    return lambda: native.conv2d_grad_weight(x, dy, dw, *geometry, macs.rows, macs.cols, op.in_channels)


def _linear_call(layer: Layer, kind: str, macs: LayerMacs) -> Callable[[], object]:
    _, x, weight, dy, _ = layer
    if kind == "forward":
        y = _empty(dy.shape)
        return lambda: native.linear_forward(x, weight, None, y)
    if kind == "grad_input":
        dx = _empty(x.shape)
        return lambda: native.linear_grad_input(dy, weight, dx, None, macs.inputs)
    dw = _compact(weight, macs)
    return lambda: native.linear_grad_weight(x, dy, dw, macs.rows, macs.cols)


def _compact(weight: Array, macs: LayerMacs) -> Array:
    rows = weight.shape[0] if macs.rows is None else len(macs.rows)
    cols = weight.shape[1] if macs.cols is None else len(macs.cols)
    return _empty((rows, cols, *weight.shape[2:]))


def _empty(shape: tuple[int, ...]) -> Array:
    """Return a float32 array that starts on a cache line."""
    return aligned_bytes(4 * math.prod(shape)).view(np.float32).reshape(shape)


def _filled(values: np.ndarray[Any, Any]) -> Array:
    array = _empty(values.shape)
    array[...] = values
    return array
