"""Frames that carry messages in a stream of bytes: how they are made and found again. messages.py has the bodies.

    header   2  magic "EF"
             1  version, 2
             1  type of the message (messages.TYPES)
             4  sequence number: 0 for the first frame of a direction, and one more for each frame after it
             4  length of the body in bytes, at least 1
             4  CRC-32 of the body
             4  CRC-32 of the 16 bytes before
    body     the message

All numbers are little-endian and unsigned. A header is checked as soon as it is complete, before any of its body is
kept. So the decoder never waits for a length that was changed on its way. The checksums find accidents, which are a
DamagedFrameError, and always find a single flipped bit. Only TLS protects against changes on purpose. A whole frame of
another version is not an accident (other_versions.py).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple
from zlib import crc32

from edgefl.errors import DamagedFrameError, LocalProtocolError, RemoteProtocolError
from edgefl.protocol.wire.other_versions import ForeignFrame

MAGIC, VERSION = b"EF", 2
HEADER = struct.Struct("<2sBBIIII")
CHECKED = slice(0, 16)  # the part of a header that its own checksum covers
LARGEST = 2**32 - 1  # limit of the sequence number, and of the length of a body


class Header(NamedTuple):
    magic: bytes
    version: int
    type: int
    sequence: int
    length: int
    body_checksum: int
    checksum: int


def encode(type: int, sequence: int, body: bytes) -> bytes:
    """Return the frame of a message. Raises LocalProtocolError if the body is empty, or a number exceeds 32 bits."""
    if not 0 < len(body) <= LARGEST:
        raise LocalProtocolError(f"frame of {len(body)} bytes; expected 1 to {LARGEST}")
    if sequence > LARGEST:
        raise LocalProtocolError(
            f"frame {sequence} of a connection; expected at most {LARGEST} frames, and then a new connection"
        )
    fields = MAGIC, VERSION, type, sequence, len(body), crc32(body)
    return HEADER.pack(*fields, crc32(HEADER.pack(*fields, 0)[CHECKED])) + body


class Decoder:
    """A decoder for one direction of a connection. It takes bytes in pieces of any size and returns whole frames.

    cap  largest body that is accepted, in bytes. It may be changed between two frames

    Its time is linear in the number of bytes. Between calls it holds at most the frame that has begun, and the eighth
    by which a bytearray can grow.
    """

    def __init__(self, cap: int) -> None:
        self.cap = cap
        self._sequence = 0
        self._head = bytearray()
        self._header: Header | None = None  # header of the frame that has begun, once the header is complete
        self._body = bytearray()
        self._foreign: ForeignFrame | None = None  # a frame of another version that has begun

    @property
    def mid_frame(self) -> bool:
        """True if a frame has begun and is not complete. The stream must not end then."""
        return bool(self._head)

    def receive(self, data: bytes) -> Iterator[tuple[int, bytearray]]:
        """Yield type and body of each frame that `data` completes. Take all of them before the next call.

        Raises  RemoteProtocolError at the first frame that is malformed, out of sequence or above the cap. The error is
                a DamagedFrameError if the frame was changed on its way, and an OtherVersionError if it is a whole frame
                of another version. The stream cannot be used after an error.
        """
        rest = memoryview(data)
        while rest:
            if self._foreign is not None:
                _read_foreign(self._foreign, rest)
                return
            if self._header is None:
                rest = _move(rest, self._head, HEADER.size)
                if len(self._head) < HEADER.size:
                    return
                header = Header(*HEADER.unpack(self._head))
                if header.magic == MAGIC and header.version != VERSION:
                    self._foreign = _begin_foreign(self._head, self.cap)
                    _read_foreign(self._foreign, rest)
                    return
                self._header = self._checked(header)
            rest = _move(rest, self._body, self._header.length)
            if len(self._body) == self._header.length:
                yield self._finish(self._header)

    def _checked(self, header: Header) -> Header:
        if header.magic != MAGIC:
            fault = DamagedFrameError if _is_near(header.magic) else RemoteProtocolError  # another protocol
            raise fault(f"frame with magic {header.magic!r}; expected {MAGIC!r}")
        _check("header", header.checksum, crc32(self._head[CHECKED]))
        if header.sequence != self._sequence:
            raise RemoteProtocolError(f"frame with sequence number {header.sequence}; expected {self._sequence}")
        if not header.length:
            raise RemoteProtocolError("frame of 0 bytes; expected at least 1")
        if header.length > self.cap:
            raise RemoteProtocolError(f"frame of {header.length} bytes; the limit is {self.cap}")
        return header

    def _finish(self, header: Header) -> tuple[int, bytearray]:
        _check("body", header.body_checksum, crc32(self._body))
        body, self._body, self._head, self._header = self._body, bytearray(), bytearray(), None
        self._sequence += 1
        return header.type, body


def _is_near(magic: bytes) -> bool:
    """Return whether the magic differs by one bit, which was flipped on its way."""
    return (int.from_bytes(magic, "big") ^ int.from_bytes(MAGIC, "big")).bit_count() == 1


def _begin_foreign(head: bytearray, cap: int) -> ForeignFrame:
    try:
        return ForeignFrame(bytes(head), cap)
    except ValueError as error:
        raise DamagedFrameError(f"{error}; expected {VERSION}") from None


def _read_foreign(frame: ForeignFrame, data: memoryview) -> None:
    try:
        frame.add(data)
    except ValueError as error:
        raise DamagedFrameError(f"{error}; expected {VERSION}") from None


def _check(part: str, stated: int, found: int) -> None:
    if stated != found:
        raise DamagedFrameError(
            f"frame whose {part} has checksum {found:#010x}; expected {stated:#010x}, as the frame states"
        )


def _move(source: memoryview, target: bytearray, size: int) -> memoryview:
    """Fill `target` up to `size` bytes, and return the rest of `source`."""
    count = size - len(target)
    target += source[:count]
    return source[count:]
