#!/usr/bin/env python3
"""Compiles csrc/cuda with nvcc into the image that the CUDA backend loads, and lists what each kernel takes.

    scripts/cuda.py                  PTX alone, which a driver compiles for its device when it first loads it
    scripts/cuda.py --targets all    machine code for every processor that nvcc 13 knows, and PTX: for a wheel
    scripts/cuda.py --nvrtc LIBRARY  PTX by this libnvrtc.so.12, of PyPI's nvidia-cuda-nvrtc-cu12, in a file of its own

The list is a file with a line for each target and kernel: registers of a thread, shared bytes of a block, spilled
bytes. The tests allow no kernel to spill on sm_75 and sm_90. A kernel that spills on another processor is slower there,
and stderr names it. A driver takes no PTX of a CUDA that is newer than its own. So NVRTC 12.0's is for drivers
from CUDA 12.0 on (JetPack 6), and for processors from sm_60 on, which nvcc 13 no longer knows.
"""

from __future__ import annotations

import argparse
import ctypes
import lzma
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "csrc" / "cuda" / "kernels.cu"
GENERATED = ROOT / "build" / "generated"  # where csrc/generate.py writes the structs of the kernels' arguments
IMAGE = ROOT / "edgefl" / "kernels" / "cuda" / "kernels.fatbin.xz"
PTX = ("75", "80")  # a driver compiles the last that its device can run, and TF32 is from 80 on
OLD_PTX = ("60", "80")  # the first is the oldest that drivers for CUDA 12 know
TARGETS = ("75", "80", "86", "87", "89", "90", "100", "103", "110", "120", "121")
ALL = tuple(each for each in TARGETS if each not in ("86", "89", "103"))  # 86, 89 and 103 run the code of 80 and 100
FLAGS = ("-std=c++17", "-O3", "-fmad=false", "--no-compress", "-Xptxas=-v", "--threads=0", f"-I{GENERATED}")
NVRTC_FLAGS = (  # without the host's headers
    "--std=c++17", "--fmad=false", f"--include-path={SOURCE.parent}", f"--include-path={GENERATED}",
    "--define-macro=NAN=__int_as_float(0x7fc00000)", "--define-macro=INFINITY=__int_as_float(0x7f800000)",
)  # fmt: skip
_KERNEL = re.compile(r"Compiling entry function '(\w+)' for 'sm_(\w+)'")
_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?")


class Resources(NamedTuple):
    """The resources of a kernel: registers of a thread, shared bytes of a block, spilled bytes of a thread."""

    kernel: str
    target: str
    registers: int
    shared: int
    spilled: int


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--targets", default="", help=f"some of {','.join(TARGETS)}, or all; default: PTX alone")
    parser.add_argument("--out", type=Path, default=IMAGE)
    parser.add_argument("--nvrtc", type=Path, metavar="LIBRARY", help="PTX by it in place of nvcc's")
    options = parser.parse_args(arguments)
    targets = ALL if options.targets == "all" else tuple(filter(None, options.targets.split(",")))
    unknown = set(targets) - set(TARGETS)
    if unknown:
        parser.error(f"--targets {','.join(sorted(unknown))}; expected some of {', '.join(TARGETS)}, or all")
    try:
        resources = compiled(targets, () if options.nvrtc else PTX, options.out) if targets or not options.nvrtc else []
        if options.nvrtc:
            made = b"\0".join(ptx_by(options.nvrtc, target) for target in OLD_PTX)  # much alike, so packed as one
            options.out.with_name(f"kernels.{'-'.join(OLD_PTX)}.ptx.xz").write_bytes(packed(made))
    except (OSError, subprocess.CalledProcessError, ValueError) as error:
        print(f"{SOURCE.name} was not compiled: {getattr(error, 'stderr', '') or error}", file=sys.stderr)
        return 1
    (options.out.parent / "kernels.csv").write_text(table(resources))
    for image in sorted(options.out.parent.glob("kernels.*.xz")):
        print(f"{image}: {image.stat().st_size} bytes", file=sys.stderr)
    for each in (each for each in resources if each.spilled):
        print(f"{each.kernel} spills {each.spilled} bytes on sm_{each.target}", file=sys.stderr)
    return 0


def generate() -> None:
    """Write the structs of the kernels' arguments. Raises CalledProcessError for a wrong row."""
    command = [sys.executable, str(ROOT / "csrc" / "generate.py"), str(GENERATED)]
    subprocess.run(command, check=True, capture_output=True, text=True)


def compiled(targets: Sequence[str], ptx: Sequence[str], out: Path) -> list[Resources]:
    """Write the image, machine code for `targets` and PTX. Raises CalledProcessError with what nvcc said."""
    generate()
    codes = [f"-gencode=arch=compute_{each},code=sm_{each}" for each in targets]
    codes += [f"-gencode=arch=compute_{each},code=compute_{each}" for each in ptx]
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder) / "kernels.fatbin"
        command = [nvcc(), "-fatbin", *FLAGS, *codes, "-o", str(raw), str(SOURCE)]
        said = subprocess.run(command, check=True, capture_output=True, text=True)
        out.write_bytes(packed(raw.read_bytes()))
    return sorted(resources_of(said.stdout + said.stderr))


def ptx_by_nvcc(target: str, *more: str) -> bytes:
    """Return PTX, made with these flags too. Raises CalledProcessError with what nvcc said."""
    generate()
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "kernels.ptx"
        flags = [flag for flag in FLAGS if not flag.startswith(("-X", "--no", "--threads"))]
        command = [nvcc(), "-ptx", f"-arch=compute_{target}", *flags, *more, "-o", str(made), str(SOURCE)]
        subprocess.run(command, check=True, capture_output=True, text=True)
        return made.read_bytes()


def packed(image: bytes) -> bytes:
    return lzma.compress(image, preset=9 | lzma.PRESET_EXTREME)  # a third of the size of nvcc's own packing


def ptx_by(library: Path, target: str) -> bytes:
    """Return PTX by a libnvrtc, which leaves the process in another locale.

    Raises OSError if the library cannot be loaded, and ValueError with what it says of the sources.
    """
    generate()
    nvrtc, program, size = ctypes.CDLL(str(library)), ctypes.c_void_p(), ctypes.c_size_t()
    nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p

    def text(of: str) -> bytes:
        getattr(nvrtc, f"nvrtcGet{of}Size")(program, ctypes.byref(size))
        found = ctypes.create_string_buffer(size.value)
        getattr(nvrtc, f"nvrtcGet{of}")(program, found)
        return found.value

    header = (ctypes.c_char_p * 1)(b""), (ctypes.c_char_p * 1)(b"cstring")  # NVRTC has its memcpy anyway
    source = SOURCE.read_bytes(), SOURCE.name.encode()
    if status := nvrtc.nvrtcCreateProgram(ctypes.byref(program), *source, 1, *header):
        raise ValueError(f"{library.name}: {nvrtc.nvrtcGetErrorString(status).decode()}")
    flags = [each.encode() for each in (f"--gpu-architecture=compute_{target}", *NVRTC_FLAGS)]
    if nvrtc.nvrtcCompileProgram(program, len(flags), (ctypes.c_char_p * len(flags))(*flags)):
        raise ValueError(text("ProgramLog").decode())
    return text("PTX")


def nvcc() -> str:
    """Return the path of nvcc. Raises FileNotFoundError where there is no nvcc."""
    found = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    if found is None:
        raise FileNotFoundError("nvcc is not installed; expected CUDA 13's")
    return found


def resources_of(said: str) -> list[Resources]:
    """Return what ptxas -v said of each kernel."""
    found, kernel, target, spilled = [], "", "", 0
    for line in said.splitlines():
        if match := _KERNEL.search(line):
            kernel, target = match.groups()
        elif match := _SPILLS.search(line):
            spilled = sum(map(int, match.groups()))
        elif match := _USED.search(line):
            found.append(Resources(kernel, target, int(match[1]), int(match[2] or 0), spilled))
    return found


def table(resources: Sequence[Resources]) -> str:
    lines = [",".join(Resources._fields), *(",".join(map(str, each)) for each in resources)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
