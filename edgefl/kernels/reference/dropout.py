"""Dropout in plain numpy, and the random stream that says what is dropped. csrc/edgefl.h defines it (efl_dropout).

Source: Philox4x32-10, Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, Index, all_or

Words = NDArray[np.uint64]  # words of 32 bits, so that the product of two words fits

MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
BUMPS = (0x9E3779B9, 0xBB67AE85)  # added to the halves of the key in each round
ROUNDS = 10
BLOCKS = 16  # blocks whose words lie side by side
LOW, HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


def philox(counter: tuple[Words, Words, Words, Words], key: int) -> tuple[Words, Words, Words, Words]:
    """Return the four words of each block. The low half of the 64-bit key comes first."""
    c0, c1, c2, c3 = counter
    for number in range(ROUNDS):
        k0, k1 = (np.uint64(((key >> 32 * i) + number * bump) & 0xFFFFFFFF) for i, bump in enumerate(BUMPS))
        p, q = MULTIPLIERS[0] * c0, MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (q >> HALF) ^ c1 ^ k0, q & LOW, (p >> HALF) ^ c3 ^ k1, p & LOW
    return c0, c1, c2, c3


def words(state: Array, node: int, examples: int, count: int) -> Words:
    """Return the first `count` words of each example, as [examples, count]."""
    tiles = -(-count // (4 * BLOCKS))
    key, step, first = (int(value) for value in state)
    blocks, each = np.arange(tiles * BLOCKS, dtype=np.uint64), np.arange(first, first + examples)
    shape = (examples, len(blocks))
    counter = (
        np.broadcast_to(blocks, shape),
        np.broadcast_to((each % (1 << 32)).astype(np.uint64)[:, None], shape),
        np.full(shape, step % (1 << 32), np.uint64),
        np.full(shape, node, np.uint64),
    )
    found = np.stack([word.reshape(examples, tiles, BLOCKS) for word in philox(counter, key % (1 << 64))], axis=2)
    return found.reshape(examples, tiles * 4 * BLOCKS)[:, :count]


def dropout(
    x: Array, state: Array, node: int, threshold: int, scale: float, whole: bool, y: Array, channels: Index
) -> None:
    """Set y[:, channels] to x scale where the word of a value, or of its plane if `whole`, reaches threshold, else to x
    0.
    """
    batch, count, *plane = x.shape
    chosen, size = all_or(channels, count), count * (1 if whole else math.prod(plane))
    kept = words(state, node, batch, size) >= threshold
    factors = np.where(kept, x.dtype.type(scale), x.dtype.type(0))
    factors = factors.reshape(batch, count, *([1] * len(plane) if whole else plane))
    y[:, chosen] = (x * factors)[:, chosen]


def uniform(y: Array, state: Array, node: int) -> None:
    """Set y to numbers of the open interval (0, 1): the odd multiples of 2^-24 that the words of the stream choose."""
    found = words(state, node, len(y), math.prod(y.shape[1:]))
    y[...] = ((2 * (found >> np.uint64(9)) + 1) / 2**24).reshape(y.shape)


def count_step(state: Array) -> None:
    """Go to the next step: state[1] += 1."""
    state[1] += 1
