"""A device of a stand-in with the kernels of a trial, trial_kernels.cu."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

from edgefl.kernels.cuda.device import CudaDevice, DeviceAllocation, Launch

from . import standin

KERNELS = {"kernels.cu": Path(__file__).with_name("trial_kernels.cu")}
KERNELS |= {name: standin.ROOT / "csrc" / "cuda" / name for name in ("portable.cuh", "tf32_product.cuh")}
THREADS = 64
ORDERS = (0, 1, 2)


def put_kernels(folder: Path) -> None:
    """Write the files of which the trial is built."""
    for name, path in KERNELS.items():
        (folder / name).write_text(path.read_text())


@contextmanager
def opened(library: Path) -> Iterator[Trial]:
    """A trial on this library."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("EDGEFL_LIBCUDA", "EDGEFL_CUDA_KERNELS"):
            patch.setenv(name, str(library))
        made = Trial(library)
        yield made
        made.order(0)
        made.close()


class Trial:
    """The device. EDGEFL_LIBCUDA and EDGEFL_CUDA_KERNELS name the library."""

    def __init__(self, library: Path) -> None:
        self._controls = ctypes.CDLL(str(library))
        self.device = CudaDevice()
        self._used = ExitStack()
        self._used.enter_context(self.device.used())

    def close(self) -> None:
        self._used.close()
        self.device.close()

    def run(self, kernel: str, *fields: int, grid: tuple[int, int, int] = (1, 1, 1), threads: int = THREADS) -> None:
        self.device.launch(Launch(kernel, grid, threads, struct.pack(f"<{len(fields)}q", *fields)))

    def traffic(self, kernel: str) -> tuple[tuple[int, ...], dict[tuple[str, str], tuple[int, ...]]]:
        """Return the counts of a watched stand-in since the last call.

        They are what a kernel's launches came to, and by (global or shared, load or store) what was asked for at one
        place of its code.
        """
        self._controls.standin_traffic.restype = ctypes.c_char_p
        lines = [line.split(",") for line in self._controls.standin_traffic().decode().splitlines()]
        self._controls.standin_traffic_reset()
        ours = [line for line in lines if line[1] == kernel]
        (counts,) = (tuple(map(int, line[2:])) for line in ours if line[0] == "launch")
        sites = {(line[2], line[3]): tuple(map(int, line[5:])) for line in ours if line[0] == "site"}
        return counts, sites

    def order(self, order: int) -> None:
        self._controls.standin_order(order)

    def put(self, values: np.ndarray) -> DeviceAllocation:
        block = self.device.allocate(values.nbytes)
        self.device.upload(block.address, values.ctypes.data, values.nbytes)
        return block

    def get(self, block: DeviceAllocation) -> np.ndarray:
        values = np.zeros(block.size // 4, np.float32)
        self.device.download(values.ctypes.data, block.address, block.size)
        return values

    def mirrors(self, order: int, barriers: int = 3) -> bool:
        """Return whether the kernel `mirror` is right with these barriers."""
        self.order(order)
        values = np.arange(2 * THREADS, dtype=np.float32)
        x, y = self.put(values), self.put(np.zeros_like(values))
        self.run("mirror", x.address, y.address, barriers)
        return np.array_equal(self.get(y).reshape(2, THREADS), values.reshape(2, THREADS)[:, ::-1])
