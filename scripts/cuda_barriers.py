#!/usr/bin/env python3
"""Tells whether a test fails when a barrier of csrc/cuda is left out, in each of the stand-in's orders of threads.

    scripts/cuda_barriers.py                     all of them
    scripts/cuda_barriers.py loss.cuh            those of a file
    scripts/cuda_barriers.py --sample 3          three of them, as --seed draws them
    scripts/cuda_barriers.py --tests ID,ID       with these tests in place of those of the operations concerned

The script leaves out one barrier after another, and prints the outcome of each. It exits with 1 if all tests miss a
barrier, and with 2 if failing tests fail with all barriers, too. The stand-in is built once, of a copy of the kernels
in which a barrier has a number and is passed over where EDGEFL_WITHOUT_BARRIER is its number. Every run of the tests is
a process of its own. The operations concerned launch a kernel of the barrier's file or of a file that includes it. To
their tests come tests/kernels/cuda/test_<file>.py of each of these files, or of its first word.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
KERNELS = ROOT / "csrc" / "cuda"
ORDERS = ("0", "1", "2")
PATIENCE_S = 600  # limit of one run, because without a barrier a loop may not end
OPERATION = "tests/kernels/test_operations.py::test_operation_matches_reference[cuda-{}]"
OTHERS = {"next_batch": "tests/kernels/test_promises.py::test_program_runs_once_per_batch[cuda]"}  # of no operation
NUMBERED = """
#include <cstdlib>
static inline void barrier_but(int number) {
    static const char* const left_out = std::getenv("EDGEFL_WITHOUT_BARRIER");
    if (!left_out || std::atoi(left_out) != number) barrier();
}
"""


class Barrier(NamedTuple):
    """A barrier: a statement of a file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Failure(NamedTuple):
    """A failed run in an order of threads. `tests` failed, where pytest says so, and `text` is what pytest says."""

    order: str
    tests: list[str]
    text: str


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", help="of csrc/cuda; default: all")
    parser.add_argument("--sample", type=int, help="so many of the barriers")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tests", default="", help="ids of pytest, with commas between them")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as copy:
        barriers = numbered(KERNELS, Path(copy))
        library = build(Path(copy))
    chosen = [number for number, each in enumerate(barriers) if not options.files or each.file in options.files]
    if options.sample is not None:
        chosen = sorted(random.Random(options.seed).sample(chosen, min(options.sample, len(chosen))))
    try:
        given = [each for each in options.tests.split(",") if each]
        tests = {barriers[number].file: given for number in chosen} if given else tests_of(barriers, chosen, library)
        return tell(barriers, chosen, tests, library)
    finally:
        library.unlink()


def tell(barriers: Sequence[Barrier], chosen: Sequence[int], tests: Mapping[str, list[str]], library: Path) -> int:
    missed = 0
    for number in chosen:
        concerned = tests[barriers[number].file]
        failed = failing_order(concerned, library, number)
        missed += failed is None
        print(f"{barriers[number]} {f'noticed in order {failed.order}' if failed else 'SURVIVES'}", flush=True)
        before = failed and failure(failed.tests or concerned, library, failed.order)
        if before:
            print(f"with all barriers in place, too:\n{before.text}")
            return 2
    print(f"{len(chosen)} barriers left out, one at a time; {missed} missed by all tests")
    return int(missed > 0)


# ---- the kernels -----------------------------------------------------------------------------------------------------


def numbered(kernels: Path, copy: Path) -> list[Barrier]:
    """Copy the kernels with each barrier numbered, and return the barriers by number."""
    found: list[Barrier] = []
    for path in sorted(kernels.glob("*.cu*")):
        lines = [_number(line, found, Barrier(path.name, at)) for at, line in enumerate(_lines(path), 1)]
        (copy / path.name).write_text("\n".join(lines) + (NUMBERED if path.name == "portable.cuh" else "\n"))
    return found


def _number(line: str, found: list[Barrier], position: Barrier) -> str:
    code, slashes, comment = line.partition("//")

    def replaced(match: re.Match[str]) -> str:
        found.append(position)
        return f"barrier_but({len(found) - 1});"

    return re.sub(r"\bbarrier\(\);", replaced, code) + slashes + comment


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def with_includers(name: str, kernels: Path) -> set[str]:
    """Return a file, and the files that include it, directly or not."""
    found, new = set[str](), {name}
    while new:
        found |= new
        new = {path.name for path in kernels.glob("*.cuh") if _included(path) & found} - found
    return found


def _included(path: Path) -> set[str]:
    return set(re.findall(r'^#include "(\w+\.cuh)"', path.read_text(), re.MULTILINE))


def kernels_of(files: set[str], kernels: Path) -> set[str]:
    """Return the names of the kernels that files define."""
    return {
        name
        for file in files
        for name in re.findall(r"^EFL_KERNEL(?:_FOR)?\((\w+)", (kernels / file).read_text(), re.M)
    }


# ---- the tests -------------------------------------------------------------------------------------------------------


def build(kernels: Path) -> Path:
    """Return the stand-in of these kernels, in a file of its own."""
    sys.path.insert(0, str(ROOT))
    from tests.kernels.cuda import standin

    return Path(shutil.copy(standin.built(kernels=kernels), f"{tempfile.mkstemp(suffix='.so')[1]}"))


def tests_of(barriers: Sequence[Barrier], chosen: Sequence[int], library: Path) -> dict[str, list[str]]:
    """Return for each file with chosen barriers the operations that launch its kernels, and the tests of its name."""
    launched = dict(launches(library))
    found: dict[str, list[str]] = {}
    for file in {barriers[number].file for number in chosen}:
        files = with_includers(file, KERNELS)
        names = kernels_of(files, KERNELS)
        stems = sorted({stem for each in files for stem in (Path(each).stem, Path(each).stem.split("_")[0])})
        own = (ROOT / "tests" / "kernels" / "cuda" / f"test_{stem}.py" for stem in stems)
        found[file] = [OPERATION.format(op) for op, kernels in launched.items() if kernels & names]
        found[file] += [test for kernel, test in OTHERS.items() if kernel in names]
        found[file] += [str(path.relative_to(ROOT)) for path in own if path.exists()]
        if not found[file]:
            raise ValueError(f"{file}: no operation launches one of its kernels {sorted(names)}; expected --tests")
    return found


def launches(library: Path) -> Iterator[tuple[str, set[str]]]:
    """Yield each operation of the backend, with the kernels that its cases launch."""
    os.environ.update(environment(library))
    import numpy as np

    from edgefl.kernels.cuda import backend
    from edgefl.kernels.cuda.launch import KernelArray
    from tests.kernels.cases import adversarial

    for op, operation in backend.KNOWN.items():
        calls = (case.args().values() for case in adversarial(op))
        given = ([KernelArray(value) if isinstance(value, np.ndarray) else value for value in call] for call in calls)
        yield op, {planned.kernel for call in given for planned in operation.body(*call)}


def failing_order(tests: Sequence[str], library: Path, left_out: int) -> Failure | None:
    """Return the failure in the first order of threads in which a test fails, or None."""
    return next(filter(None, (failure(tests, library, order, left_out) for order in ORDERS)), None)


def failure(tests: Sequence[str], library: Path, order: str, left_out: int | None = None) -> Failure | None:
    """Run the tests, and return None if all pass. Raises ValueError if pytest could not run them."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    without = {} if left_out is None else {"EDGEFL_WITHOUT_BARRIER": str(left_out)}
    env = {**os.environ, **environment(library), "EDGEFL_STANDIN_ORDER": order, **without}
    try:
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        return Failure(order, [], f"not at an end after {PATIENCE_S} s")
    told = done.stdout + done.stderr
    if done.returncode > 1:  # pytest found no tests or got a wrong id. A crash gives a negative number
        raise ValueError(f"{' '.join(command)} returned {done.returncode}; expected 0 or 1\n{told}")
    return Failure(order, re.findall(r"^FAILED (\S+)", told, re.MULTILINE), told) if done.returncode else None


def environment(library: Path) -> dict[str, str]:
    names = ("EDGEFL_STANDIN", "EDGEFL_LIBCUDA", "EDGEFL_CUDA_KERNELS")
    return {**dict.fromkeys(names, str(library)), "EDGEFL_KERNELS": "cuda"}


if __name__ == "__main__":
    sys.exit(main())
