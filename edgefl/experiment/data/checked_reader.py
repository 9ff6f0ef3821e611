"""Reading of files that may be damaged: at most the expected number of bytes, and one error type for every kind of
damage.

The formats are read elsewhere. Sizes in headers are claims: they are compared with the bytes that arrive, and memory
grows only with the bytes that have arrived.
"""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from edgefl.errors import DataError, EdgeflError

_PIECE_BYTES = 1 << 20


def read_exactly(stream: BinaryIO, size: int, what: str) -> bytearray:
    """Return the next `size` bytes. Raises DataError, naming `what`, if the stream ends too early or is damaged."""
    data = bytearray()
    with damage_named(what):
        while len(data) < size:
            piece = stream.read(min(_PIECE_BYTES, size - len(data)))
            if not piece:
                raise DataError(f"{what}: ends after {len(data)} bytes of content; expected {size}")
            data += piece
    return data


def read_at_most(stream: BinaryIO, most: int, what: str) -> bytearray:
    """Return all bytes up to the end. Raises DataError, naming `what`, for damage or more than `most` bytes."""
    data = bytearray()
    with damage_named(what):
        while piece := stream.read(_PIECE_BYTES):
            data += piece
            if len(data) > most:
                raise DataError(f"{what}: more than {most} bytes; expected at most {most} bytes")
    return data


def expect_end(stream: BinaryIO, what: str) -> None:
    """Raise DataError, naming `what`, if the stream does not end here."""
    with damage_named(what):
        if stream.read(1):
            raise DataError(f"{what}: has bytes after its content; expected the end of the file")


@contextmanager
def damage_named(what: str) -> Iterator[None]:
    """Turn errors of the file system and of the readers of formats into a DataError that names `what`."""
    try:
        yield
    except EdgeflError:
        raise
    except PermissionError:
        raise DataError(f"{what}: permission denied; expected a file that this user may read") from None
    except FileNotFoundError:
        raise DataError(f"{what}: no such file; expected a file that exists") from None
    except damages() as error:
        raise DataError(
            f"{what}: cannot be read ({error or type(error).__name__}); expected an undamaged file"
        ) from error


def damages() -> tuple[type[Exception], ...]:
    """Return the types of error that the file system, the decompressors and the standard library's readers raise for
    damaged or hostile bytes. Fuzzing found every group of them. The function is called only after an error, so that a
    device, which reads npz alone, does not load the tar reader.
    """
    import tarfile
    import tokenize

    readers = (zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError, tokenize.TokenError, struct.error)
    # zipfile raises RuntimeError for encryption and unknown methods, and wave raises it for a chunk that is too short
    return (OSError, EOFError, *readers, RuntimeError, LookupError, ValueError, TypeError, ArithmeticError, SyntaxError)
