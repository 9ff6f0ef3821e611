"""Masks as bytes in plain Python: static rANS over the bytes of a mask's bits.

The format is described in codec/entropy_code.py.
"""

from __future__ import annotations

from functools import lru_cache
from math import comb

import numpy as np

from ..arrays import Array

SLOT_BITS = 13
SLOTS = 1 << SLOT_BITS
LOWEST = 1 << 16  # least value of a state, which is below 2^32
STATES = 4
ESCAPE = 256

Shares = tuple[tuple[int, ...], tuple[int, ...]]  # numbers of slots, and first slots, of every byte and of the escape


def encode_mask(bits: Array, ones: int, code: Array, size: Array) -> None:
    """Write the code of `bits`, each 0 or 1, of which `ones` are 1. The code is the last size[0] bytes of `code`."""
    few, flip = half(bits.size, ones)
    share, start = shares(few, bits.size)
    symbols = np.packbits(bits.reshape(-1) ^ np.uint8(flip), bitorder="little").tolist()
    states, words = [LOWEST] * STATES, []
    for i in reversed(range(len(symbols))):
        state, symbol = states[i % STATES], symbols[i]
        if share[symbol] == 0:
            if state >= 1 << 24:
                words.append(state & 65535)
                state >>= 16
            state, symbol = state << 8 | symbol, ESCAPE
        if state >= share[symbol] << 32 - SLOT_BITS:
            words.append(state & 65535)
            state >>= 16
        quotient, rest = divmod(state, share[symbol])
        states[i % STATES] = (quotient << SLOT_BITS) + rest + start[symbol]
    found = np.array(states, "<u4").tobytes() + np.array(words[::-1], "<u2").tobytes()
    code[code.size - len(found) :] = np.frombuffer(found, np.uint8)
    size[0] = len(found)


def decode_mask(code: Array, ones: int, bits: Array, size: Array) -> None:
    """Read the bits whose code is the first size[0] bytes of `code`. size[0] is -1 if no mask of so many ones has this
    code.
    """
    size[0] = -1
    few, flip = half(bits.size, ones)
    symbols, taken = decode_symbols(code, few, bits.size)
    found = np.unpackbits(np.array(symbols, np.uint8), bitorder="little")
    if taken >= 0 and found.sum() == few and not found[bits.size :].any():
        bits.reshape(-1)[...] = found[: bits.size] ^ np.uint8(flip)
        size[0] = taken


def decode_symbols(code: Array, few: int, n: int) -> tuple[list[int], int]:
    """Return the bytes, and how many bytes of `code` they took.

    The number is -1 if `code` ends too soon, or if encode_mask would write another code.
    """
    if code.size < 4 * STATES:
        return [], -1
    share, start = shares(few, n)
    owner = [symbol for symbol in range(ESCAPE + 1) for _ in range(share[symbol])]
    states = np.frombuffer(code[: 4 * STATES].tobytes(), "<u4").tolist()
    words = np.frombuffer(code[4 * STATES :].tobytes(), "<u2", (code.size - 4 * STATES) // 2).tolist()
    if min(states) < LOWEST:
        return [], -1
    symbols, read = [], 0
    for i in range((n + 7) // 8):
        state = states[i % STATES]
        slot = state % SLOTS
        symbol = owner[slot]
        state = share[symbol] * (state >> SLOT_BITS) + slot - start[symbol]
        for is_raw in (False, True)[: 1 + (symbol == ESCAPE)]:
            if is_raw:
                state, symbol = state >> 8, state & 255
            if state < LOWEST:
                if read == len(words):
                    return [], -1
                state, read = state << 16 | words[read], read + 1
        states[i % STATES] = state
        symbols.append(symbol)
    return symbols, 4 * STATES + 2 * read if states == [LOWEST] * STATES else -1


def half(n: int, ones: int) -> tuple[int, int]:
    """Return the smaller of the numbers of ones and zeros, which are coded, and 1 if these are the zeros."""
    return min(ones, n - ones), int(2 * ones > n)


@lru_cache(maxsize=64)
def shares(few: int, n: int) -> Shares:
    """Return the slots of every byte and of the escape. A byte whose share is below half a slot has no slot."""
    one = (few * 131072 + n) // (2 * n) if n else 0  # the density, times 2^16
    unit = 1 << 40 - SLOT_BITS
    exact = [_product(one, c) for c in range(9)]
    of = [0, *(1 if unit // 2 <= share < unit else share // unit for share in exact[1:])]
    rare = [comb(8, c) * exact[c] for c in range(1, 9) if of[c] == 0]
    escape = max(1, sum(rare) // unit) if rare else 0
    of[0] = SLOTS - escape - sum(comb(8, c) * of[c] for c in range(1, 9))
    share = [*(of[byte.bit_count()] for byte in range(256)), escape]
    return tuple(share), tuple(np.cumsum([0, *share[:-1]]).tolist())


def _product(one: int, c: int) -> int:
    """Return the share of a byte with c ones, times 2^40. Each product is rounded down."""
    product = 1 << 40
    for factor in [one] * c + [65536 - one] * (8 - c):
        product = product * factor >> 16
    return product
