"""Counts of the operations that torch has executed, as a learner reports them: one count for each kind of pass."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from edgefl.learning.learner import ExecutedFlops

Result = TypeVar("Result")


class TorchFlopCounter:
    """A counter of floating point operations, two for each multiply-accumulate of products, like torch's own counter.

    training, search  operations of training and of the search for coordinates, as in ExecutedFlops. Torch has no count
                      for fused recurrent layers, so that they count 0
    """

    def __init__(self) -> None:
        self.training = self.search = 0
        self._known: dict[Hashable, int] = {}

    @property
    def work(self) -> ExecutedFlops:
        """Return the operations that were executed so far."""
        return ExecutedFlops(self.training, self.search)

    def counted(self, kind: Hashable, run: Callable[[], Result], search: bool = False) -> Result:
        """Count the operations of `run` and return its result.

        kind    names everything on which the operations depend. A kind is counted once and then known
        search  whether they count as search instead of training
        """
        if kind in self._known:
            result = run()
        else:
            with _Count() as count:
                result = run()
            self._known[kind] = count.total
        if search:
            self.search += self._known[kind]
        else:
            self.training += self._known[kind]
        return result


class _Count(TorchDispatchMode):
    """A mode that counts the operations that torch executes in its context."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:  # torch's advice: True would load its compiler (4 s, 70 MB)
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        packet = func._overloadpacket
        if packet in flop_registry:
            self.total += flop_registry[packet](*args, **(kwargs or {}), out_val=result)
        return result
