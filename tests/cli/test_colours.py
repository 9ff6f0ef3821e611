"""Colours appear on a terminal only, and never with NO_COLOR. A pipe gets no escape sequence."""

from __future__ import annotations

import os
import pty
import re
from pathlib import Path

import pytest

from tests.forked import ForkedCommand
from tests.forked_commands import run_edgefl

COMMAND = ["simulate", "--method", "local", "--clients", "2", "--rounds", "1"]
COLOUR = re.compile(rb"\x1b\[[0-9;]*(3[0-8]|4[0-8]|9[0-7])[0-9;]*m")


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    return {**kept, "TERM": "xterm-256color", **more}


def on_a_terminal(folder: Path, **more: str) -> bytes:
    """Return what the command writes to a terminal of its own."""
    master, terminal = pty.openpty()
    with ForkedCommand(COMMAND, folder, environment(**more), stdout=terminal, stderr=terminal) as process:
        os.close(terminal)
        found = b""
        while block := _read(master):
            found += block
        assert process.wait() == 0, found
    os.close(master)
    return found


def _read(master: int) -> bytes:
    try:
        return os.read(master, 1 << 16)
    except OSError:  # Linux's end of a terminal whose other side is closed
        return b""


@pytest.mark.parametrize(("more", "has_colours"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_no_color_turns_colours_off(more: dict[str, str], has_colours: bool, tmp_path: Path) -> None:
    assert (COLOUR.search(on_a_terminal(tmp_path, **more)) is not None) == has_colours


def test_a_pipe_gets_no_escape_sequence(tmp_path: Path) -> None:
    done = run_edgefl(*COMMAND, cwd=tmp_path, env=environment())
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout + done.stderr
