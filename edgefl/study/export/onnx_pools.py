"""Pools of planes and of sequences as ONNX operators."""

from __future__ import annotations

import numpy as np

from edgefl.models.graph.operations import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AvgPool2d,
    MaxPool2d,
    Pool,
    Pool1d,
)
from edgefl.study.export.onnx_file import Writer


def pool(op: Pool | Pool1d, inputs: list[str], to: Writer) -> str:
    """Write a pool of planes or of sequences. Windows that are cut at the end get explicit padding, because runtimes
    read ceil_mode in several ways. An average never counts the positions behind its padding.
    """
    planes, axes = (op.as_planes, (1,)) if isinstance(op, Pool1d) else (op, (0, 1))
    size, result = to.input_shape[1:], op.output(to.input_shape)[1:]
    kernel, stride, before = ([pair[i] for i in axes] for pair in (planes.kernel_size, planes.stride, planes.padding))
    extents = zip(size, result, kernel, stride, before, strict=True)
    over = [max(0, (r - 1) * s + k - n - 2 * p) for n, r, k, s, p in extents]
    window = {"kernel_shape": kernel, "strides": stride}
    if isinstance(planes, MaxPool2d):
        return to.node("MaxPool", *inputs, **window, pads=[*before, *map(sum, zip(before, over, strict=True))])
    assert isinstance(planes, AvgPool2d)
    counts = planes.count_include_pad
    if counts and any(over):
        zeros = to.constant("pads", [0, 0, *before, 0, 0, *before])
        inputs, before, counts = [to.node("Pad", *inputs, zeros)], [0 for _ in before], False
    pads = [*before, *map(sum, zip(before, over, strict=True))]
    return to.node("AveragePool", *inputs, **window, pads=pads, count_include_pad=int(counts))


def adaptive_pool(op: AdaptiveAvgPool2d, inputs: list[str], to: Writer) -> str:
    """Write equal windows as a pool, and other windows, which have no operator, as products with constant weights."""
    window = op.window(to.input_shape)
    if window is not None:
        return pool(window, inputs, to)
    _, height, width = to.input_shape
    rows, columns = shares(height, op.output_size[0]), shares(width, op.output_size[1]).T
    return to.node("MatMul", to.node("MatMul", to.constant("rows", rows), *inputs), to.constant("columns", columns))


def adaptive_sequence(op: AdaptiveAvgPool1d, inputs: list[str], to: Writer) -> str:
    _, length = to.input_shape
    return to.node("MatMul", *inputs, to.constant("columns", shares(length, op.output_size).T))


def shares(size: int, parts: int) -> np.ndarray:
    """Return [parts, size]: 1 / n at the n cells of part i, from i size / parts rounded down to (i + 1) size / parts
    up.
    """
    weights = np.zeros((parts, size))
    for i in range(parts):
        first, last = i * size // parts, -(-(i + 1) * size // parts)
        weights[i, first:last] = 1 / (last - first)
    return weights
