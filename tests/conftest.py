"""What holds for every test. The kernels' threads and instruction set are left as they were found: others depend on
them. An example of a property may take as long as it takes: a loaded machine is no mistake.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

NATIVE = "edgefl.kernels.native"


@pytest.fixture(autouse=True)
def unchanged_kernels() -> Iterator[None]:
    """Fails the test that changed them, and puts them back. Loading the native kernels in a test is no change."""
    before = _settings()
    yield
    after = _settings()
    if before is None or after == before:
        return
    sys.modules[NATIVE].set_threads(before[0])
    sys.modules[NATIVE].cap_isa(before[1])
    pytest.fail(f"kernels left with (threads, instruction set) = {after}; expected {before}, as found")


def _settings() -> tuple[int, str] | None:
    native = sys.modules.get(NATIVE)
    return native and (native.threads(), native.isa())
