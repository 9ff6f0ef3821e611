"""Bits of a parameter and speed of masks, and of values at a mask, beside other ways to send them. One thread, CPU
time.

The other ways are a bitmap, zlib at its level 6 over the bitmap, 8-byte indices, and safetensors. In safetensors a mask
is a tensor of booleans, and values at a mask are a dense tensor with zeros. The bound of a mask is log2 C(n, k) bits.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator
from math import lgamma, log
from typing import Any, NamedTuple

import numpy as np
import safetensors.numpy

from bench.runner import Contender, Effort, interleave
from edgefl.models.graph import Graph, Node
from edgefl.models.graph.operations import Linear
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.mask import Bits, Mask
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.protocol.codec import FORMATS, decode, encode
from edgefl.protocol.codec.masks import decode_mask, encode_mask

SIDE = 1000  # inputs, and outputs, of a square Linear layer
DENSITIES = (0.01, 0.05, 0.1, 0.2, 0.5, 0.8, 0.95, 0.99)
PAYLOADS = (0.05, 0.1, 0.2, 0.5)
MOVED = 0.01  # share of the ones of a mask that move before the next mask
SPEC = ModelSpec.of(Graph((SIDE,), (Node("fc", Linear(SIDE, SIDE, bias=False), ("input",)),)))
WEIGHT = "fc.weight"

Row = dict[str, str | float]


class Way(NamedTuple):
    """One way to send something: to bytes, and back."""

    write: Callable[[], bytes]
    read: Callable[[bytes], Any]


def measure(effort: Effort) -> Iterator[Row]:
    """Yield a row per density and way: bits of a parameter beside the bound, and 10^9 parameters a second both ways."""
    for density in DENSITIES:
        bits = scattered(density)
        yield from _rows("mask", density, bound_bits(density), masks(bits), effort)
    for density in PAYLOADS:
        bits = scattered(density)
        yield from _rows("mask and values", density, bound_bits(density) + 32 * density, payloads(bits), effort)


def scattered(density: float) -> Bits:
    """Return a mask of the weight with exactly this density."""
    bits = np.zeros(SIDE * SIDE, np.bool_)
    bits[np.random.default_rng(1).permutation(bits.size)[: round(density * bits.size)]] = True
    return bits.reshape(SIDE, SIDE)


def bound_bits(density: float) -> float:
    """Return log2 C(n, k) / n, in bits per parameter."""
    n = SIDE * SIDE
    k = round(density * n)
    return (lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)) / log(2) / n


def masks(bits: Bits) -> dict[str, Way]:
    """Return the ways to send a mask alone. edgefl also sends its difference from a mask with a hundredth of the ones
    moved.
    """
    mask, before = Mask.of(SPEC, {WEIGHT: bits}), Mask.of(SPEC, {WEIGHT: _moved(bits)})
    return {
        "edgefl": Way(lambda: encode_mask(mask, SPEC), lambda data: decode_mask(data, SPEC)),
        "edgefl, 1 % of the ones moved": Way(
            lambda: encode_mask(mask, SPEC, known=before), lambda data: decode_mask(data, SPEC, known=before)
        ),
        "bitmap": Way(lambda: np.packbits(bits).tobytes(), _from_bitmap),
        "zlib": Way(
            lambda: zlib.compress(np.packbits(bits).tobytes(), 6), lambda data: _from_bitmap(zlib.decompress(data))
        ),
        "int64 indices": Way(lambda: np.flatnonzero(bits).astype("<i8").tobytes(), _from_indices),
        "safetensors": Way(lambda: safetensors.numpy.save({WEIGHT: bits}), safetensors.numpy.load),
    }


def payloads(bits: Bits) -> dict[str, Way]:
    """Return the ways to send a mask and normal values at it: edgefl's number formats, and float32 otherwise."""
    mask = Mask.of(SPEC, {WEIGHT: bits})
    weight = np.random.default_rng(2).standard_normal((SIDE, SIDE)).astype(np.float32)
    update, values = take({WEIGHT: weight}, SPEC, mask), weight[bits]
    ways = {f"edgefl {form}": _ours(mask, update, form) for form in FORMATS}
    packed, dense = lambda: np.packbits(bits).tobytes(), np.where(bits, weight, np.float32(0))
    return ways | {
        "bitmap": Way(
            lambda: packed() + values.tobytes(), lambda data: _at(_from_bitmap(data[: SIDE * SIDE // 8]), data)
        ),
        "zlib": Way(lambda: zlib.compress(packed() + values.tobytes(), 6), zlib.decompress),
        "int64 indices": Way(
            lambda: np.flatnonzero(bits).astype("<i8").tobytes() + values.tobytes(),
            lambda data: _at(_from_indices(data[: 8 * values.size]), data),
        ),
        "safetensors": Way(lambda: safetensors.numpy.save({WEIGHT: dense}), safetensors.numpy.load),
    }


def _ours(mask: Mask, update: Any, form: str) -> Way:
    head = len(encode_mask(mask, SPEC))

    def read(data: bytes) -> Any:
        found = decode_mask(data[:head], SPEC)
        return decode(data[head:], SPEC, limit=len(data), known=found)

    return Way(lambda: encode_mask(mask, SPEC) + encode(update, SPEC, values=form, known=mask), read)


def _moved(bits: Bits) -> Bits:
    """Return the mask with a hundredth of its ones moved, or of its zeros if they are fewer."""
    moved, rng = bits.copy().reshape(-1), np.random.default_rng(3)
    count = round(MOVED * min(bits.sum(), bits.size - bits.sum()))
    for value in (True, False):
        moved[rng.choice(np.flatnonzero(bits == value), count, replace=False)] ^= True
    return moved.reshape(bits.shape)


def _from_bitmap(data: bytes) -> Bits:
    return np.unpackbits(np.frombuffer(data, np.uint8), count=SIDE * SIDE).view(np.bool_)


def _from_indices(data: bytes) -> Bits:
    bits = np.zeros(SIDE * SIDE, np.bool_)
    bits[np.frombuffer(data, "<i8")] = True
    return bits


def _at(bits: Bits, data: bytes) -> Any:
    weight = np.zeros(SIDE * SIDE, np.float32)
    weight[bits] = np.frombuffer(data[-4 * int(np.count_nonzero(bits)) :], "<f4")
    return weight


def _rows(what: str, density: float, bound: float, ways: dict[str, Way], effort: Effort) -> Iterator[Row]:
    sent = {name: way.write() for name, way in ways.items()}
    runs = {f"write {name}": _repeated(way.write) for name, way in ways.items()}
    runs |= {f"read {name}": _repeated(way.read, sent[name]) for name, way in ways.items()}
    timings, count = interleave(runs, effort, time.process_time), SIDE * SIDE
    for name in ways:
        yield {
            "what": what,
            "density": density,
            "way": name,
            "bits": 8 * len(sent[name]) / count,
            "bound": bound,
            "encode_gparam_s": count / timings[f"write {name}"].median_s / 1e9,
            "decode_gparam_s": count / timings[f"read {name}"].median_s / 1e9,
        }


def _repeated(work: Callable[..., object], *args: object) -> Contender:
    def run(repeats: int) -> None:
        for _ in range(repeats):
            work(*args)

    return run
