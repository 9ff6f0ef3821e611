"""ReLU of the numba backend."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, Index, planes, split_planes
from ..checked_functions import Call, prepares
from .compiled import compiled, spelt_out


@prepares
def relu_forward(x: Array, y: Array, bits: Array | None = None) -> Call:
    rows = planes(x)
    shape = len(rows), (rows.shape[1] + 7) // 8
    kept = np.empty((len(rows), 0), np.uint8) if bits is None else bits.reshape(shape)
    return _relu_forward, (rows, planes(y), kept)


@compiled
def _relu_forward(x: Array, y: Array, bits: Array) -> None:
    """Compute y [P, inner] and, unless `bits` is empty, bits [P, bytes] of planes. y may alias x."""
    line = np.empty(x.shape[1], x.dtype)
    for plane in range(len(x)):
        line[:] = x[plane]
        for byte in range(bits.shape[1]):
            cells, packed = line[8 * byte : 8 * byte + 8], np.uint8(0)
            for p in range(len(cells)):
                packed |= np.uint8(cells[p] > 0) << np.uint8(p)
            bits[plane, byte] = packed
        target = y[plane]
        for p in range(len(line)):
            target[p] = x.dtype.type(0) if line[p] <= 0 else line[p]


@prepares
def relu_backward(dy: Array, bits: Array, dx: Array, channels: Index) -> Call:
    blocks = split_planes(dy)
    kept = bits.reshape(*dy.shape[:2], (blocks.shape[2] + 7) // 8)
    return _relu_backward, (blocks, kept, split_planes(dx), spelt_out(channels, dy.shape[1]))


@compiled
def _relu_backward(dy: Array, bits: Array, dx: Array, channels: Array) -> None:
    """Set dx[:, channels] to dy where the bit is set, else to 0. dx may alias dy."""
    line = np.empty(dy.shape[2], dy.dtype)
    for b in range(len(dy)):
        for channel in channels:
            line[:] = dy[b, channel]
            for byte in range(bits.shape[2]):
                packed = np.int32(bits[b, channel, byte])
                read, written = line[8 * byte : 8 * byte + 8], dx[b, channel, 8 * byte : 8 * byte + 8]
                for p in range(len(read)):
                    is_on = packed >> np.int32(p) & np.int32(1)
                    written[p] = read[p] if is_on else dy.dtype.type(0)
