"""Builds the stand-in for libcuda, and has the backend use it.

EDGEFL_LIBCUDA, where it is set, names the real library. EDGEFL_STANDIN names a stand-in that has been built
(scripts/cuda_barriers.py). EDGEFL_STANDIN_PTX names a file of PTX that is run in place of the sources of the kernels
(scripts/cuda_ptx.py).
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
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

from edgefl import kernels

from ...abi import generator
from .ptx import translated

HERE = Path(__file__).parent
ROOT = HERE.parents[3]
KERNELS, REST = HERE / "kernels.cc", (HERE / "driver.cc", HERE / "emulate.cc", HERE / "tf32.cc")
WATCHERS = (HERE / "watch.cc", HERE / "races.cc", HERE / "traffic.cc")
FLAGS = ("-std=c++2a", "-O1", "-g1", "-fPIC", "-pthread", "-march=native", "-ffp-contract=off", "-Wall")
ASAN = ("-fsanitize=address", "-fsanitize-sections=efl_shared")
WATCH = ("-DEFL_WATCH", "-fno-threadsafe-statics")  # see watch.h


def is_real() -> bool:
    """Return whether a device's own driver was named."""
    return bool(os.environ.get("EDGEFL_LIBCUDA")) and not os.environ.get("EDGEFL_STANDIN")


def can_be_built() -> bool:
    return shutil.which("g++") is not None


@functools.cache
def built(*more: str, kernels: Path = ROOT / "csrc" / "cuda", ptx: str | None = None) -> Path:
    """Return the library, made of these kernels or of a file of PTX once for all runs with equal sources."""
    structs = generator().texts()["cuda/arguments.cuh"]
    files = [*HERE.glob("*.cc"), *HERE.glob("*.h")]
    files += [Path(ptx), HERE / "ptx.py"] if ptx else kernels.glob("*.cu*")
    parts = [*FLAGS, *more, structs, *(file.read_text() for file in sorted(files))]
    digest = hashlib.sha256("".join(parts).encode()).hexdigest()[:16]
    library = Path(tempfile.gettempdir()) / f"edgefl-standin-{os.getuid()}" / f"libcuda-standin-{digest}.so"
    library.parent.mkdir(mode=0o700, exist_ok=True)
    with library.with_suffix(".lock").open("w") as lock:  # another process of this run may be making it
        fcntl.flock(lock, fcntl.LOCK_EX)
        if library.exists():
            return library
        made = library.with_suffix(f".{os.getpid()}")
        source = _source_of(ptx, library) if ptx else KERNELS
        generated = library.with_suffix(".generated")
        (generated / "cuda").mkdir(parents=True, exist_ok=True)
        (generated / "cuda" / "arguments.cuh").write_text(structs)
        flags = [*FLAGS, *more, *(word for folder in (kernels, HERE, generated) for word in ("-I", str(folder)))]
        _make(made, flags, source, is_watched=set(WATCH) <= set(more))
        made.replace(library)
    return library


def _source_of(ptx: str, library: Path) -> Path:
    source = library.with_suffix(".cc")
    source.write_text(translated(Path(ptx).read_text()))
    return source


def _make(library: Path, flags: Sequence[str], kernels: Path, is_watched: bool) -> None:
    """Make the library. With a watch only the kernels are instrumented, and the sanitizer's library is not linked.

    Kernels of PTX tell of their loads and stores themselves.
    """
    is_ptx, compiled = kernels != KERNELS, library.with_suffix(".o")
    alone = ["-w"] if is_ptx else ["-fsanitize=thread"] if is_watched else []
    subprocess.run(["g++", *flags, *alone, "-c", str(kernels), "-o", str(compiled)], check=True)
    linked = map(str, [compiled, *REST, *(WATCHERS if is_watched else ())])
    subprocess.run(["g++", *flags, "-shared", "-Wl,-z,defs", *linked, "-o", str(library)], check=True)
    compiled.unlink()


@functools.cache
def backend(name: str = "cuda") -> ModuleType:
    """A CUDA backend, on the stand-in unless EDGEFL_LIBCUDA names a device's own driver."""
    with pytest.MonkeyPatch.context() as patch:
        for variable, value in environment().items():
            patch.setenv(variable, value)
        return kernels.backend(name)


def environment(*more: str) -> dict[str, str]:
    """Return the variables with which a process uses the stand-in, built with these flags, too, or {} with a real
    driver.
    """
    if is_real():
        return {}
    given = os.environ.get("EDGEFL_STANDIN")
    asked = {"EDGEFL_STANDIN_ASAN": ASAN, "EDGEFL_STANDIN_WATCH": WATCH}
    flags = [flag for variable, flags in asked.items() if os.environ.get(variable) for flag in flags]
    library = given or str(built(*flags, *more, ptx=os.environ.get("EDGEFL_STANDIN_PTX")))
    return {"EDGEFL_LIBCUDA": library, "EDGEFL_CUDA_KERNELS": library}  # it takes any file for an image


def controls() -> ctypes.CDLL:
    """standin_log and the like."""
    library = ctypes.CDLL(environment()["EDGEFL_LIBCUDA"])
    library.standin_log.restype = ctypes.c_char_p
    library.standin_room.argtypes = (ctypes.c_size_t,)
    return library
