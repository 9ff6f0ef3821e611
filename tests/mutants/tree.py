"""Copies of the repository in which mutants are made, so that nobody's working tree is touched."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from posixpath import normpath

from tests.mutants.mutant import Mutant
from tests.mutants.switch import HEADER, switched

ROOT = Path(__file__).resolve().parents[2]
SWITCH = "mutant.h"
LIBRARIES = 2  # libraries that setup.py builds. It goes on without a library that does not compile


def copy(to: Path) -> Path:
    """Copy the files that git knows or would add, as they are now, and return the folder."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if os.path.lexists(ROOT / name):
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name, follow_symlinks=False)
    return to


def build(tree: Path, mutants: Sequence[Mutant]) -> None:
    """Compile a copy's native core with these mutants of C++, in place of its former core. The first mutant has number
    1.

    Raises RuntimeError with the compiler's words if that fails.
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
    """Write these mutants of C++ into a copy's sources, with the header that chooses among them."""
    numbered = sorted(enumerate(mutants, 1), key=lambda pair: pair[1].file)
    for file, group in groupby(numbered, key=lambda pair: pair[1].file):
        path = tree / file
        path.write_text(switched(path.read_text(), dict(group)))
    (tree / SWITCH).write_text(HEADER)


def compiling(mutants: Sequence[Mutant]) -> list[Mutant]:
    """Return those of these mutants of C++ that the compiler accepts: it names the lines of all others.

    Raises RuntimeError with the compiler's words if it refuses a line without a mutant.
    """
    left = list(mutants)
    while left:
        with tempfile.TemporaryDirectory(prefix="edgefl-mutants-") as folder:
            switch(copy(Path(folder)), left)
            words = refused(Path(folder), left)
        places = re.findall(r"(?m)(?:^|[ /])(csrc/[^\s:]+):(\d+):\d+: error", words)
        lines = {(normpath(name), int(number)) for name, number in places}
        accepted = [mutant for mutant in left if (mutant.file, _line(mutant)) not in lines]
        if not words:
            return left
        if len(accepted) == len(left):
            raise RuntimeError(f"the compiler refuses lines without a mutant:\n{words[-4000:]}")
        left = accepted
    return left


def refused(tree: Path, native: Sequence[Mutant]) -> str:
    """Return the compiler's words about a copy with mutants of C++, or "" if it accepts them. Nothing is built."""
    subprocess.run([sys.executable, "csrc/generate.py", "generated"], cwd=tree, check=True)
    flags = ["-std=c++2a", "-fsyntax-only", "-Igenerated", "-Icsrc", "-include", SWITCH]
    sources = {mutant.file for mutant in native if mutant.file.endswith(".cc")}
    parts = {str(path.relative_to(ROOT)) for path in (ROOT / "csrc/isa").glob("scalar_*.cc")}
    runs = (
        subprocess.run(["c++", *flags, source], cwd=tree, capture_output=True, text=True)
        for source in sorted(parts | sources)
    )
    return "".join(run.stderr for run in runs if run.returncode)


def _line(mutant: Mutant) -> int:
    text = (ROOT / mutant.file).read_text()
    return text.count("\n", 0, mutant.start(text)) + 1


def libraries(tree: Path) -> list[Path]:
    """Return the libraries that were built."""
    return sorted((tree / "edgefl").glob("*.so"))


def copy_built(tree: Path, to: Path) -> Path:
    """Make a copy with the native core of another copy, and return its folder."""
    copy(to)
    for library in libraries(tree):
        shutil.copy2(library, to / "edgefl" / library.name)
    return to


@contextmanager
def mutated(tree: Path, mutant: Mutant) -> Iterator[None]:
    """Put a mistake into one Python file of a copy, for the length of the with block."""
    path = tree / mutant.file
    original = path.read_text()
    try:
        _write(path, mutant.applied(original))
        yield
    finally:
        _write(path, original)


def _write(path: Path, text: str) -> None:
    """Write a file, and delete what Python has compiled of it: two versions may have one size and one second."""
    path.write_text(text)
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
        compiled.unlink()
