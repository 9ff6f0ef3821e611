"""A link that delays, loses and is cut, under TCP between two network namespaces. It needs Linux and root."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.faults import link as links
from tests.faults.link import Link, link

if links.problem():
    pytest.skip(str(links.problem()), allow_module_level=True)

ROOT = Path(__file__).parents[2]
TALK = """
import socket, sys
sys.path.insert(0, {root!r})
from tests.faults.link import enter
enter({name!r})
"""
LISTEN = (
    TALK
    + """
with socket.create_server(({host!r}, 7)) as listener:
    print("listening", flush=True)
    peer, _ = listener.accept()
    while data := peer.recv(1 << 16):
        peer.sendall(data)
"""
)
ASK = (
    TALK
    + """
import time
peer = socket.create_connection(({host!r}, 7))
for _ in range({times}):
    began = time.monotonic()
    peer.sendall(b"x" * 4000)
    left = 4000
    while left:
        left -= len(peer.recv(left))
    print(time.monotonic() - began, flush=True)
"""
)


def start(program: str, made: Link, end: int, **more: object) -> subprocess.Popen[str]:
    text = program.format(root=str(ROOT), name=made.names[end], host=made.addresses[0], **more)
    return subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)


def times(made: Link, count: int, cut_s: float = 0.0) -> list[float]:
    """Return the seconds of each question over the link and its answer. The link is cut before the second question."""
    with start(LISTEN, made, 0) as listener:
        assert listener.stdout is not None and listener.stdout.readline() == "listening\n"
        with start(ASK, made, 1, times=count) as asker:
            assert asker.stdout is not None
            found = [float(asker.stdout.readline())]
            if cut_s:
                made.cut.set()
                time.sleep(cut_s)
                made.cut.clear()
            found += [float(line) for line in asker.stdout]
    return found


def test_an_answer_takes_the_delay_both_ways() -> None:
    with link(delay_s=0.05, loss=0.0) as made:
        assert all(seconds >= 0.1 for seconds in times(made, 3))
    assert made.passed > 6
    assert made.lost == 0


def test_what_is_lost_or_cut_is_sent_again() -> None:
    with link(delay_s=0.01, loss=0.2) as made:
        found = times(made, 5, cut_s=0.5)
    assert len(found) == 5
    assert made.lost > 0


def test_nothing_is_left_of_a_link() -> None:
    with link(delay_s=0.01, loss=0.0) as made:
        assert set(made.names) <= {path.name for path in Path(links.NAMESPACES).iterdir()}
    assert not set(made.names) & {path.name for path in Path(links.NAMESPACES).iterdir()}


def test_a_namespace_that_is_not_there_is_an_error() -> None:
    with pytest.raises(OSError, match="No such file"):
        links.enter("edgefl-none")
