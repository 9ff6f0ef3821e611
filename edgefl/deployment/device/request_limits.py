"""The limits on what a server may ask of a device: bytes and seconds. Values and arithmetic; time_limit.py watches the
clock.

Memory is what comes on top of the process with its samples and no model. A round holds the model several times over:
as it came, in the learner, in the plan, in the reply, and on its way to the disk. So COPIES of it are set aside, and
what is left is the limit of the learner, which knows before each pass what it will take.
"""

from __future__ import annotations

import ctypes
import math
from typing import NamedTuple

from edgefl.errors import MemoryLimitError, PlanError, RunError
from edgefl.learning import GraphLearner
from edgefl.models.graph import Model
from edgefl.models.graph.json import Limits

COPIES = 20  # of the packed model, outside the learner: measured, see bench/README.md
NODE_BYTES = 1 << 14  # of a node as text, values and calls
STEPS_PER_S = 10**6  # no device takes more
M_MMAP_THRESHOLD, LARGE_BYTES = -3, 1 << 17  # of glibc's mallopt
WORK_PER_S = 10**13  # multiply-accumulates: nor this many


class Bounds(NamedTuple):
    """The largest model in bytes as it is sent, the memory in bytes, and the seconds of a round; None: no bound."""

    model_bytes: int
    memory_bytes: int | None = None
    seconds: float | None = None

    def check_model(self, size: int) -> None:
        """Raises RunError for a packed model of so many bytes that is too large, before any of it is asked for."""
        if size > self.model_bytes:
            raise RunError(f"model of {size} bytes; the limit is --max-model {self.model_bytes}")
        self._left(size)

    def graph(self) -> Limits:
        """The largest graph that is read."""
        parameters, nodes = self.model_bytes // 4, Limits.nodes
        if self.memory_bytes is None:
            return Limits(parameters=parameters)
        return Limits(nodes=min(nodes, self.memory_bytes // NODE_BYTES), parameters=parameters)

    def learner(self, model: Model) -> GraphLearner:
        """One that keeps within what the model leaves. Raises MemoryLimitError if its parameters do not."""
        return GraphLearner(model, limit_bytes=self.training(model))

    def training(self, model: Model) -> int | None:
        """Bytes that its learner may take; None: any number. Raises MemoryLimitError if the model leaves none."""
        size = sum(4 * value.size for value in model.params.values())
        return self._left(size, NODE_BYTES * len(model.graph.nodes))

    def check_steps(self, steps: int, work: int) -> None:
        """Raises PlanError for so many steps, or multiply-accumulates, as no device makes in the time."""
        if self.seconds is None:
            return
        for count, what, rate in ((steps, "steps", STEPS_PER_S), (work, "multiply-accumulates", WORK_PER_S)):
            if count > self.seconds * rate:
                most = math.floor(self.seconds * rate)
                raise PlanError(f"{count} {what}; --max-seconds {self.seconds:g} allows at most {most}")

    def _left(self, size: int, more: int = 0) -> int | None:
        """Bytes for the learner beside a model of that size, and `more`; None: any number."""
        if self.memory_bytes is None:
            return None
        needed = COPIES * size + more
        if needed >= self.memory_bytes:
            raise MemoryLimitError(
                f"model of {size} bytes, {needed} in a round; the limit is --max-memory {self.memory_bytes}"
            )
        return self.memory_bytes - needed


def give_back() -> None:
    """Lets this process give large blocks back as soon as they are freed. glibc, which elsewhere comes to keep them:
    then a message of some megabytes, freed, is still in the resident set when the next one arrives.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)
