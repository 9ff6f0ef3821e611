"""The compiled kernels (scripts/cuda.py): which of the files beside this one a driver is given.

kernels.fatbin.xz   by nvcc: machine code of several processors, and PTX
kernels.NN.ptx.xz   by NVRTC 12.0: PTX for processors from sm_NN on, which every driver takes

EDGEFL_CUDA_KERNELS names another file.
"""

from __future__ import annotations

import lzma
import os
from collections.abc import Sequence
from ctypes import c_void_p
from pathlib import Path

from .driver import Driver, DriverError

FOLDER = Path(__file__).parent
NVCC_VERSION = 13000  # of a driver from which on it takes nvcc 13's machine code
NO_CODE = (200, 209, 218, 222)  # what cuModuleLoadData returns of an image that is not for this device or this driver


def found(version: int, capability: tuple[int, ...]) -> list[Path]:
    """Those for this driver and device, the best first. Raises ImportError if there is none."""
    named = os.environ.get("EDGEFL_CUDA_KERNELS")
    by_nvcc = Path(named) if named else FOLDER / "kernels.fatbin.xz"
    ours = 10 * capability[0] + capability[1]
    by_nvrtc = [] if named else sorted(FOLDER.glob("kernels.*.ptx.xz"), key=_target, reverse=True)
    fitting = [path for path in by_nvrtc if _target(path) <= ours]
    images = [by_nvcc, *fitting] if version >= NVCC_VERSION else [*fitting, by_nvcc]
    images = [path for path in images if path.is_file()]
    if not images:
        raise ImportError(f"{by_nvcc.name} is missing: this edgefl was built without nvcc")
    return images


def loaded(driver: Driver, images: Sequence[Path]) -> c_void_p:
    """A module of the first that has code for the device. Raises ImportError if none has, DriverError otherwise."""
    said = []
    for path in images:
        packed = path.read_bytes()
        try:
            return driver.handle("cuModuleLoadData", lzma.decompress(packed) if path.suffix == ".xz" else packed)
        except DriverError as error:
            if error.status not in NO_CODE:
                raise
            said.append(f"{path.name}: {error}")
    raise ImportError(f"no kernels for this device and its driver ({'; '.join(said)}); build edgefl on this machine")


def cuda(version: int) -> str:
    """CUDA 12.6, of 12060."""
    return f"CUDA {version // 1000}.{version % 1000 // 10}"


def _target(path: Path) -> int:
    """80, of kernels.80.ptx.xz."""
    return int(path.name.split(".")[1])
