"""Streams that cannot be written lose lines. Descriptors 0 to 2 are never a file of a run."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgefl.system.standard_streams import LossyStream, lossy_error_stream


def test_what_can_be_written_is_written() -> None:
    stream = io.StringIO()
    print("a line", file=LossyStream(stream), flush=True)
    assert (stream.getvalue(), LossyStream(stream).isatty()) == ("a line\n", False)


def test_what_cannot_be_written_is_lost() -> None:
    gone = io.StringIO()
    gone.close()
    print("a line", file=LossyStream(gone), flush=True)
    with open("/dev/full", "wb", buffering=0) as raw:
        full = io.TextIOWrapper(raw, write_through=True)
        print("a line", file=LossyStream(full), flush=True)
        full.detach()


def test_standard_error_is_as_before_afterwards(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stderr
    with lossy_error_stream():
        print("a line", file=sys.stderr)
        assert sys.stderr is not before
    assert (sys.stderr is before, capsys.readouterr().err) == (True, "a line\n")


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (1, 2), (0, 1, 2)])
def test_closed_descriptors_are_taken_before_a_file_gets_them(closed: tuple[int, ...], tmp_path: Path) -> None:
    script = (
        "import os, sys\n"
        "from edgefl.system.standard_streams import lossy_error_stream\n"
        "with lossy_error_stream():\n"
        "    print('out', flush=True); print('err', file=sys.stderr, flush=True)\n"
        "    sys.stdout.isatty(), sys.stderr.isatty()\n"
        f"    os.write(os.open({str(tmp_path / 'found')!r}, os.O_WRONLY | os.O_CREAT, 0o600) , b'%d' % 7)\n"
        f"    open({str(tmp_path / 'number')!r}, 'w').write(str(min(os.open(os.devnull, os.O_RDONLY), 3)))\n"
    )
    words = " ".join(f"{descriptor}>&-" if descriptor else "<&-" for descriptor in closed)
    done = subprocess.run(["sh", "-c", f'exec "$0" -c "$1" {words}', sys.executable, script], check=False, timeout=60)
    assert done.returncode == 0
    assert ((tmp_path / "found").read_text(), (tmp_path / "number").read_text()) == ("7", "3")
    assert os.path.getsize(tmp_path / "found") == 1
