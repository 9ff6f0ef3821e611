"""Download of a published file over HTTP. The file is checked while it arrives and put in place only when it is whole.

Import this module only to download: urllib imports ssl, 8 MB that a device with its data on disk does not need.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from edgefl.errors import DataError
from edgefl.experiment.data.published import Download

_PIECE_BYTES = 1 << 18
_TIMEOUT_S = 30.0


def download(item: Download, folder: Path, *, progress: bool = True) -> Path:
    """Fetch `item` into `folder` and return its path. The file appears under its name only once its digest is right.

    progress  whether a bar is shown on stderr, if stderr is a terminal
    Raises    DataError naming the URL and the fault: no network, an HTTP status, too few bytes or a wrong digest.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(suffix=".part", prefix=f"{item.file}.", dir=folder)
    except OSError as error:
        raise DataError(f"{folder}: cannot be written ({error.strerror}); expected a folder for downloads") from error
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            found = _fetch(item, file.write, progress)
        if found != item.digest:
            raise DataError(f"{item.url}: {found} after the download; expected {item.digest}")
        part.replace(folder / item.file)
    finally:
        part.unlink(missing_ok=True)
    return folder / item.file


def _fetch(item: Download, write: Callable[[bytes], object], progress: bool) -> str:
    """Pass every byte to `write` and return the digest in the form that Download has it."""
    kind = item.digest.split(":")[0]
    state = hashlib.new(kind, usedforsecurity=False)
    received = 0
    try:
        with urllib.request.urlopen(item.url, timeout=_TIMEOUT_S) as reply:
            length = reply.headers.get("Content-Length")
            total = int(length) if length and length.isdigit() else None
            with _bar(item.file, total, progress) as advance:
                while piece := reply.read(_PIECE_BYTES):
                    state.update(piece)
                    write(piece)
                    received += len(piece)
                    advance(len(piece))
    except (OSError, http.client.HTTPException) as error:
        raise DataError(f"{item.url}: {_reason(error)}; expected the file") from error
    if total is not None and received != total:
        raise DataError(f"{item.url}: {received} bytes arrived; expected {total}")
    return f"{kind}:{state.hexdigest()}"


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP status {error.code}"
    if isinstance(error, urllib.error.URLError):
        return str(error.reason)
    return str(error) or type(error).__name__


@contextmanager
def _bar(name: str, total: int | None, enabled: bool) -> Iterator[Callable[[int], None]]:
    """Draw a progress bar on stderr, if it is a terminal, and yield the function that advances it by some bytes."""
    from rich import progress as bars
    from rich.console import Console

    console = Console(stderr=True)
    columns = (
        bars.TextColumn("{task.description}"), bars.BarColumn(), bars.DownloadColumn(), bars.TransferSpeedColumn(),
        bars.TimeRemainingColumn(),
    )  # fmt: skip
    with bars.Progress(*columns, console=console, disable=not (enabled and console.is_terminal)) as bar:
        task = bar.add_task(name, total=total)
        yield lambda size: bar.advance(task, size)
