"""Copies of the repository in which mutants are made, so that nobody's working tree is touched."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

from bench.mutants.mutant import Mutant
from bench.mutants.switch import HEADER, switched

ROOT = Path(__file__).resolve().parents[2]
SWITCH = "mutant.h"
LIBRARIES = 2  # that setup.py builds; it goes on without one that does not compile


def copy(to: Path) -> Path:
    """The files that git knows or would add, as they are now."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if os.path.lexists(ROOT / name):
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name, follow_symlinks=False)
    return to


def build(tree: Path, mutants: Sequence[Mutant]) -> None:
    """Compiles a copy's native core, in place of what it came with, with these mutants of C++; the first has number 1.

    Raises  RuntimeError with the compiler's words if that fails.
    """
    switch(tree, mutants)
    shutil.rmtree(tree / "build", ignore_errors=True)
    for library in libraries(tree):
        library.unlink()
    flags = {name: f"{os.environ.get(name, '')} -include {tree / SWITCH}" for name in ("CFLAGS", "CXXFLAGS")}
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    done = subprocess.run(command, cwd=tree, env={**os.environ, **flags}, capture_output=True, text=True)
    if done.returncode or len(libraries(tree)) < LIBRARIES:
        raise RuntimeError(f"the mutants of C++ do not compile:\n{done.stderr[-4000:]}")


def switch(tree: Path, mutants: Sequence[Mutant]) -> None:
    """Writes these mutants of C++ into a copy's sources, and the header that chooses among them beside these."""
    numbered = sorted(enumerate(mutants, 1), key=lambda pair: pair[1].file)
    for file, group in groupby(numbered, key=lambda pair: pair[1].file):
        path = tree / file
        path.write_text(switched(path.read_text(), dict(group)))
    (tree / SWITCH).write_text(HEADER)


def libraries(tree: Path) -> list[Path]:
    """What was built."""
    return sorted((tree / "edgefl").glob("*.so"))


def copy_built(tree: Path, to: Path) -> Path:
    """A copy with the native core of another one."""
    copy(to)
    for library in libraries(tree):
        shutil.copy2(library, to / "edgefl" / library.name)
    return to


@contextmanager
def mutated(tree: Path, mutant: Mutant) -> Iterator[None]:
    """A copy with a mistake in one of its Python files, for the length of the with block."""
    path = tree / mutant.file
    original = path.read_text()
    try:
        _write(path, mutant.applied(original))
        yield
    finally:
        _write(path, original)


def _write(path: Path, text: str) -> None:
    """Without what Python has compiled of it: two versions may be of one second and of one size."""
    path.write_text(text)
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
        compiled.unlink()
