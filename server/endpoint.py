"""The address of a running server as a file of its run directory, for tools on the same machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgefl.system.durable_files import write_atomically

ENDPOINT = "endpoint"


@contextmanager
def announced(run: Path, host: str, port: int) -> Iterator[None]:
    """Write the file for the length of the with block. A server that is killed leaves it behind."""
    file = run / ENDPOINT
    write_atomically(file, f"{host}:{port}\n".encode())
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def read_endpoint(run: Path) -> str | None:
    """Return HOST:PORT, or None if the file is missing."""
    try:
        return (run / ENDPOINT).read_text(errors="replace").strip()
    except FileNotFoundError:
        return None
