"""The C ABI as cffi sees it: csrc/edgefl.h without its preprocessor, and libedgefl.so.

No Python layer is on top of it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import edgefl

HEADER = Path(__file__).parents[2] / "csrc" / "edgefl.h"
LIBRARY = Path(edgefl.__file__).parent / "libedgefl.so"


def header() -> str:
    """edgefl.h as plain C: without what only C++ compilers see, and without lines of #."""
    text = re.sub(r"^#ifdef __cplusplus\n.*?^#endif\n", "", HEADER.read_text(), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"^#.*$", "", text, flags=re.MULTILINE)


def load() -> tuple[Any, Any]:
    """cffi's view of the header's types, and the library. Needs cffi and a build."""
    import cffi

    ffi = cffi.FFI()
    ffi.cdef(header())
    return ffi, ffi.dlopen(str(LIBRARY))
