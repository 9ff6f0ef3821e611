"""Frames of another version of the wire, as far as this version can read them. frames.py has frames of this version.

The reader can tell that such a frame is whole, and can read a Refused in it. Version 1 (until 22 November 2026) had no
checksum of the header:

    header   2  magic "EF"
             1  version, 1
             1  type of the message
             4  sequence number
             4  length of the body in bytes
             4  CRC-32 of the 9 bytes of type, sequence number and length, then of the body

A later version is expected to keep the header of version 2, whose checksum shows that the version is no accident.
"""

from __future__ import annotations

import struct
from typing import NamedTuple
from zlib import crc32

from edgefl.errors import OtherVersionError

FIRST = 1
FIRST_HEADER = struct.Struct("<2sBBIII")
FIRST_CHECKED = slice(3, 12)  # the part of a header that its checksum covers, together with the body
SECOND_HEADER = struct.Struct("<2sBBIIII")
SECOND_CHECKED = slice(0, 16)


class _Layout(NamedTuple):
    """The layout of a frame: sizes in bytes, and the checksum of its body, which continues the checksum `start`."""

    header_bytes: int
    body_bytes: int
    checksum: int
    start: int
    is_certain: bool  # the header alone shows that the version is no accident


def encode_first(type: int, sequence: int, body: bytes) -> bytes:
    """Return the frame of a message in version 1."""
    head = FIRST_HEADER.pack(b"EF", FIRST, type, sequence, len(body), 0)
    return FIRST_HEADER.pack(b"EF", FIRST, type, sequence, len(body), crc32(body, crc32(head[FIRST_CHECKED]))) + body


class ForeignFrame:
    """A frame of another version that has begun.

    head  its first 20 bytes
    cap   largest body that is kept, in bytes
    Raises  ValueError if the bytes do not show that the version is no accident.
    """

    def __init__(self, head: bytes, cap: int) -> None:
        self.version, self._type = head[2], head[3]
        layout = _first(head) if self.version == FIRST else _later(head)
        if layout is None or (layout.body_bytes > cap and not layout.is_certain):
            raise ValueError(f"frame of version {self.version}")
        self._layout, self._cap = layout, cap
        self._frame = bytearray(head)

    def add(self, data: bytes | memoryview) -> None:
        """Add further bytes of the stream.

        Raises  OtherVersionError once the frame is whole, or if it is too large to be kept. ValueError if it is
                damaged.
        """
        layout = self._layout
        if layout.body_bytes > self._cap:
            raise OtherVersionError(self.version, self._type, b"")
        end = layout.header_bytes + layout.body_bytes
        self._frame += data[: max(0, end - len(self._frame))]
        if len(self._frame) < end:
            return
        body = bytes(self._frame[layout.header_bytes : end])
        is_whole = crc32(body, layout.start) == layout.checksum
        if not is_whole and not layout.is_certain:
            raise ValueError(f"frame of version {self.version}")
        raise OtherVersionError(self.version, self._type, body if is_whole else b"")


def _first(head: bytes) -> _Layout:
    *_, length, checksum = FIRST_HEADER.unpack(head[: FIRST_HEADER.size])
    return _Layout(FIRST_HEADER.size, length, checksum, crc32(head[FIRST_CHECKED]), False)


def _later(head: bytes) -> _Layout | None:
    *_, length, body_checksum, checksum = SECOND_HEADER.unpack(head)
    if crc32(head[SECOND_CHECKED]) != checksum:
        return None
    return _Layout(SECOND_HEADER.size, length, body_checksum, 0, True)
