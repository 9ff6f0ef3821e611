"""The backends that the kernel tests run on: the reference in float32, numba, native under each instruction set, and
CUDA, emulated (tests/kernels/cuda/standin) unless EDGEFL_LIBCUDA names a device's driver.

EDGEFL_KERNELS restricts them to one. Otherwise native is required, so that a build that fails cannot pass as a skip:
where it cannot be loaded, every test of it fails and says why. test_isas.py names the instruction sets left out.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from types import ModuleType

import pytest

from edgefl import kernels

from .calls import native_isas
from .cuda import standin

CHOSEN = os.environ.get("EDGEFL_KERNELS")


BACKENDS = [
    name
    for name in ("reference", "numba", *(f"native-{isa}" for isa in native_isas()), "cuda")
    if CHOSEN in (None, name.partition("-")[0])
]


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """Yield each backend's module in turn. Native's instruction set is capped, and restored afterwards."""
    name, _, isa = request.param.partition("-")
    module = standin.backend() if name == "cuda" else kernels.backend(name)
    if not isa:
        yield module
        return
    before = module.isa()
    module.cap_isa(isa)
    yield module
    module.cap_isa(before)


@pytest.fixture
def native() -> ModuleType:
    """The native module, where this run uses it."""
    if CHOSEN not in (None, "native"):
        pytest.skip(f"EDGEFL_KERNELS={CHOSEN}")
    return importlib.import_module("edgefl.kernels.native")
