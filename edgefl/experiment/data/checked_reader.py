"""Reading of files that may be damaged: at most the expected number of bytes, and one error type for every kind of
damage.

Not the formats. Sizes in headers are claims: they are compared with what arrives, and memory grows with what has
arrived.
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
    """The next `size` bytes. Raises DataError, naming `what`, if the stream ends before them or is damaged."""
    data = bytearray()
    with damage_named(what):
        while len(data) < size:
            piece = stream.read(min(_PIECE_BYTES, size - len(data)))
            if not piece:
                raise DataError(f"{what}: ends after {len(data)} bytes of content; expected {size}")
            data += piece
    return data


def read_at_most(stream: BinaryIO, most: int, what: str) -> bytearray:
    """All bytes up to the end. Raises DataError, naming `what`, if there are more than `most` or they are damaged."""
    data = bytearray()
    with damage_named(what):
        while piece := stream.read(_PIECE_BYTES):
            data += piece
            if len(data) > most:
                raise DataError(f"{what}: more than {most} bytes; expected at most so many")
    return data


def expect_end(stream: BinaryIO, what: str) -> None:
    """Raises DataError, naming `what`, if anything follows."""
    with damage_named(what):
        if stream.read(1):
            raise DataError(f"{what}: has bytes after its content; expected the end of the file")


@contextmanager
def damage_named(what: str) -> Iterator[None]:
    """Errors of the file system and of the readers of formats become a DataError that names `what`."""
    try:
        yield
    except EdgeflError:
        raise
    except PermissionError:
        raise DataError(f"{what}: permission denied; expected a file that this user may read") from None
    except damages() as error:
        raise DataError(
            f"{what}: cannot be read ({error or type(error).__name__}); expected an undamaged file"
        ) from error


def damages() -> tuple[type[Exception], ...]:
    """What the file system, the decompressors and the standard library's readers raise over bytes that are damaged or
    hostile: fuzzing found every group of them. Asked for when something was raised: a device, which reads npz alone,
    does not load the tar reader.
    """
    import tarfile
    import tokenize

    readers = (zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError, tokenize.TokenError, struct.error)
    # RuntimeError is how zipfile reports encryption and methods it does not know, and wave a chunk that is too short
    return (OSError, EOFError, *readers, RuntimeError, LookupError, ValueError, TypeError, ArithmeticError, SyntaxError)
