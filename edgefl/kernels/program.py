"""A recorded list of kernel calls, for the Python backends. The native backend has its own with the same methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .checks import Array, array


class Program:
    """Calls to the operations of one backend, appended once and run many times. It keeps their arrays alive."""

    def __init__(self, operations: Mapping[str, Any]) -> None:
        self._operations = operations
        self._calls: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    def __len__(self) -> int:
        return len(self._calls)

    def append(self, op: str, *args: Any) -> None:
        """Record one call. ValueError if the backend has no such operation; the arguments are checked when it runs."""
        operation = None if op.startswith("_") else self._operations.get(op)
        if not callable(operation):
            raise ValueError(f"op={op!r}; expected the name of a kernel operation")
        self._calls.append((operation, args))

    def replace(self, position: int, op: str, *args: Any) -> None:
        """Put another call in the place of call `position`. Errors as for append."""
        if not 0 <= position < len(self._calls):
            raise ValueError(f"position={position}; expected 0 to {len(self._calls) - 1}")
        self.append(op, *args)
        self._calls[position] = self._calls.pop()

    def run(self) -> None:
        """Make all calls, in order."""
        for operation, args in self._calls:
            operation(*args)

    def run_batches(self, index_buffer: Array, batches: Array) -> None:
        """For each row of batches [S, B]: copy it into index_buffer [B], which calls may read, then make all calls."""
        array("index_buffer", index_buffer, np.int32, (None,))
        array("batches", batches, np.int32, (None, len(index_buffer)))
        for batch in batches:
            index_buffer[:] = batch
            self.run()
