"""The C ABI as cffi sees it: edgefl.h, as csrc/generate.py writes it, without its preprocessor, and libedgefl.so.

No Python layer is on top of it.
"""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import edgefl

SOURCES = Path(__file__).parents[2] / "csrc"
LIBRARY = Path(edgefl.__file__).parent / "libedgefl.so"


@lru_cache(None)
def generator() -> ModuleType:
    """csrc/generate.py, whose `texts()` are the generated files by their paths."""
    sys.path.insert(0, str(SOURCES))
    try:
        return import_module("generate")
    finally:
        sys.path.remove(str(SOURCES))


def declarations() -> str:
    """edgefl.h as it is compiled."""
    return generator().texts()["edgefl.h"]  # type: ignore[no-any-return]


def header() -> str:
    """edgefl.h as plain C: without what only C++ compilers see, and without lines of #."""
    text = re.sub(r"^#ifdef __cplusplus\n.*?^#endif\n", "", declarations(), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"^#.*$", "", text, flags=re.MULTILINE)


def load() -> tuple[Any, Any]:
    """cffi's view of the header's types, and the library. Needs cffi and a build."""
    import cffi

    ffi = cffi.FFI()
    ffi.cdef(header())
    return ffi, ffi.dlopen(str(LIBRARY))
