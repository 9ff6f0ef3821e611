#!/usr/bin/env python3
"""Runs the CUDA backend's tests on the PTX that nvcc and NVRTC make of the kernels, instead of on their sources.

    scripts/cuda_ptx.py                          by nvcc, the PTX for sm_75 and that for sm_80, which has TF32's kernels
    scripts/cuda_ptx.py --nvrtc LIBRARY          and by this libnvrtc.so.12, for sm_60 and sm_80
    scripts/cuda_ptx.py --targets 80 -- -x TEST  by nvcc for one target, and what pytest is given

The stand-in for a driver runs the PTX (tests/kernels/cuda/standin/ptx.py). Each load and store must be aligned and lie
in a block of its exact size. EDGEFL_STANDIN_WATCH=1 tells races, too. A driver makes machine code of PTX, and only a
GPU runs that.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from cuda import OLD_PTX, PTX, ROOT, ptx_by, ptx_by_nvcc

TESTS = ("-q", "-n", "2", "--dist", "loadfile", "tests/kernels/test_operations.py", "tests/kernels/cuda")
# Tests of the sources and of the stand-in have nothing to do with PTX. sm_75 has no TF32.
SELECTED = "cuda and not test_watch and not test_image and not test_barriers and not test_standin and not test_ptx"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--targets", default=",".join(PTX), help="nvcc's; default: %(default)s")
    parser.add_argument("--nvrtc", type=Path, metavar="LIBRARY", help="PTX by it too")
    parser.add_argument("pytest", nargs="*", help="its arguments; default: all tests that run kernels")
    options = parser.parse_args(arguments)
    given = [("nvcc", target) for target in options.targets.split(",")]
    given += [("NVRTC", target) for target in OLD_PTX if options.nvrtc]
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        for compiler, target in given:
            made = ptx_by(options.nvrtc, target) if compiler == "NVRTC" else ptx_by_nvcc(target)
            ptx = Path(folder) / f"{compiler}-{target}.ptx"
            ptx.write_bytes(made)
            print(f"== {compiler}'s PTX for sm_{target}, {len(made)} bytes", flush=True)
            if status_of(ptx, options.pytest or [*TESTS, "-k", SELECTED + " and not tf32" * (int(target) < 80)]):
                failed.append(ptx.stem)
    if failed:
        print(f"tests fail on {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def status_of(ptx: Path, arguments: Sequence[str]) -> int:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    environment = os.environ | {"EDGEFL_STANDIN_PTX": str(ptx), "EDGEFL_CUDA_EXACT": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
