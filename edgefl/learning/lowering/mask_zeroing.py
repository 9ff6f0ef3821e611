"""Lowers what keeps a masked parameter that lies whole at its mask: zeros in its gradient, or in itself after a step.

A coordinate without gradient stays 0 in a step of SGD or Adam, with every term: 0 is what it starts from, and its
velocity and moments too.
"""

from __future__ import annotations

import math

from edgefl.learning.lowering.recorder import Recorder
from edgefl.learning.lowering.schedule import Param, Tensor


def mask(recorder: Recorder, name: str, values: Tensor | Param) -> None:
    """Record that of a parameter, or of its gradient, only coordinates that exist stay; nothing if it is not masked.

    The kernel is the ReLU's: it keeps what has its bit set.
    """
    existing = recorder.scope.active.masked.get(name)
    if existing is None:
        return
    row = values._replace(shape=(1, 1, math.prod(values.shape)))
    recorder.call("relu_backward", row, existing, row, None)
