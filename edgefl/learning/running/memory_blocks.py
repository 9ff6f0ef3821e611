"""MemoryBlocks: the two large blocks of a learner besides its parameters. What lies where in them is not known here."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgefl.errors import MemoryLimitError
from edgefl.kernels.memory import BackendMemory, aligned_bytes


class MemoryBlocks:
    """Blocks of bytes that grow to the largest size asked for.

    arena  uint8 [bytes]. Every pass lays its activations and gradients into it; the next pass overwrites them.
    kept   uint8 [bytes]. It holds results that several passes read.
    """

    def __init__(self, home: BackendMemory) -> None:
        self._home = home
        self.arena, self.kept = aligned_bytes(0), aligned_bytes(0)

    def grow_arena(self, size: int) -> None:
        """Replaces the arena by one of `size` bytes. Raises MemoryLimitError if the machine has not so much memory."""
        self.arena = aligned_bytes(0)  # frees the old arena before the new one is allocated
        self.arena = self._block(size, "an arena")

    def keeping(self, size: int) -> NDArray[np.uint8]:
        """Memory of `size` bytes for results that several passes read: the first bytes of `kept`, which grows to the
        largest size asked for.
        """
        if size > self.kept.nbytes:
            self.kept = self._block(size, "results to keep")
        return self.kept[:size]

    def release(self) -> None:
        """Gives back both blocks."""
        self.arena, self.kept = aligned_bytes(0), aligned_bytes(0)

    def _block(self, size: int, what: str) -> NDArray[np.uint8]:
        try:
            return self._home.block(size)
        except (MemoryError, ValueError, OverflowError):  # the latter two: not even addresses
            raise MemoryLimitError(f"{what} of {size} bytes; this machine has not so much memory") from None
