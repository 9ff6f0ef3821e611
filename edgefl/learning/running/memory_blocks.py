"""MemoryBlocks: the two large blocks of a learner besides its parameters. Other modules decide what lies
where in them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgefl.errors import MemoryLimitError
from edgefl.kernels.memory import BackendMemory, aligned_bytes


class MemoryBlocks:
    """Blocks of bytes that grow to the largest size asked for.

    kept    uint8 [bytes]. It holds results that several passes read.
    lender  blocks of another learner, whose arena is this learner's arena, too. The two never run at once
    """

    def __init__(self, home: BackendMemory, lender: MemoryBlocks | None = None) -> None:
        self._home, self._lender = home, lender
        self._arena, self.kept = aligned_bytes(0), aligned_bytes(0)

    @property
    def arena(self) -> NDArray[np.uint8]:
        """The arena, uint8 [bytes]. Every pass lays its activations and gradients into it, and the next pass overwrites
        them.
        """
        return self._arena if self._lender is None else self._lender.arena

    @property
    def own_arena_bytes(self) -> int:
        """The bytes of the arena, or 0 if another learner lends it."""
        return self._arena.nbytes

    def grow_arena(self, size: int) -> None:
        """Replace the arena by an arena of `size` bytes. Raises MemoryLimitError if the machine does not have so much
        memory.
        """
        if self._lender is not None:
            self._lender.grow_arena(size)
            return
        self._arena = aligned_bytes(0)  # frees the old arena before the new one is allocated
        self._arena = self._block(size, "an arena")

    def keeping(self, size: int) -> NDArray[np.uint8]:
        """Return memory of `size` bytes for results that several passes read.

        These are the first bytes of `kept`, which grows to the largest size asked for. Raises MemoryLimitError like
        `grow_arena`.
        """
        if size > self.kept.nbytes:
            self.kept = self._block(size, "results to keep")
        return self.kept[:size]

    def release(self) -> None:
        """Free both blocks, and an arena that another learner lends."""
        self._arena, self.kept = aligned_bytes(0), aligned_bytes(0)
        if self._lender is not None:
            self._lender.release_arena()

    def release_arena(self) -> None:
        """Free the arena. The results that are kept stay."""
        self._arena = aligned_bytes(0)
        if self._lender is not None:
            self._lender.release_arena()

    def _block(self, size: int, what: str) -> NDArray[np.uint8]:
        try:
            return self._home.block(size)
        except (MemoryError, ValueError, OverflowError):  # the last two: not even addresses are left
            raise MemoryLimitError(f"{what} of {size} bytes; this machine does not have that much memory") from None
