"""Masks: the integers that AES-256 in counter mode (NIST SP 800-38A) makes of a seed, added to a vector in place.

A mask is never held whole. A chunk of it is made, added and overwritten, so that a device holds its vector and one
chunk. Unsigned integers wrap, which is the sum modulo 2^32 or 2^64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes

CHUNK_BYTES = 1 << 16
BLOCK_BYTES = 16  # older versions of `cryptography` ask for a buffer that is longer than the data by almost a block
START = bytes(BLOCK_BYTES)  # the first counter block. A seed serves one mask alone

Vector = np.ndarray[tuple[int], np.dtype[Any]]  # of uint32 or uint64


def counter_mode(seed: bytes, start: bytes) -> CipherContext:
    """Return the cipher whose output for zeros is the key stream of a seed of 32 bytes."""
    return Cipher(algorithms.AES(seed), modes.CTR(start)).encryptor()


def stream_bytes(seed: bytes, size: int) -> bytes:
    """Return the first bytes of the key stream of a seed."""
    return counter_mode(seed, START).update(bytes(size))


def add_masks(vector: Vector, seeds: Sequence[bytes], signs: Sequence[int], chunk_bytes: int = CHUNK_BYTES) -> None:
    """Add the mask of every seed to the vector in place, or subtract the mask where the sign is -1.

    vector       uint32 or uint64, contiguous, of any length
    seeds        32 bytes each
    signs        1 or -1 for each seed
    chunk_bytes  bytes of a mask that are made at a time, a multiple of 8. The result does not depend on it
    Raises       ValueError for a vector of another type.
    """
    check_vector(vector)
    streams = [(counter_mode(seed, START), _OPERATIONS[sign]) for seed, sign in zip(seeds, signs, strict=True)]
    zeros, chunk = memoryview(bytes(chunk_bytes)), bytearray(chunk_bytes + BLOCK_BYTES)
    masks = np.frombuffer(chunk, np.uint8, chunk_bytes).view(vector.dtype.newbyteorder("<"))
    for start in range(0, len(vector), len(masks)):
        part = vector[start : start + len(masks)]
        plain, mask = zeros[: part.nbytes], masks[: len(part)]
        for stream, operation in streams:
            stream.update_into(plain, chunk)
            operation(part, mask, part)


_OPERATIONS = {1: np.add, -1: np.subtract}


def check_vector(vector: Vector) -> None:
    """Raise ValueError unless masks can be added to the vector in place."""
    if vector.dtype not in (np.uint32, np.uint64) or vector.ndim != 1 or not vector.flags.c_contiguous:
        raise ValueError(f"{vector.ndim} axes of {vector.dtype}; expected a contiguous row of uint32 or uint64")
