"""The lowering of the calls that keep a masked parameter at its mask. They write zeros into its gradient, or into the
parameter after a step.

This concerns parameters that lie whole. A coordinate without gradient stays 0 in a step of SGD or Adam, with every
term, because the coordinate, its velocity and its moments begin at 0.
"""

from __future__ import annotations

import math

from edgefl.learning.lowering.recorder import Recorder
from edgefl.learning.lowering.schedule import Param, Tensor


def mask(recorder: Recorder, name: str, values: Tensor | Param) -> None:
    """Record that only coordinates that exist stay in a parameter or in its gradient. Without a mask nothing is
    recorded.

    The kernel is the ReLU's, which keeps the values whose bit is set.
    """
    existing = recorder.scope.active.masked.get(name)
    if existing is None:
        return
    row = values._replace(shape=(1, 1, math.prod(values.shape)))
    recorder.call("relu_backward", row, existing, row, None)
