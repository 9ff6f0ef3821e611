"""The open files of a process in a simulation. Each read and each write can fail, or be cut off by a kill."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.vopr.process import Process

PAGE = 4096  # bytes that the system takes from a write as a whole


class OpenFile(io.FileIO):
    """A file of a process, without a buffer."""

    process: Process

    @property
    def _named(self) -> str:
        return os.path.basename(str(self.name))

    def _call(self, what: str) -> None:
        self.process.call(f"{what} {self._named}")

    def read(self, size: int | None = -1) -> bytes | None:  # type: ignore[override]
        self._call("read")
        return super().read(-1 if size is None else size)

    def readall(self) -> bytes | None:  # type: ignore[override]
        self._call("read")
        return super().readall()

    def readinto(self, buffer: Any) -> int | None:  # type: ignore[override]
        self._call("read")
        return super().readinto(buffer)

    def write(self, data: Any) -> int | None:  # type: ignore[override]
        """Write the data, of which an error or a kill leaves the first pages."""
        if not self.process.is_alive:
            return super().write(data)
        content = bytes(data)
        self.process.disk.dirty(self.fileno())
        half = super().write(content[: len(content) // 2 // PAGE * PAGE]) or 0
        self.process.need_room()
        self._call("write")
        self.process.touch(f"within write {self._named}")
        return half + (super().write(content[half:]) or 0)


def opening(process: Callable[[], Process | None], real: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function `open`, for which the binary files on the disk of a process are an OpenFile."""

    def opened(file: Any, mode: str = "r", buffering: int = -1, *args: Any, **options: Any) -> Any:
        found = process()
        if (
            found is None
            or "b" not in mode
            or not isinstance(file, Path)
            or not str(file).startswith(found.disk.prefix)
        ):
            return real(file, mode, buffering, *args, **options)
        found.call(f"open {file.name}", file)
        raw = OpenFile(file, mode.replace("b", ""), opener=options.get("opener"))
        raw.process = found
        if not buffering:
            return raw
        if raw.readable():
            return io.BufferedRandom(raw) if raw.writable() else io.BufferedReader(raw)
        return io.BufferedWriter(raw)

    return opened
