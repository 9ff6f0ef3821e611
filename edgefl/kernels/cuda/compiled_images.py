"""The compiled kernels (scripts/cuda.py): the choice of the files of this folder, or their parts, for a driver.

kernels.fatbin.xz     by nvcc: machine code of several processors, and PTX
kernels.N-M.ptx.xz    by NVRTC 12.0: PTX for processors from sm_N on, and from sm_M on, which every driver takes

EDGEFL_CUDA_KERNELS names another file.
"""

from __future__ import annotations

import lzma
import os
from collections.abc import Sequence
from ctypes import c_void_p
from pathlib import Path
from typing import NamedTuple

from .driver import Driver, DriverError

FOLDER = Path(__file__).parent
NVCC_VERSION = 13000  # driver version from which on nvcc 13's machine code is taken
NO_CODE = (200, 209, 218, 222)  # what cuModuleLoadData returns for an image that is not for this device or this driver


class Image(NamedTuple):
    """A file of compiled kernels, or a part of it. `target` is the first processor (sm_N) that the part is for."""

    path: Path
    target: int | None = None

    @property
    def name(self) -> str:
        return self.path.name if self.target is None else f"{self.path.name} (sm_{self.target})"

    @property
    def code(self) -> bytes:
        packed = self.path.read_bytes()
        code = lzma.decompress(packed) if self.path.suffix == ".xz" else packed
        return code if self.target is None else code.split(b"\0")[_targets(self.path).index(self.target)]


def found(version: int, capability: tuple[int, ...]) -> list[Image]:
    """Return the images for this driver and device, the best first. Raises ImportError if there is no such image."""
    named = os.environ.get("EDGEFL_CUDA_KERNELS")
    by_nvcc = Path(named) if named else FOLDER / "kernels.fatbin.xz"
    ours = 10 * capability[0] + capability[1]
    files = [] if named else FOLDER.glob("kernels.*.ptx.xz")
    parts = sorted((-part, path) for path in files for part in _targets(path) if part <= ours)
    by_nvrtc = [Image(path, -part) for part, path in parts]
    whole = [Image(by_nvcc)] if by_nvcc.is_file() else []
    images = [*whole, *by_nvrtc] if version >= NVCC_VERSION else [*by_nvrtc, *whole]
    if not images:
        raise ImportError(f"{by_nvcc.name} is missing: this edgefl was built without nvcc")
    return images


def loaded(driver: Driver, images: Sequence[Image]) -> c_void_p:
    """Load the first image that has code for the device, and return its module.

    Raises ImportError if no image has such code, and DriverError if loading fails for another reason.
    """
    said = []
    for image in images:
        try:
            return driver.handle("cuModuleLoadData", image.code)
        except DriverError as error:
            if error.status not in NO_CODE:
                raise
            said.append(f"{image.name}: {error}")
    raise ImportError(f"no kernels for this device and its driver ({'; '.join(said)}); build edgefl on this machine")


def cuda(version: int) -> str:
    """Return a version as text: CUDA 12.6 for 12060."""
    return f"CUDA {version // 1000}.{version % 1000 // 10}"


def _targets(path: Path) -> list[int]:
    """Return the processors that a file's name has: 60 and 80 for kernels.60-80.ptx.xz."""
    return [int(each) for each in path.name.split(".")[1].split("-")]
