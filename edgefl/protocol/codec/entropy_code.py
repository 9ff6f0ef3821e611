"""Bits as a code near their entropy, which is id coding 4: its layout, its size, and the kernels that make it.

The code of n bits with k ones takes about n H(k / n) bits and 12 bytes. This is within 3 % of log2 C(n, k) for n >=
10^5 at every density from .01 to .99. A reader needs only n and k for it. Every division below is rounded down.

    symbols  the rarer one of the two bit values is coded: if 2 k > n, all bits are inverted. Eight bits are a byte. Bit
             i is bit i % 8 of byte i / 8. Bits from n on are 0
    density  P = (2^17 f + n) / (2 n), where f is the number of coded bits
    shares   a byte with c ones has S_c of 8192 slots. For c = 1 ... 8, S_c = T_c / 2^27, or 1 if 2^26 <= T_c < 2^27.
             T_c is 2^40 multiplied c times by P and then 8 - c times by 65536 - P, and divided by 65536 each time. If
             some S_c are 0, an escape has as many slots as the sum of C(8, c) T_c over these c, divided by 2^27, but at
             least 1. S_0 is the rest
    slots    the slots of byte 0, of byte 1, ... of byte 255, of the escape
    code     4 states of 4 bytes, then words of 2 bytes
    reading  byte i takes state x = state[i % 4]. Slot x % 8192 says which symbol it is. For a symbol with s slots from
             b on, x becomes s (x / 8192) + x % 8192 - b. After an escape the byte is x % 256, and x becomes x / 256.
             Each time that x has become less than 65536, it becomes 65536 x + the next word
    end      each state is 65536 again. States are never less than that. The bytes have as many ones as were counted

This is rANS with four states (Duda, "Asymmetric numeral systems", 2013). A writer does the same backwards, from the
last byte, and begins with all states 65536. Where the new state would not fit in 32 bits, the lower 16 bits of the old
state become a word first. So bits have one code only.
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
LOG_UNITS = 4096  # units in one bit of information


def expected_bytes(n: int, k: int) -> int:
    """Return the expected number of bytes of the code of n bits with k ones, about 16 + n H(k / n) / 8.

    The formula uses integers alone, so that both sides agree: 16 + n (P (65536 - lg P) + Q (65536 - lg Q)) / 2^31,
    rounded up. P is as in the docstring of the module but at least 1, Q = 65536 - P, and lg x = 4096 log2 x, rounded
    down.
    """
    few = min(k, n - k)
    return STATES_BYTES + -(-n * _entropy(max(1, ((few << 17) + n) // (2 * n))) >> 31) if n else STATES_BYTES


@lru_cache(maxsize=256)
def _entropy(p: int) -> int:
    """Return the entropy H of a bit with probability p / 65536, in units of 2^-28 bits."""
    return sum(share * (16 * LOG_UNITS - _log2(share)) for share in (p, (1 << 16) - p))


def _log2(number: int) -> int:
    """Return the logarithm to base 2 in units of 1 / LOG_UNITS, rounded down."""
    return (number**LOG_UNITS).bit_length() - 1


def least_bytes(n: int, k: int) -> int:
    """Return a lower bound in bytes for every code of n bits with k ones, where a code is chosen. Bits in a row can
    take less than the expected size.
    """
    return STATES_BYTES + (expected_bytes(n, k) - STATES_BYTES) // 8


def encode_bits(bits: Bits, ones: int) -> bytes:
    """Return the code of `bits`, of which `ones` are ones."""
    code, size = np.empty(STATES_BYTES + (bits.size + 7) // 8 * 4, np.uint8), np.empty(1, np.int64)
    kernels.backend().encode_mask(np.ascontiguousarray(bits).view(np.uint8), ones, code, size)
    return code[code.size - size[0] :].tobytes()


def decode_bits(where: str, data: memoryview, shape: tuple[int, ...], ones: int) -> tuple[Bits, int]:
    """Decode bits of the given shape from the beginning of `data`, and return them with the bytes that their code
    takes.

    Raises  CodecError that begins with `where`, if `data` does not begin with the code of bits with `ones` ones. Data
            that is too short is refused before any allocation.
    """
    n = prod(shape)
    least = least_bytes(n, ones)
    if len(data) < least:
        raise CodecError(f"{where}: {len(data)} bytes left; expected at least {least}, {ones} of {n} ids")
    bits, size = np.empty(shape, np.bool_), np.empty(1, np.int64)
    kernels.backend().decode_mask(np.frombuffer(data, np.uint8), ones, bits.view(np.uint8), size)
    if size[0] < 0:
        raise CodecError(f"{where}: bytes that cannot be decoded; expected the code of {ones} of {n} ids")
    return bits, int(size[0])
