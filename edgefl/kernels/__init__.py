"""The kernels: one table of operations (table.py), and backends that all have its functions with the same signatures.

native     C++ behind csrc/edgefl.h            edgefl/kernels/native.py
numba      compiled at first use               edgefl/kernels/numba/
reference  numpy, the readable definition      edgefl/kernels/reference/
cuda       on a GPU, where it is named         edgefl/kernels/cuda/
cuda-tf32  cuda with products in TF32          edgefl/kernels/cuda/tf32.py

`backend()` chooses a backend. If EDGEFL_KERNELS names a backend, it is used or refused, never replaced.
"""

import functools
import importlib
import os
import platform
import warnings
from types import ModuleType

from edgefl.errors import BackendError

__all__ = ["BACKENDS", "NAMED", "backend", "best", "name_of"]

BACKENDS: dict[str, str] = {
    "native": "edgefl.kernels.native",
    "numba": "edgefl.kernels.numba",
    "reference": "edgefl.kernels.reference",
}
"""The modules of the backends, by name. The fastest backend comes first."""

NAMED = {"cuda": "edgefl.kernels.cuda.backend", "cuda-tf32": "edgefl.kernels.cuda.tf32"}
"""The modules of backends that are used only on request, by name."""

ISAS = ("scalar", "neon") if platform.machine() in ("aarch64", "arm64") else ("scalar", "avx2", "avx512")
MAX_THREADS = 1024


def backend(name: str | None = None) -> ModuleType:
    """Return the backend `name`, or the backend that EDGEFL_KERNELS names, or the best backend that can be loaded.

    If no backend is named, one that cannot be loaded is skipped, with one warning that gives the reason. Raises
    BackendError if a named backend is unknown or cannot be loaded, or if EDGEFL_ISA or EDGEFL_NUM_THREADS has a value
    that the native library would have to ignore.
    """
    chosen = name or os.environ.get("EDGEFL_KERNELS")
    return _named(chosen) if chosen else best()


@functools.cache
def best() -> ModuleType:
    """Return the first of BACKENDS that can be loaded. Raises BackendError if no backend can be loaded."""
    missing = []
    for name in BACKENDS:
        try:
            module = _load(name)
        except ImportError as error:
            missing.append(f"{name}: {error}")
            continue
        if missing:
            warnings.warn(f"edgefl uses the {name} kernels ({'; '.join(missing)})", RuntimeWarning, stacklevel=3)
        return module
    raise BackendError(f"no kernels can be loaded ({'; '.join(missing)}); reinstall edgefl")


def name_of(module: ModuleType) -> str:
    """Return the name of a backend, given its module."""
    return next(name for name, found in (BACKENDS | NAMED).items() if found == module.__name__)


def _named(name: str) -> ModuleType:
    if name not in BACKENDS | NAMED:
        raise BackendError(f"EDGEFL_KERNELS={name}; expected one of {', '.join(BACKENDS | NAMED)}")
    try:
        return _load(name)
    except ImportError as error:
        others = " or ".join(f"EDGEFL_KERNELS={other}" for other in BACKENDS if other != name)
        raise BackendError(f"EDGEFL_KERNELS={name} cannot be loaded ({error}); reinstall or set {others}") from error


def _load(name: str) -> ModuleType:
    if name == "native":
        _check_settings()
    return importlib.import_module((BACKENDS | NAMED)[name])


def _check_settings() -> None:
    """Raise BackendError for a wrong setting. The library reads the settings when it is loaded, and cannot complain."""
    cap, threads = os.environ.get("EDGEFL_ISA"), os.environ.get("EDGEFL_NUM_THREADS")
    if cap and cap not in ISAS:
        raise BackendError(f"EDGEFL_ISA={cap}; expected one of {', '.join(ISAS)}")
    if threads and not (threads.isdecimal() and 1 <= int(threads) <= MAX_THREADS):
        raise BackendError(f"EDGEFL_NUM_THREADS={threads}; expected 1 to {MAX_THREADS}")
