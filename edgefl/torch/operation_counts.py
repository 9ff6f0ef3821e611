"""Counts of the operations that torch has executed, as a learner reports them: one count for each kind of pass."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from edgefl.learning.learner import ExecutedFlops

Result = TypeVar("Result")


class TorchFlopCounter:
    """training, search  as in ExecutedFlops: two for each multiply-accumulate of products, as torch's own counter
    counts them. Fused recurrent layers are in no table of torch's, and count 0.
    """

    def __init__(self) -> None:
        self.training = self.search = 0
        self._known: dict[Hashable, int] = {}

    @property
    def work(self) -> ExecutedFlops:
        """So far."""
        return ExecutedFlops(self.training, self.search)

    def counted(self, kind: Hashable, run: Callable[[], Result], search: bool = False) -> Result:
        """Count and return the result of `run`; `kind` names everything that its operations depend on."""
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
    """Of the operations in the block."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:  # as torch says to: else the first call loads its compiler (4 s, 70 MB)
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        packet = func._overloadpacket
        if packet in flop_registry:
            self.total += flop_registry[packet](*args, **(kwargs or {}), out_val=result)
        return result
