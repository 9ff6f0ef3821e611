"""The native build: what csrc/generate.py makes of the table of operations, and a run of ninja for the two libraries.

Ninja compiles only the files that a change reaches: the compiler lists the headers of each file for it. setup.py calls
`build`. `python csrc/native_build.py --help` cross-compiles (scripts/arm.sh). We use ninja without CMake, because the
build has two targets and one compiler, and because a board downloads .2 MB for ninja and 27 MB for CMake. The program
needs the standard library alone.
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from glob import glob

STANDARD = "-std=c++2a"  # C++17 with designated initialisers. g++ 8 and 9 (ARM boards) know C++20 by this name only
ARITHMETIC = ["-ffp-contract=off", "-fno-math-errno"]
FLAGS = [STANDARD, "-g0", "-fPIC", "-pthread", "-fvisibility=hidden", "-DNDEBUG", "-Wall", "-Wextra", *ARITHMETIC]
SHARED = ["-shared", "-pthread", *(["-undefined", "dynamic_lookup"] if platform.system() == "Darwin" else ["-Wl,-s"])]
# Without a page between code and constants `libedgefl.so` has 4,096 bytes less. The linker of GCC puts a page there.
# Zig refuses the word.
SMALL = ["-Wl,-z,noseparate-code"]
LIBRARY = "libedgefl.so"
GENERATED = os.path.join("build", "generated")  # what follows from the table of operations
BINDING = ["-O1"]  # for what is checked once for each recorded call: three quarters of the time that it takes with -O2
MODULE = ["-O1", "-std=c++17"]  # for what reads pybind11: two thirds of the time that it takes with -O2 and c++2a
BODIES = ["-O2", "-ftree-loop-vectorize", "-fvect-cost-model=dynamic", "-finline-functions"]  # of -O3, what helps
for _bound in ("max-inline-insns-single=200", "max-inline-insns-auto=30", "early-inlining-insns=14"):
    BODIES += ["--param", _bound]
COMPILER_BYTES = 512 << 20  # memory that a compiler takes for the largest file
RULES = """\
rule compile
  command = $cxx $flags -MMD -MF $out.d -c $in -o $out
  depfile = $out.d
  deps = gcc
rule precompile
  command = $cxx $flags -MMD -MF $out.d -x c++-header -c $in -o $out
  depfile = $out.d
  deps = gcc
rule link
  command = $cxx -o $out $in $flags
"""


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler.

    command  words of the command
    flags    words for every file
    module   further words for the files of edgefl._core, which read the headers of Python and pybind11
    link     words for every library
    """

    command: Sequence[str]
    flags: Sequence[str] = ()
    module: Sequence[str] = ()
    link: Sequence[str] = ()

    @classmethod
    def of_environment(cls, includes: Sequence[str], default: str = "c++") -> Compiler:
        """Return the compiler that CXX names, with the words of CFLAGS, CXXFLAGS, CPPFLAGS and LDFLAGS.

        CFLAGS counts for C++ too, as setuptools has it. CPPFLAGS counts for edgefl._core alone, so that the objects of
        the library serve every version of Python.
        """
        words = {name: shlex.split(os.environ.get(name, "")) for name in ("CPPFLAGS", "CFLAGS", "CXXFLAGS", "LDFLAGS")}
        flags = [*([] if words["CFLAGS"] == words["CXXFLAGS"] else words["CFLAGS"]), *words["CXXFLAGS"]]
        module = [*words["CPPFLAGS"], *(f"-isystem{folder}" for folder in includes)]
        return cls(shlex.split(os.environ.get("CXX") or default), flags, module, words["LDFLAGS"])


@dataclass(frozen=True)
class Places:
    """Folders and file names. objects: what ninja keeps, out: where the libraries go, suffix: of the Python module."""

    objects: str
    out: str
    suffix: str

    @property
    def library(self) -> str:
        return os.path.join(self.out, LIBRARY)

    @property
    def module(self) -> str:
        return os.path.join(self.out, "_core" + self.suffix)


def optimisation(source: str, gcc: bool) -> list[str]:
    """Return the words for a source file.

    Bodies take GCC 1.5 to 2 times as long at -O3, of which they need loops turned to vectors and the bounds for
    inlining. All bodies and the precompiled header have the same words. GCC 12 compiles a file with the words of the
    precompiled header with which it begins.
    """
    if not source.startswith("csrc/isa"):
        return ["-O2"]
    return BODIES if gcc else ["-O2" if "scalar" in source else "-O3"]


def generate() -> None:
    """Write what follows from the table of operations. Raises subprocess.CalledProcessError for a wrong row."""
    subprocess.run([sys.executable, os.path.join("csrc", "generate.py"), GENERATED], check=True)


def build(compiler: Compiler, places: Places) -> None:
    """Build what a change has reached, in the root of the repository, after `generate`.

    Raises  OSError if there is no ninja, subprocess.CalledProcessError with the compiler's words if it fails
    """
    os.makedirs(places.out, exist_ok=True)
    file = os.path.join(places.objects, "build.ninja")
    _write(file, ninja_file(compiler, places))
    found = subprocess.run([*ninja(), "-f", file, f"-j{jobs()}"], capture_output=True, text=True)
    if found.returncode:
        for path in (places.library, places.module):  # half of a pair must not be installed
            if os.path.exists(path):
                os.remove(path)
        raise subprocess.CalledProcessError(found.returncode, "ninja", found.stdout, found.stderr)


def ninja() -> list[str]:
    """Return the command of ninja: the program on PATH, or the module of the package. Raises OSError without one."""
    if found := shutil.which("ninja"):
        return [found]
    try:
        import ninja as package
    except ImportError:
        raise FileNotFoundError("ninja is not installed; expected pip install ninja") from None
    return [os.path.join(package.BIN_DIR, "ninja")]


def jobs() -> int:
    """Return how many compilers run at once: one for each processor, as far as the memory lasts."""
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1, min(os.cpu_count() or 1, memory_bytes // COMPILER_BYTES))


def units(places: Places) -> dict[str, list[str]]:
    """Return the files that a compiler takes, by library.

    A unit includes several small files, because the headers of the standard library and of pybind11 take longer to
    compile than the files. The unit `module` alone reads the headers of pybind11.
    """
    module = ["csrc/python.cc", "csrc/python/values.cc"]
    core = glob("csrc/core/*.cc")
    checks = [*glob("csrc/api/*.cc"), *glob(f"{GENERATED}/api_*.cc")]
    binding = [*({*glob("csrc/python/*.cc")} - {*module}), *glob(f"{GENERATED}/binding_*.cc")]
    return {
        "library": [_unit(places, "api", checks), _unit(places, "core", core), *sorted(glob("csrc/isa/*.cc"))],
        "module": [_unit(places, "binding", binding), _unit(places, "module", module)],
    }


def _unit(places: Places, name: str, files: Sequence[str], suffix: str = ".cc") -> str:
    path = os.path.join(places.objects, "units", name + suffix)
    _write(path, "".join(f'#include "{os.path.abspath(file)}"\n' for file in sorted(files)))
    return path


def _write(path: str, text: str) -> None:
    """Write a file unless it has this text, so that its date tells when its text changed."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.exists(path):
        with open(path, encoding="utf-8") as stream:
            if stream.read() == text:
                return
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)


def is_gcc(compiler: Compiler) -> bool:
    """Return whether GCC answers. Precompiled headers were tried with GCC alone."""
    words = [*compiler.command, "--version"]
    try:
        found = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    except OSError:
        return False  # ninja will say that there is no such compiler
    return "Free Software Foundation" in found.stdout


def ninja_file(compiler: Compiler, places: Places) -> str:
    """Return the text of build.ninja. The objects of the library do not depend on the version of Python.

    The module's objects come first, and the library waits for them without a need: one of them takes longer than any
    other object, and ninja would compile it last and alone.
    """
    lines = [f"builddir = {places.objects}", f"cxx = {shlex.join(compiler.command)}", RULES]
    files, linux = units(places), platform.system() == "Linux"
    flags = [f"-I{GENERATED}", "-Icsrc", *compiler.flags]  # in this order: csrc/edgefl.h has no prototypes
    gcc = is_gcc(compiler)
    header = _precompile(lines, places, flags) if gcc else ""
    words = [[*BINDING, *flags, *compiler.module], [*MODULE, *flags, *compiler.module]]
    first = [_compile(lines, *each, places.suffix) for each in zip(files["module"], [places] * 2, words)]
    objects = []
    for source in files["library"]:
        words = [*optimisation(source, gcc), *flags]
        objects.append(_compile(lines, source, places, words, header=header if source.startswith("csrc/isa") else ""))
    soname = [f"-Wl,-soname,{LIBRARY}"] if linux else []
    before = f" || {' '.join(map(_path, first))}"
    shared = [*SHARED, *(SMALL if gcc and linux else [])]
    _link(lines, places.library, objects, [*shared, *soname, *compiler.link], after=before)
    origin = "-Wl,-rpath,$ORIGIN" if linux else "-Wl,-rpath,@loader_path"
    words = [*shared, f"-L{places.out}", "-ledgefl", origin, *compiler.link]
    _link(lines, places.module, first, words, after=f" | {_path(places.library)}")
    return "\n".join(lines) + "\n"


def _precompile(lines: list[str], places: Places, flags: Sequence[str]) -> str:
    """Add the compilation of the headers that every instruction set reads, and return the header to include."""
    header = _unit(places, "headers", ["csrc/isa/headers.h"], ".h")
    lines += [f"build {_path(header)}.gch: precompile {_path(header)}", _flags([*FLAGS, *BODIES, *flags])]
    return header


def _compile(
    lines: list[str], source: str, places: Places, flags: Sequence[str], suffix: str = "", header: str = ""
) -> str:
    """Add the compilation of a source file, which may begin with a precompiled header, and return its object file."""
    name = os.path.splitext(os.path.relpath(source, places.objects if "units" in source else "."))[0]
    target = os.path.join(places.objects, name.replace(os.sep, "_") + suffix + ".o")
    needs = f" | {_path(header)}.gch" if header else ""
    words = [*FLAGS, *(["-include", header] if header else []), *flags]
    lines += [f"build {_path(target)}: compile {_path(source)}{needs}", _flags(words)]
    return target


def _link(lines: list[str], target: str, objects: Sequence[str], flags: Sequence[str], after: str = "") -> None:
    """Add the linking of a library. `after` is ` | FILE` on which it depends, or ` || FILES` that only come before."""
    lines += [f"build {_path(target)}: link {' '.join(map(_path, objects))}{after}", _flags(flags)]


def _flags(words: Sequence[str]) -> str:
    return f"  flags = {shlex.join(words).replace('$', '$$')}"


def _path(path: str) -> str:
    return path.replace("$", "$$").replace(" ", "$ ").replace(":", "$:")


def main() -> int:
    parser = argparse.ArgumentParser(description="Build libedgefl.so and edgefl._core with the compiler of CXX.")
    parser.add_argument("--objects", required=True, metavar="DIR", help="folder that keeps object files")
    parser.add_argument("--out", required=True, metavar="DIR", help="folder of the two libraries")
    parser.add_argument("--suffix", required=True, help="end of the module's file name (for example: .abi3.so)")
    parser.add_argument(
        "--include", action="append", default=[], metavar="DIR", help="folder with Python.h or pybind11"
    )
    options = parser.parse_args()
    places = Places(options.objects, options.out, options.suffix)
    generate()
    try:
        build(Compiler.of_environment(options.include), places)
    except (OSError, subprocess.CalledProcessError) as error:
        print(getattr(error, "stdout", None) or error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
