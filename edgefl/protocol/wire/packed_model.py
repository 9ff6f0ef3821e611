"""A model as bytes that are made when they are asked for, out of the arrays of the model itself.

A server sends its model, or what a device lacks of it, without a second copy of the parameters. model_message.py has
the form of the bytes.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import accumulate


class PackedModel:
    """The bytes of a packed model. It has a length in bytes, and `packed[first:end]` are some of its bytes.

    pieces  the bytes of the model one after another. Nobody may change what lies in them
    """

    def __init__(self, pieces: Iterable[bytes | memoryview]) -> None:
        self._pieces = [memoryview(piece) for piece in pieces if len(piece)]
        self._starts = [0, *accumulate(map(len, self._pieces))]

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, where: slice) -> bytes:
        first, end, step = where.indices(len(self))
        if step != 1:
            raise ValueError(f"step {step} through a packed model; expected 1")
        return b"".join(self.views(first, end))

    def views(self, first: int = 0, end: int | None = None) -> Iterator[memoryview]:
        """Yield views of the bytes from `first` up to `end` (None: all), one after another."""
        end = len(self) if end is None else min(end, len(self))
        at = bisect_right(self._starts, first) - 1
        while first < end:
            start = self._starts[at]
            yield self._pieces[at][first - start : end - start]
            at += 1
            first = self._starts[at]

    def digest(self, first: int = 0, end: int | None = None) -> bytes:
        """Return the SHA-256 of the bytes from `first` up to `end` (None: all), 32 bytes."""
        if (first, end) == (0, None):
            return self._whole
        return self._digest(first, end)

    @cached_property
    def _whole(self) -> bytes:
        return self._digest(0, None)

    def _digest(self, first: int, end: int | None) -> bytes:
        found = hashlib.sha256()
        for view in self.views(first, end):
            found.update(view)
        return found.digest()
