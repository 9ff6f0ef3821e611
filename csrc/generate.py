#!/usr/bin/env python3
"""Write the C++ that follows from the table of operations (edgefl/kernels/table.py) into a folder of the build.

    python csrc/generate.py build/generated

    edgefl.h           the C header with all prototypes
    kernels/PART.h     the rows of dispatch
    api_FAMILY.cc      the checks behind the C header
    binding_FAMILY.cc  the functions of edgefl._core
    families.h         the list of the families
    cuda/arguments.cuh the structs of the CUDA kernels' arguments

The compiler searches this folder first, and then csrc. The program needs the standard library alone. Equal rows give
equal bytes. A file whose text is unchanged keeps its date. A file that no row asks for any more is deleted.
"""

from __future__ import annotations

import sys
from pathlib import Path

from generator import binding, checks, cuda_structs, header, kernel_rows
from generator.rows import families


def texts() -> dict[str, str]:
    """Return the texts of the generated files by their paths."""
    found = {"edgefl.h": header.text(), "families.h": kernel_rows.families_text()}
    found["cuda/arguments.cuh"] = cuda_structs.text()
    found |= {f"kernels/{part}.h": text for part, text in kernel_rows.parts().items()}
    for family in families():
        found[f"api_{family}.cc"] = checks.text(family)
        found[f"binding_{family}.cc"] = binding.text(family)
    return found


def write(folder: Path) -> None:
    """Write the files into the folder, and delete the files that no row asks for."""
    files = {folder / path: text for path, text in texts().items()}
    for old in {*folder.glob("api_*.cc"), *folder.glob("binding_*.cc"), *folder.glob("kernels/*.h")} - set(files):
        old.unlink()
    for file, text in files.items():
        if not file.exists() or file.read_text("utf-8") != text:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(f"usage: {sys.argv[0]} FOLDER")
    write(Path(sys.argv[1]))
