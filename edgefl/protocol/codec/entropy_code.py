"""Bits as a code near their entropy: id coding 4. What it looks like, how long it is, and the kernels that make it.

n bits of which k are ones take about n H(k / n) bits and 12 bytes: within 3 % of log2 C(n, k) for n >= 10^5 at every
density from .01 to .99. Nothing beside n and k is needed to read it. All divisions below round down.

    symbols  of ones and zeros the fewer are coded: if 2 k > n, all bits are inverted. Eight bits are a byte, bit i is
             bit i % 8 of byte i / 8; those from n on are 0
    density  P = (2^17 f + n) / (2 n), with f the number of those that are coded
    shares   of 8192 slots a byte with c ones has S_c = T_c / 2^27, or 1 if 2^26 <= T_c < 2^27, for c = 1 ... 8; T_c is
             2^40 multiplied c times by P and then 8 - c times by 65536 - P, and divided by 65536 each time. If some
             S_c are 0, an escape has as many slots as the C(8, c) T_c of those c add up to, over 2^27, but at least 1.
             S_0 is the rest
    slots    those of byte 0, of byte 1, ... of byte 255, of the escape
    code     4 states of 4 bytes, then words of 2 bytes
    reading  byte i takes state x = state[i % 4]. Slot x % 8192 says which symbol: with a share of s slots from b on, x
             becomes s (x / 8192) + x % 8192 - b. After an escape the byte is x % 256, and x becomes x / 256. Each time
             that x has become less than 65536, it becomes 65536 x + the next word
    end      each state is 65536 again; states are never less; the bytes have as many ones as were counted

It is rANS with four states. Writing is the same backwards, from the last byte, with all states 65536: where the new
state would not fit in 32 bits, the lower 16 bits of the old one become a word first. So bits have one code only.
Source: J. Duda, "Asymmetric numeral systems" (2013).
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np
import numpy.typing as npt

from edgefl import kernels
from edgefl.errors import CodecError

Bits = npt.NDArray[np.bool_]

STATES_BYTES = 16
LOG_UNITS = 4096  # of one bit of information


def expected_bytes(n: int, k: int) -> int:
    """About the bytes of the code of n bits with k ones, 16 + n H(k / n) / 8.

    In integers alone, so that both sides agree: 16 + n (P (65536 - lg P) + Q (65536 - lg Q)) / 2^31, rounded up, with P
    as above but at least 1, Q = 65536 - P, and lg x = 4096 log2 x, rounded down.
    """
    few = min(k, n - k)
    return STATES_BYTES + -(-n * _entropy(max(1, ((few << 17) + n) // (2 * n))) >> 31) if n else STATES_BYTES


@lru_cache(maxsize=256)
def _entropy(p: int) -> int:
    """H, in units of 2^-28 bits."""
    return sum(share * (16 * LOG_UNITS - _log2(share)) for share in (p, (1 << 16) - p))


def _log2(number: int) -> int:
    """In units of 1 / LOG_UNITS, rounded down."""
    return (number**LOG_UNITS).bit_length() - 1


def least_bytes(n: int, k: int) -> int:
    """A lower bound in bytes for every code of n bits with k ones, where a code is chosen: bits in a row take less than
    expected.
    """
    return STATES_BYTES + (expected_bytes(n, k) - STATES_BYTES) // 8


def encode_bits(bits: Bits, ones: int) -> bytes:
    """The code of bits, of which so many are ones."""
    code, size = np.empty(STATES_BYTES + (bits.size + 7) // 8 * 4, np.uint8), np.empty(1, np.int64)
    kernels.backend().encode_mask(np.ascontiguousarray(bits).view(np.uint8), ones, code, size)
    return code[code.size - size[0] :].tobytes()


def decode_bits(where: str, data: memoryview, shape: tuple[int, ...], ones: int) -> tuple[Bits, int]:
    """The bits of that shape whose code `data` begins with, and the bytes that it takes.

    Raises  CodecError, opening with `where`, if it is the code of none with so many ones; before anything is allocated,
            if it is too short for that.
    """
    n = prod(shape)
    least = least_bytes(n, ones)
    if len(data) < least:
        raise CodecError(f"{where}: {len(data)} bytes left; expected at least {least}, {ones} of {n} ids")
    bits, size = np.empty(shape, np.bool_), np.empty(1, np.int64)
    kernels.backend().decode_mask(np.frombuffer(data, np.uint8), ones, bits.view(np.uint8), size)
    if size[0] < 0:
        raise CodecError(f"{where}: bytes that are no code; expected the code of {ones} of {n} ids")
    return bits, int(size[0])
