"""The limits on what a server may ask of a device, in bytes and seconds, as values. time_limit.py watches the clock.

The memory limit counts what comes on top of the process with its samples and no model. A round holds what it exchanges
several times over: as it came, in the plan, in the reply, and on its way to the disk. So memory for COPIES of it is set
aside. The frozen parameters are read from the disk into the learner, and no message of a round carries them. The rest
is the limit of the learner, which has all parameters and knows before each pass how much memory it will take.
"""

from __future__ import annotations

import ctypes
import math
from typing import NamedTuple

from edgefl import learning
from edgefl.errors import MemoryLimitError, PlanError, RunError
from edgefl.models.graph import Graph, Model
from edgefl.models.graph.json import Limits
from edgefl.protocol.wire.model_parts import frozen_bytes

COPIES = 16  # copies of the model without its frozen part outside the learner, as measured (bench/README.md)
NODE_BYTES = 1 << 14  # bytes of a node as text, values and calls
STEPS_PER_S = 10**6  # more steps per second than any device takes
M_MMAP_THRESHOLD, LARGE_BYTES = -3, 1 << 17  # parameter of glibc's mallopt, and its value in bytes
WORK_PER_S = 10**13  # more multiply-accumulates per second than any device does


class Bounds(NamedTuple):
    """The limits of one device. A limit that is None does not restrict it.

    model_bytes   largest packed model, in bytes
    memory_bytes  memory for model and training, in bytes
    seconds       longest time of a round or an evaluation, in seconds
    in_envelopes  whether the model comes in an envelope, which is in memory as a whole
    """

    model_bytes: int
    memory_bytes: int | None = None
    seconds: float | None = None
    in_envelopes: bool = False

    def check_model(self, size: int, frozen: int = 0) -> None:
        """Check a packed model of `size` bytes before the device asks for it.

        frozen  bytes of its frozen parameters, as the server says
        Raises  RunError if it is larger than the limit, MemoryLimitError if it leaves no memory for training.
        """
        if size > self.model_bytes:
            raise RunError(f"model of {size} bytes; the limit is --max-model {self.model_bytes}")
        self._left(size - frozen, frozen)

    def graph(self) -> Limits:
        """Return the limits of the largest graph that is read."""
        parameters, nodes = self.model_bytes // 4, Limits.nodes
        if self.memory_bytes is None:
            return Limits(parameters=parameters)
        return Limits(nodes=min(nodes, self.memory_bytes // NODE_BYTES), parameters=parameters)

    def learner(self, model: Model) -> learning.GraphLearner:
        """Return a learner within the memory that the model leaves. It uses the frozen parameters where they lie.

        Raises  MemoryLimitError if the model leaves too little memory.
        """
        return learning.GraphLearner(model, limit_bytes=self.training(model.graph), shares_frozen=True)

    def training(self, graph: Graph) -> int | None:
        """Return the bytes that the learner of a model of this graph may take, or None for no limit.

        Raises  MemoryLimitError if the model leaves no memory.
        """
        infos = graph.parameters().values()
        exchanged = sum(4 * math.prod(info.shape) for info in infos if info.kind != "frozen")
        return self._left(exchanged, frozen_bytes(graph), NODE_BYTES * len(graph.nodes))

    def check_steps(self, steps: int, work: int) -> None:
        """Raise PlanError for more steps, or multiply-accumulates, than any device makes within the time limit."""
        if self.seconds is None:
            return
        for count, what, rate in ((steps, "steps", STEPS_PER_S), (work, "multiply-accumulates", WORK_PER_S)):
            if count > self.seconds * rate:
                most = math.floor(self.seconds * rate)
                raise PlanError(f"{count} {what}; --max-seconds {self.seconds:g} allows at most {most}")

    def _left(self, exchanged: int, frozen: int, more: int = 0) -> int | None:
        """Return the bytes for the learner of a model, its own parameters among them, or None for no limit.

        exchanged  bytes of the model without its frozen parameters
        frozen     bytes of its frozen parameters, which the learner alone has
        more       further bytes that the model needs
        """
        if self.memory_bytes is None:
            return None
        if self.in_envelopes:
            exchanged, frozen = exchanged + frozen, 0
        outside = COPIES * exchanged + more
        if outside + frozen >= self.memory_bytes:
            size, needed = exchanged + frozen, outside + frozen
            raise MemoryLimitError(
                f"model of {size} bytes needs {needed} bytes in a round; the limit is --max-memory {self.memory_bytes}"
            )
        return self.memory_bytes - outside


def give_back() -> None:
    """Let this process give large blocks of memory back as soon as they are freed.

    By default glibc keeps such blocks. Then a freed message of some megabytes is still in the resident set when the
    next message arrives. Without glibc the function does nothing.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)
