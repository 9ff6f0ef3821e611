"""python -m bench.arm.mca: cycles of the NEON tier's inner loops on models of cores, by llvm-mca.

The inner products of `loops.h` are compiled for ARMv8.0. llvm-mca is given the innermost loop of each function that has
most fmla. The model takes the loop's operands from a first cache. The share is relative to the rate at which the model
executes fmla alone. This is not a measurement: a model knows no cache misses. In-order models let an instruction retire
only after all instructions before it, which real cores do not always do.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

CORES = ("cortex-a53", "cortex-a55", "cortex-a72", "neoverse-n1")
LOOPS = Path(__file__).with_name("loops.cc")
GENERATE = LOOPS.parents[2] / "csrc" / "generate.py"  # writes the C header that the bodies include
# The flags with which the library is compiled for every 64-bit ARM.
FLAGS = ("-std=c++2a", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fPIC", "-DNDEBUG", "-g0", "-w", "-S")
ITERATIONS = 200
# These are functions of their own in the library, too. The functions of these names in `loops.h` call them.
CALLED = {
    "_ZN3efl4neonL4dotsILi4ELi6EEEvRKNS0_4DotsE": "dw_by_pixels_4x6",
    "_ZN3efl4neonL9lane_tileILi5ELi4EEEvRKNS0_8LaneDotsE": "lanes_5x4",
}


class MissingToolError(Exception):
    """A tool is missing. The message says which tool it is and what would bring it."""


@dataclass(frozen=True)
class Row:
    """One inner loop on one core: fmla and instructions of an iteration, its cycles, and the share of fmla's peak."""

    loop: str
    core: str
    fmla: int
    instructions: int
    cycles: float
    share: float


def compiler() -> list[str]:
    """Return the command of a C++ compiler for 64-bit ARM: clang, else zig. Raises MissingToolError without both."""
    clang = shutil.which("clang++") or shutil.which("clang++-19")
    if clang:
        return [clang, "--target=aarch64-linux-gnu", "-march=armv8-a"]
    if find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang", "c++", "-target", "aarch64-linux-gnu.2.27", "-mcpu=baseline"]
    raise MissingToolError("no compiler for 64-bit ARM: expected clang++ on the PATH or the Python package ziglang")


def analyser() -> str:
    """Return the path of llvm-mca, of LLVM 19 where it is installed.

    Raises MissingToolError if there is no llvm-mca.
    """
    found = shutil.which("llvm-mca-19") or shutil.which("llvm-mca")
    if not found:
        raise MissingToolError("no llvm-mca on the PATH: expected LLVM 19's (Debian: apt-get install llvm-19)")
    return found


def assembly(source: Path) -> str:
    """Return the assembly that the compiler makes of `source`. Raises CalledProcessError if it does not compile."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "loops.s"
        subprocess.run([sys.executable, str(GENERATE), folder], check=True)
        subprocess.run([*compiler(), *FLAGS, f"-I{folder}", str(source), "-o", str(out)], check=True)
        return out.read_text()


def functions(text: str) -> Iterator[tuple[str, str]]:
    """Yield the names and bodies of the functions of `loops.h` in clang's assembly, without those of C++ names."""
    for found in re.finditer(r"^(\w+):[^\n]*\n(.*?)^\.Lfunc_end\d+:", text, re.DOTALL | re.MULTILINE):
        name = CALLED.get(found.group(1), found.group(1))
        if not name.startswith("_Z"):
            yield name, found.group(2)


def innermost(body: str) -> list[str]:
    """Return the loop with most fmla, its branch last, among the loops of one block. The list is empty without such a
    loop.
    """
    found: list[list[str]] = [[]]
    label, lines = "", list[str]()
    for line in body.splitlines():
        text = line.split("//")[0].strip()
        if text.endswith(":"):
            label, lines = text[:-1], []
        elif text and not text.startswith("."):
            lines.append(text)
            if re.match(r"(b\.\w+|cbn?z|tbn?z)\s", text) and text.endswith(label):
                found.append(list(lines))
    return max(found, key=fmlas)


def fmlas(lines: Sequence[str]) -> int:
    """Count the instructions that are fmla."""
    return sum(line.startswith("fmla") for line in lines)


def cycles(lines: Sequence[str], core: str) -> float:
    """Return the cycles of one iteration of these instructions on the model of `core`."""
    command = [analyser(), "-mtriple=aarch64", f"-mcpu={core}", f"-iterations={ITERATIONS}", "-instruction-info=0"]
    done = subprocess.run([*command, "-"], input="\n".join(lines) + "\n", check=True, capture_output=True, text=True)
    total = re.search(r"Total Cycles:\s+(\d+)", done.stdout)
    if not total:
        raise ValueError(f"{command[0]} printed no total of cycles; expected a line 'Total Cycles:'")
    return int(total.group(1)) / ITERATIONS


def peak(core: str) -> float:
    """Return the cycles of one fmla among many that do not wait for each other."""
    independent = [f"fmla v{at}.4s, v30.4s, v31.4s" for at in range(24)]
    return cycles(independent, core) / len(independent)


def rows(text: str, cores: Sequence[str] = CORES) -> Iterator[Row]:
    """Yield a row for every loop of the assembly on every core."""
    peaks = {core: peak(core) for core in cores}
    for name, body in functions(text):
        loop = innermost(body)
        if not fmlas(loop):
            continue
        for core in cores:
            took = cycles(loop, core)
            yield Row(name, core, fmlas(loop), len(loop), took, fmlas(loop) * peaks[core] / took)


def print_table(found: Sequence[Row]) -> None:
    """Print a line for each loop, with two columns for each core."""
    print("| inner loop | fmla | instructions | " + " | ".join(f"{core}: cycles, share" for core in CORES) + " |")
    print("| --- | --: | --: |" + " --: |" * len(CORES))
    for loop in dict.fromkeys(row.loop for row in found):
        mine = [row for row in found if row.loop == loop]
        shares = " | ".join(f"{row.cycles:.1f}, {row.share:.0%}" for row in mine)
        print(f"| {loop} | {mine[0].fmla} | {mine[0].instructions} | {shares} |")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table. Return 1 and print one sentence if a tool is missing."""
    parser = argparse.ArgumentParser(prog="python -m bench.arm.mca", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object a loop and core")
    options = parser.parse_args(arguments)
    try:
        analyser()
        found = list(rows(assembly(LOOPS)))
    except MissingToolError as missing:
        print(missing, file=sys.stderr)
        return 1
    if options.json:
        for row in found:
            print(json.dumps(asdict(row)))
    else:
        print_table(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
