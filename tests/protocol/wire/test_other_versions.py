"""Frames of other versions: told from damage, over real sockets too, in words that say which side to update."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from struct import Struct
from threading import Thread
from zlib import crc32

import pytest

from edgefl.cli.cli import main
from edgefl.errors import DamagedFrameError, OtherVersionError
from edgefl.protocol.wire import messages
from edgefl.protocol.wire.connection import Connection
from edgefl.protocol.wire.frames import Decoder
from edgefl.protocol.wire.messages import NUMBERS, Hello, Refused
from edgefl.protocol.wire.other_versions import encode_first
from tests.protocol.wire.conversation import HELLO

CAP = 1 << 16
NEWER = Struct("<2sBBIII")  # the header of version 2 without its own checksum
NO = messages.encode(Refused("no"))


def encode_later(version: int, type: int, body: bytes) -> bytes:
    """The first frame of a connection in a version that keeps the header of version 2."""
    head = NEWER.pack(b"EF", version, type, 0, len(body), crc32(body))
    return head + crc32(head).to_bytes(4, "little") + body


def changed(data: bytes, at: int) -> bytes:
    """Return the bytes with one bit flipped."""
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_golden_bytes_of_a_frame_of_version_1() -> None:
    """Made by commit 0868f39, whose frames were of version 1: type 13, sequence number 0, `no` refused."""
    assert NO.hex() == "91a26e6f"
    checked = bytes.fromhex("0d 00000000 04000000")
    assert encode_first(13, 0, NO) == b"EF\x01" + checked + crc32(checked + NO).to_bytes(4, "little") + NO


WHOLE = [
    (encode_first(NUMBERS[Hello], 0, b"hello"), 1, b"hello"),
    (encode_first(NUMBERS[Refused], 0, NO), 1, NO),
    (encode_later(3, NUMBERS[Refused], NO), 3, NO),
    (encode_later(0, NUMBERS[Hello], b"x"), 0, b"x"),
    (encode_later(255, 200, b"x"), 255, b"x"),
    (changed(encode_later(3, NUMBERS[Refused], NO), -1), 3, b""),  # its header is right, and its body is not
]


@pytest.mark.parametrize("step", [1, 3, 20, 1000])
@pytest.mark.parametrize(("frame", "version", "body"), WHOLE)
def test_a_whole_frame_of_another_version_is_no_damage(frame: bytes, version: int, body: bytes, step: int) -> None:
    decoder, stream = Decoder(CAP), frame + b"and more"
    with pytest.raises(OtherVersionError) as error:
        for at in range(0, len(stream), step):
            list(decoder.receive(stream[at : at + step]))
    assert (error.value.version, error.value.body) == (version, body)


def test_one_that_is_above_the_cap_is_told_at_its_header() -> None:
    with pytest.raises(OtherVersionError) as error:
        list(Decoder(10).receive(encode_later(3, 4, bytes(11))[:20]))
    assert (error.value.version, error.value.body) == (3, b"")


@pytest.mark.parametrize(
    "frame",
    [
        changed(encode_first(NUMBERS[Hello], 0, b"hello"), -1),
        changed(encode_first(NUMBERS[Hello], 0, b"hello"), 4),
        encode_first(NUMBERS[Hello], 0, b"x" * 20)[:8] + b"\xff\xff\xff\xff" + bytes(20),  # a length beyond the cap
        changed(encode_later(3, NUMBERS[Hello], b"x"), 4),
        bytes([*encode_later(2, 1, b"x")[:2], 3, *encode_later(2, 1, b"x")[3:]]),  # two bits of its version flipped
    ],
)
def test_a_version_that_nothing_vouches_for_is_damage(frame: bytes) -> None:
    with pytest.raises(DamagedFrameError, match=r"frame of version [13]; expected 2"):
        list(Decoder(CAP).receive(frame + bytes(100)))


@pytest.mark.parametrize(
    ("role", "frame", "words"),
    [
        (
            "server",
            encode_first(1, 0, b"hello"),
            "the device sends frames of version 1.* edgefl on the device$",
        ),
        (
            "server",
            encode_later(3, 1, b"hello"),
            "the device sends frames of version 3.* edgefl on the server$",
        ),
        ("device", encode_first(2, 0, b"hi, you"), "the server sends frames of version 1.* edgefl on the server$"),
        ("device", encode_later(3, 13, NO), r"of version 3.* edgefl on the device \(the server refuses: no\)$"),
        ("device", encode_later(3, 13, b"\xc1"), r"of version 3.* edgefl on the device$"),
        ("device", encode_first(13, 0, NO), r"of version 1.* edgefl on the server \(the server refuses: no\)$"),
    ],
)
def test_each_side_says_which_one_to_update(role: str, frame: bytes, words: str) -> None:
    with pytest.raises(OtherVersionError, match=words):
        Connection(role).receive(frame)  # type: ignore[arg-type]


def test_a_device_of_version_1_gets_a_refusal_that_it_can_read() -> None:
    server = Connection("server")
    with pytest.raises(OtherVersionError):
        server.receive(encode_first(NUMBERS[Hello], 0, messages.encode(HELLO)))
    assert server.refuse("update") == encode_first(NUMBERS[Refused], 0, messages.encode(Refused("update")))


# Over real sockets.


def answering(frame: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """A server that answers the first bytes of a connection with this frame: its port, and what it received."""
    received = list[bytes]()
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                link, _ = listener.accept()
            except OSError:
                return
            with link:
                received.append(link.recv(1 << 16))
                link.sendall(frame)
                while link.recv(1 << 16):  # until the device has closed
                    pass

    thread = Thread(target=serve, daemon=True)
    thread.start()
    with closing(listener):
        yield listener.getsockname()[1], received
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(timeout=10)


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (encode_later(3, 13, messages.encode(Refused("protocol 5 here"))), "(the server refuses: protocol 5 here)"),
        (encode_first(2, 0, b"challenge"), "update edgefl on the server"),
    ],
)
def test_a_device_tries_a_server_of_another_version_once(
    frame: bytes, words: str, tmp_path: Path, samples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for port, received in answering(frame):
        arguments = ["--server", f"127.0.0.1:{port}", "--state", str(tmp_path / "state"), "--data", str(samples)]
        assert main(["client", *arguments]) == 1
        assert len(received) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("samples")
    assert main(["partition", "--clients", "2", "--out", str(folder)]) == 0
    return folder / "device-0000.npz"
