"""torch, and the kernels with it, have one thread here: on these small nets a second one only waits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from edgefl.torch import native_tensors


@pytest.fixture(autouse=True, scope="module")
def one_torch_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    ops = native_tensors.ops()
    own = ops.threads() if ops else 0
    if ops:
        ops.set_threads(1)  # as converted layers would
    yield
    if ops:
        ops.set_threads(own)
    torch.set_num_threads(threads)
