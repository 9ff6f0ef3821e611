"""A recorded list of kernel calls for the Python backends. The native backend has a class with the same methods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .arrays import Array
from .checked_functions import Call, Function
from .checks import require_array


class PythonProgram:
    """A list of calls to one backend's operations, appended once and run many times. It keeps their arrays alive."""

    def __init__(self, functions: Mapping[str, Function]) -> None:
        self._functions = functions
        self._calls: list[Call] = []

    def __len__(self) -> int:
        return len(self._calls)

    def append(self, op: str, *args: Any, **named: Any) -> None:
        """Record one call. Raises ValueError if there is no such operation. Wrong arguments raise ValueError now or at
        `run`.
        """
        self._calls.append(self._recorded(op, args, named))

    def replace(self, position: int, op: str, *args: Any, **named: Any) -> None:
        """Replace call number `position` by another call. Raises ValueError for a wrong position, and otherwise as
        `append`.
        """
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
        """Copy each row of batches [S, B] into index_buffer [B], which calls may read, and make all calls after each
        copy.
        """
        require_array("index_buffer", index_buffer, np.int32, 1)
        require_array("batches", batches, np.int32, 2)
        if batches.shape[1] != len(index_buffer):
            raise ValueError(f"batches has shape {batches.shape}; expected (any, {len(index_buffer)})")
        for batch in batches:
            index_buffer[:] = batch
            self.run()
