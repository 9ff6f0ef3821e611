"""Values as bytes and back, in each of the number formats. The docstring of the package has the table.

The experiment chooses the format, for both directions. float32 is exact. The encoder does not saturate: a value that a
format cannot hold is an error that names the block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import get_args

import numpy as np
import numpy.typing as npt

from edgefl import kernels
from edgefl.errors import CodecError
from edgefl.protocol.codec.format import BFLOAT16, FLOAT16, INT8, Format
from edgefl.protocol.codec.id_tables import ByteReader
from edgefl.rng import ROUNDING, Stream, stream

Floats = npt.NDArray[np.float32]
Named = Sequence[tuple[str, int]]  # names of blocks with their numbers of values

FORMATS: tuple[Format, ...] = get_args(Format)
FLAGS: dict[Format, int] = {"float32": 0, "float16": FLOAT16, "bfloat16": BFLOAT16, "int8": INT8}
WIDTHS: dict[Format, int] = {"float32": 4, "float16": 2, "bfloat16": 2, "int8": 1}
LARGEST = {"float16": "65520", "bfloat16": "3.3961776e38"}  # smaller magnitudes are rounded to a finite value
BLOCK = 256  # number of values that share a scale in int8
SMALLEST = np.float32(2.0**-100)  # smallest scale that is not 0


def format_of(flags: int) -> Format:
    """Return the number format that the flags of a header tell. Raises CodecError if they tell more than one format."""
    found = [name for name, flag in FLAGS.items() if flag & flags]
    if len(found) > 1:
        raise CodecError(f"flags {flags:#04x} of values in {' and '.join(found)}; expected one number format")
    return found[0] if found else "float32"


def value_bytes(form: Format, counts: Sequence[int]) -> int:
    """Return the size in bytes of the values of blocks with these numbers of values."""
    scales = sum(map(_scales, counts)) if form == "int8" else 0
    return WIDTHS[form] * sum(counts) + 4 * scales


def write_values(
    form: Format, blocks: Sequence[tuple[str, Floats]], random_stream: Stream | None
) -> Iterator[bytes | memoryview]:
    """Yield the bytes of the values of blocks, which are given flat and by name.

    random_stream  draws the rounding of int8: a byte for each value, taken from the little-endian words, block by
                   block. None: stream(0, ROUNDING)
    Raises  CodecError naming the block and the value that the format cannot hold.
    """
    if form == "int8":
        yield from _write_int8(blocks, random_stream or stream(0, ROUNDING))
        return
    for name, values in blocks:
        if form == "float32":
            yield np.ascontiguousarray(values, "<f4").view(np.uint8).data
        else:
            yield _halves(form, name, values).data


def read_values(form: Format, reader: ByteReader, blocks: Named) -> list[Floats]:
    """Read the values of blocks, the last part of a payload, as float32. Values sent as float32 are not copied.

    Raises  CodecError naming a block whose bytes do not encode finite values, or if bytes follow the values. float32
            values may be infinite or NaN.
    """
    counts = [count for _, count in blocks]
    data = reader.take("values", value_bytes(form, counts))
    if reader.at != len(reader.data):
        raise CodecError(
            f"{len(reader.data) - reader.at} trailing bytes; expected the end of the payload after the values"
        )
    if form == "int8":
        return _read_int8(data, blocks)
    bounds = np.cumsum([0, *counts])
    values = _widened(form, data)
    parts = [values[start:end] for start, end in pairwise(bounds)]
    if form != "float32" and not np.isfinite(values).all():
        name = next(name for (name, _), part in zip(blocks, parts) if not np.isfinite(part).all())
        raise CodecError(f"block {name!r} holds a non-finite {form} value; expected finite ones")
    return parts


def _widened(form: Format, data: memoryview) -> Floats:
    if form == "float32":
        return np.frombuffer(data, "<f4").astype(np.float32, copy=False)
    values = np.empty(len(data) // 2, np.float32)
    ops = kernels.backend()
    (ops.widen_float16 if form == "float16" else ops.widen_bfloat16)(np.frombuffer(data, np.uint8), values)
    return values


def _halves(form: Format, name: str, values: Floats) -> npt.NDArray[np.uint8]:
    halves, ops = np.empty(2 * values.size, np.uint8), kernels.backend()
    (ops.narrow_float16 if form == "float16" else ops.narrow_bfloat16)(values, halves)
    magnitudes, least = halves.view("<u2") & np.uint16(0x7FFF), np.uint16(0x7C00 if form == "float16" else 0x7F80)
    if magnitudes.size and magnitudes.max() >= least:  # an exponent of ones is not finite
        at = int(np.argmax(magnitudes >= least))
        raise CodecError(
            f"block {name!r}: value {values[at]} at {at}; expected a finite one below {LARGEST[form]} for {form}"
        )
    return halves


# ---- 8 bits with a scale --------------------------------------------------------------------------------------------


def _scales(count: int) -> int:
    return -(-count // BLOCK)


def _write_int8(blocks: Sequence[tuple[str, Floats]], random_stream: Stream) -> Iterator[memoryview]:
    coded = [_narrowed(name, values, random_stream) for name, values in blocks]
    yield from (largest.astype("<f4").view(np.uint8).data for largest, _ in coded)
    yield from (codes.data for _, codes in coded)


def _narrowed(name: str, values: Floats, random_stream: Stream) -> tuple[Floats, npt.NDArray[np.uint8]]:
    noise = random_stream.raw(-(-values.size // 8)).astype("<u8").view(np.uint8)[: values.size]
    largest, codes = np.empty(_scales(values.size), np.float32), np.empty(values.size, np.uint8)
    kernels.backend().narrow_int8(values, noise, largest, codes)
    if not np.isfinite(largest).all():
        at = int(np.flatnonzero(~np.isfinite(values))[0])
        raise CodecError(f"block {name!r}: value {values[at]} at {at}; expected a finite one for int8")
    return largest, codes


def _read_int8(data: memoryview, blocks: Named) -> list[Floats]:
    counts = [count for _, count in blocks]
    scale_bounds, bounds = np.cumsum([0, *map(_scales, counts)]), np.cumsum([0, *counts])
    largest = np.frombuffer(data[: 4 * int(scale_bounds[-1])], "<f4").astype(np.float32, copy=False)
    codes = np.frombuffer(data[4 * int(scale_bounds[-1]) :], np.uint8)
    return [
        _widened_int8(name, largest[first:last], codes[start:end])
        for (name, _), (first, last), (start, end) in zip(blocks, pairwise(scale_bounds), pairwise(bounds))
    ]


def _widened_int8(name: str, largest: Floats, codes: npt.NDArray[np.uint8]) -> Floats:
    wrong = np.flatnonzero(~(((largest >= SMALLEST) & np.isfinite(largest)) | (largest.view(np.uint32) == 0)))
    if wrong.size:
        raise CodecError(
            f"block {name!r} has scale {largest[wrong[0]]}; expected 0, or a finite scale of at least 2^-100"
        )
    if codes.size:
        reach = np.maximum.reduceat(np.abs(codes.astype(np.int16) - 128), np.arange(0, codes.size, BLOCK))
        wrong = np.flatnonzero(reach != np.where(largest > 0, 127, 0))
        if wrong.size:
            found, expected = reach[wrong[0]], 127 if largest[wrong[0]] > 0 else 0
            raise CodecError(f"block {name!r} has a largest code of {found} at one of its scales; expected {expected}")
    values = np.empty(codes.size, np.float32)
    kernels.backend().widen_int8(largest, codes, values)
    return values
