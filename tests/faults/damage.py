"""The damage of a file at rest: deleted, emptied, halved, zeroed, one bit flipped, or an older copy in its place.

rest.py knows whose file it is and what must follow. The flipped bits are drawn from the file's name, so that they are
the same bits in every run.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Kind = Literal["deleted", "emptied", "halved", "zeroed", "flipped", "older"]
KINDS: tuple[Kind, ...] = ("deleted", "emptied", "halved", "zeroed", "flipped", "older")
FLIPS = 20  # parts of a file, each with one flipped bit


@dataclass(frozen=True)
class Damage:
    """Damage of a file. `position` says for a flip in which of the equal parts of the file the bit lies."""

    kind: Kind
    position: int = 0

    def __str__(self) -> str:
        return f"flipped in part {self.position + 1} of {FLIPS}" if self.kind == "flipped" else self.kind

    def of(self, file: Path, older: Path | None = None) -> bytes | None:
        """Return the content of the file afterwards, or None if it is gone.

        `older` is a copy of this file from before.
        """
        content = file.read_bytes()
        if self.kind == "deleted":
            return None
        if self.kind == "older":
            return older.read_bytes() if older is not None and older.exists() else None
        if self.kind == "flipped":
            return _flipped(content, self.position, file.name)
        return {"emptied": b"", "halved": content[: len(content) // 2], "zeroed": bytes(len(content))}[self.kind]

    def strike(self, file: Path, older: Path | None = None) -> None:
        """Damage the file."""
        content = self.of(file, older)
        if content is None:
            file.unlink()
        else:
            file.write_bytes(content)


def damages(file: Path, older: Path | None = None, flips: int = FLIPS) -> Iterator[Damage]:
    """Yield every damage that changes this file, each once. There is an older copy only if `older` exists.

    flips  how many of the FLIPS parts get a flip, spread over the file
    """
    positions = [position * FLIPS // flips for position in range(flips)]
    seen = {file.read_bytes()}
    for damage in [
        *(Damage(kind) for kind in KINDS if kind != "flipped"),
        *(Damage("flipped", at) for at in positions),
    ]:
        if damage.kind == "older" and (older is None or not older.exists()):
            continue
        content = damage.of(file, older)
        if content not in seen:
            seen |= {content} if content is not None else set()
            yield damage


def _flipped(content: bytes, position: int, name: str) -> bytes:
    """Return the content with one bit of the part `position` flipped. Content that is too short for such a part is
    unchanged.
    """
    first, end = (8 * len(content) * number // FLIPS for number in (position, position + 1))
    if first == end:
        return content
    at = random.Random(f"{name} {position}").randrange(first, end)
    return content[: at // 8] + bytes([content[at // 8] ^ 1 << at % 8]) + content[at // 8 + 1 :]
