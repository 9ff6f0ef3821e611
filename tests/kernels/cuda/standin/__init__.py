"""Builds the stand-in for libcuda, and has the backend use it. EDGEFL_LIBCUDA, where it is set, names the real one;
EDGEFL_STANDIN a stand-in that has been built (scripts/cuda_barriers.py).
"""

from __future__ import annotations

import ctypes
import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import ModuleType

import pytest

from edgefl import kernels

HERE = Path(__file__).parent
ROOT = HERE.parents[3]
SOURCES = (HERE / "driver.cc", HERE / "emulate.cc", HERE / "tf32.cc")
FLAGS = ("-std=c++2a", "-O1", "-g1", "-fPIC", "-shared", "-pthread", "-march=native", "-ffp-contract=off", "-Wall")
ASAN = ("-fsanitize=address", "-fsanitize-sections=efl_shared")


def is_real() -> bool:
    """Whether a device's own driver was named."""
    return bool(os.environ.get("EDGEFL_LIBCUDA")) and not os.environ.get("EDGEFL_STANDIN")


def can_be_built() -> bool:
    return shutil.which("g++") is not None


@functools.cache
def built(*more: str, kernels: Path = ROOT / "csrc" / "cuda") -> Path:
    """The library, made of these kernels once for all runs that have the same sources."""
    files = sorted([*HERE.glob("*.cc"), *HERE.glob("*.h"), *kernels.glob("*.cu*")])
    digest = hashlib.sha256("".join([*FLAGS, *more, *(file.read_text() for file in files)]).encode()).hexdigest()[:16]
    library = Path(tempfile.gettempdir()) / f"edgefl-standin-{os.getuid()}" / f"libcuda-standin-{digest}.so"
    library.parent.mkdir(mode=0o700, exist_ok=True)
    with library.with_suffix(".lock").open("w") as lock:  # another process of this run may be making it
        fcntl.flock(lock, fcntl.LOCK_EX)
        if library.exists():
            return library
        made = library.with_suffix(f".{os.getpid()}")
        include = ("-I", str(kernels), "-I", str(HERE))
        subprocess.run(["g++", *FLAGS, *more, *include, *map(str, SOURCES), "-o", str(made)], check=True)
        made.replace(library)
    return library


@functools.cache
def backend(name: str = "cuda") -> ModuleType:
    """A CUDA backend, on the stand-in unless EDGEFL_LIBCUDA names a device's own driver."""
    with pytest.MonkeyPatch.context() as patch:
        for variable, value in environment().items():
            patch.setenv(variable, value)
        return kernels.backend(name)


def environment(*more: str) -> dict[str, str]:
    """What has a process use the stand-in, built with these flags too; nothing where there is a real driver."""
    if is_real():
        return {}
    given = os.environ.get("EDGEFL_STANDIN")
    library = given or str(built(*(ASAN if os.environ.get("EDGEFL_STANDIN_ASAN") else ()), *more))
    return {"EDGEFL_LIBCUDA": library, "EDGEFL_CUDA_KERNELS": library}  # it takes any file for an image


def controls() -> ctypes.CDLL:
    """standin_log and the like."""
    library = ctypes.CDLL(environment()["EDGEFL_LIBCUDA"])
    library.standin_log.restype = ctypes.c_char_p
    library.standin_room.argtypes = (ctypes.c_size_t,)
    return library
