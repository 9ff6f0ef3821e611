"""Native results do not depend on the number of threads: every operation, on shapes large enough to be split."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest

from edgefl.kernels.table import TABLE

from .calls import each, native_isas, run
from .cases import Case, large


@pytest.fixture(params=native_isas())
def pooled(native: ModuleType, request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """Yield native under each instruction set, and restore its threads afterwards."""
    isa, threads = native.isa(), native.threads()
    native.cap_isa(request.param)
    yield native
    native.set_threads(threads)
    native.cap_isa(isa)


@pytest.mark.parametrize("op", TABLE)
def test_threads_do_not_change_a_bit(pooled: ModuleType, op: str) -> None:
    def check(case: Case) -> None:
        results = []
        for threads in (1, 2, 3):
            pooled.set_threads(threads)
            args = run(pooled, op, case.args())
            results.append({name: value.tobytes() for name, value in args.items() if isinstance(value, np.ndarray)})
        assert results[0] == results[1] == results[2]

    each((case, lambda case=case: check(case)) for case in large(op))
