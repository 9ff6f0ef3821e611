"""A recorded list of kernel calls, for the Python backends. The native backend has its own with the same methods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .arrays import Array
from .checked_functions import Call, Function
from .checks import require_array


class PythonProgram:
    """Calls to the operations of one backend, appended once and run many times. It keeps their arrays alive."""

    def __init__(self, functions: Mapping[str, Function]) -> None:
        self._functions = functions
        self._calls: list[Call] = []

    def __len__(self) -> int:
        return len(self._calls)

    def append(self, op: str, *args: Any, **named: Any) -> None:
        """Record one call. ValueError if there is no such operation; wrong arguments fail now or when it runs."""
        self._calls.append(self._recorded(op, args, named))

    def replace(self, position: int, op: str, *args: Any, **named: Any) -> None:
        """Put another call in the place of call `position`. Errors as for append."""
        if not 0 <= position < len(self._calls):
            raise ValueError(f"position={position}; expected 0 to {len(self._calls) - 1}")
        self._calls[position] = self._recorded(op, args, named)

    def _recorded(self, op: str, args: tuple[Any, ...], named: dict[str, Any]) -> Call:
        if op not in self._functions:
            raise ValueError(f"op={op!r}; expected an operation of edgefl.kernels.table.TABLE")
        return self._functions[op].record(*args, **named)

    def run(self) -> None:
        """Make all calls, in order."""
        for function, args in self._calls:
            function(*args)

    def run_batches(self, index_buffer: Array, batches: Array) -> None:
        """For each row of batches [S, B]: copy it into index_buffer [B], which calls may read, then make all calls."""
        require_array("index_buffer", index_buffer, np.int32, 1)
        require_array("batches", batches, np.int32, 2)
        if batches.shape[1] != len(index_buffer):
            raise ValueError(f"batches has shape {batches.shape}; expected (any, {len(index_buffer)})")
        for batch in batches:
            index_buffer[:] = batch
            self.run()
