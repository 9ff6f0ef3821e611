"""torch's tensors as arguments of the native kernels.

This module says which tensors the kernels can take, gives their memory as arrays without a copy, and keeps one number
of threads for torch and the kernels. native_linear.py and other modules call the kernels.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgefl import kernels
from edgefl.errors import BackendError

Array = NDArray[Any]
Ids = NDArray[np.int32] | None  # sorted unique ids, where None is all ids


@functools.cache
def ops() -> Any:
    """Return the native kernels, or None if they are not built, or if EDGEFL_KERNELS names another backend."""
    try:
        found = kernels.backend()
    except BackendError:
        return None
    return found if found.__name__ == kernels.BACKENDS["native"] else None


def serves(x: Tensor, *others: Tensor | None) -> bool:
    """Return whether the kernels can take these tensors: plain float32 on the CPU.

    The first time that a kind of tensors is left to torch, a warning says so.
    """
    for each in (x, *others):
        if each is not None and not (each.dtype is torch.float32 and each.is_cpu and type(each) in _PLAIN):
            return not torch.compiler.is_compiling() and _say(f"{each.dtype} on {each.device.type}")
    if torch.compiler.is_compiling():
        return True
    if torch.is_autocast_enabled("cpu") or torch._C._are_functorch_transforms_active():
        return _say("autocast and functorch's transforms")
    return x.layout is torch.strided and x.numel() > 0 and not torch.jit.is_tracing() and _is_ready()


def array(tensor: Tensor) -> Array:
    """Return the tensor's memory as an array. It is copied only if it is not contiguous."""
    found: Array = (tensor.detach() if tensor.requires_grad else tensor).contiguous().numpy()
    return found


def array_or_none(tensor: Tensor | None) -> Array | None:
    return None if tensor is None else array(tensor)


def again(plain: Callable[..., Tensor], inputs: Sequence[Tensor | None], dy: Tensor) -> list[Tensor | None]:
    """Return gradients of `plain(*inputs)` that can be differentiated in turn.

    plain   torch's computation of the result, which runs again on the saved tensors
    inputs  saved tensors. An input that needs no gradient has None in the result
    """
    with torch.enable_grad():
        y = plain(*inputs)
        wanted = [each for each in inputs if each is not None and each.requires_grad]
        found = iter(torch.autograd.grad(y, wanted, dy, create_graph=True))
    return [next(found) if each is not None and each.requires_grad else None for each in inputs]


_PLAIN = (Tensor, torch.nn.Parameter)


def _is_ready() -> bool:
    """Give the kernels as many threads as torch has, and return whether there are native kernels."""
    found = ops()
    if found is None:
        return _say("everything, for want of native kernels,")
    if found.threads() != torch.get_num_threads():
        found.set_threads(torch.get_num_threads())
    return True


@functools.cache
def _say(kind: str) -> bool:
    """Return False, and warn once for each kind of tensors."""
    warnings.warn(
        f"converted layers leave {kind} to torch, because native kernels take float32 on the CPU", stacklevel=4
    )
    return False
