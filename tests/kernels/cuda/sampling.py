"""Fewer cases of an operation that still launch each of its kernels, for tools under which a launch takes long."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from types import ModuleType

import numpy as np

from edgefl.kernels.cuda.launch import KernelArray, Launches

from ..cases import Case

OFTEN, EVERY = 2, 10  # launches of each kernel that are kept, and of the other cases every tenth


def launched(backend: ModuleType, case: Case) -> Launches:
    """Return the launches that the CUDA backend makes for a case, without making them."""
    given = [KernelArray(value) if isinstance(value, np.ndarray) else value for value in case.args().values()]
    return list(backend.KNOWN[case.op].body(*given))


def kernels_of(backend: ModuleType, case: Case) -> set[str]:
    """Return the names of the kernels that a case launches. Operations of the host have none."""
    return {launch.kernel for launch in launched(backend, case)} if case.op in backend.BODIES else set()


def of_every_kernel(backend: ModuleType, cases: Sequence[Case]) -> list[Case]:
    """Return every tenth case, and of each kernel the first two cases that launch it."""
    seen: Counter[str] = Counter()
    kept = []
    for number, case in enumerate(cases):
        new = {kernel for kernel in kernels_of(backend, case) if seen[kernel] < OFTEN}
        if new or number % EVERY == 0:
            kept.append(case)
            seen.update(new)
    return kept
