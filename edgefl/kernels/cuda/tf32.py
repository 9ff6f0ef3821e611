"""The CUDA backend with the products of Linear layers and dense convolutions in TF32: csrc/cuda/tf32.cuh.

The device, its memory and all other operations come from backend.py. Inputs of products are rounded to 10 bits behind
the leading one, and sums are float32. Importing this module raises ImportError as backend.py does, and where the device
has no TF32.
"""

from __future__ import annotations

from typing import Any

from .backend import DEVICE, MEMORY, backend_of, scratch_bytes
from .backend import KNOWN as EXACT
from .launch import Launches
from .program import Body
from .structs import kernels

__all__ = ["DEVICE", "KNOWN", "MEMORY", "scratch_bytes"]

LEAST_CAPABILITY = (8, 0)
FORMS = tuple(kernel for kernel in kernels() if f"{kernel}_tf32" in kernels())
"""The kernels that have a TF32 form. A form has the arguments, grid and threads of its kernel."""


def _in_tf32(body: Body) -> Body:
    def launches(*values: Any) -> Launches:
        return [each._replace(kernel=f"{each.kernel}_tf32") if each.kernel in FORMS else each for each in body(*values)]

    return launches


if DEVICE.capability < LEAST_CAPABILITY:
    raise ImportError(
        f"{DEVICE.name} of capability {DEVICE.capability}; expected {LEAST_CAPABILITY} or more, which have TF32"
    )
if not DEVICE.has(f"{FORMS[0]}_tf32"):
    raise ImportError(f"the kernels loaded on {DEVICE.name} have no TF32 forms; expected those of scripts/cuda.py")
KNOWN = {name: operation._replace(body=_in_tf32(operation.body)) for name, operation in EXACT.items()}
globals().update(backend_of(KNOWN))
