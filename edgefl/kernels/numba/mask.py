"""Masks as bytes: compiled loops over the bytes. The reference defines the shares of the bytes, and the code."""

from __future__ import annotations

import numpy as np

from ..arrays import Array
from ..checked_functions import Call, prepares
from ..reference.mask import ESCAPE, LOWEST, SLOT_BITS, SLOTS, STATES, half, shares
from .compiled import compiled


@prepares
def encode_mask(bits: Array, ones: int, code: Array, size: Array) -> Call:
    few, flip = half(bits.size, ones)
    share, start = (np.array(each, np.int64) for each in shares(few, bits.size))
    return _encode, (bits.reshape(-1), np.uint8(flip), share, start, code, size)


@prepares
def decode_mask(code: Array, ones: int, bits: Array, size: Array) -> Call:
    few, flip = half(bits.size, ones)
    share, start = (np.array(each, np.int64) for each in shares(few, bits.size))
    owner = np.repeat(np.arange(ESCAPE + 1), share)
    return _decode, (code, few, np.uint8(flip), share, start, owner, bits.reshape(-1), size)


@compiled
def _encode(bits: Array, flip: int, share: Array, start: Array, code: Array, size: Array) -> None:
    states = np.full(STATES, LOWEST, np.int64)
    at = len(code)
    for i in range((len(bits) + 7) // 8 - 1, -1, -1):
        symbol = 0
        for bit in range(min(8, len(bits) - 8 * i)):
            symbol |= (bits[8 * i + bit] ^ flip) << bit
        state = states[i % STATES]
        if share[symbol] == 0:
            if state >= 1 << 24:
                at = _store(code, at, state & 65535, 2)
                state >>= 16
            state, symbol = state << 8 | symbol, ESCAPE
        if state >= share[symbol] << (32 - SLOT_BITS):
            at = _store(code, at, state & 65535, 2)
            state >>= 16
        quotient = state // share[symbol]
        states[i % STATES] = (quotient << SLOT_BITS) + state - quotient * share[symbol] + start[symbol]
    for lane in range(STATES - 1, -1, -1):
        at = _store(code, at, states[lane], 4)
    size[0] = len(code) - at


@compiled
def _store(code: Array, at: int, value: int, count: int) -> int:
    """Write `count` bytes of a value before position `at`, and return the position at which they begin."""
    for byte in range(count):
        code[at - count + byte] = value >> (8 * byte) & 255
    return at - count


@compiled
def _decode(
    code: Array, few: int, flip: int, share: Array, start: Array, owner: Array, bits: Array, size: Array
) -> None:
    size[0] = -1
    if len(code) < 4 * STATES:
        return
    states, at, found = np.zeros(STATES, np.int64), 4 * STATES, 0
    for lane in range(STATES):
        for byte in range(4):
            states[lane] |= np.int64(code[4 * lane + byte]) << (8 * byte)
        if states[lane] < LOWEST:
            return
    for i in range((len(bits) + 7) // 8):
        state = states[i % STATES]
        slot = state % SLOTS
        symbol = owner[slot]
        state = share[symbol] * (state >> SLOT_BITS) + slot - start[symbol]
        for part in range(1 + (symbol == ESCAPE)):
            if part == 1:
                symbol, state = state & 255, state >> 8
            if state < LOWEST:
                if at + 2 > len(code):
                    return
                state = state << 16 | np.int64(code[at]) | np.int64(code[at + 1]) << 8
                at += 2
        states[i % STATES] = state
        count = min(8, len(bits) - 8 * i)
        if symbol >> count:
            return
        for bit in range(count):
            is_one = symbol >> bit & 1
            found += is_one
            bits[8 * i + bit] = is_one ^ flip
    if found == few and (states == LOWEST).all():
        size[0] = at
