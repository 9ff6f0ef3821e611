"""Opening the device, and what it does when the driver fails: a clear refusal, and nothing kept."""

from __future__ import annotations

import lzma
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgefl import kernels
from edgefl.errors import BackendError, MemoryLimitError
from edgefl.kernels.cuda import compiled_images
from edgefl.kernels.cuda.device import CudaDevice
from edgefl.kernels.cuda.driver import Driver
from edgefl.kernels.cuda.memory import DeviceMemory
from edgefl.kernels.cuda.program import CudaProgram

from . import standin
from .conftest import Seen

OPENING = (
    "cuInit",
    "cuDriverGetVersion",
    "cuDeviceGet",
    "cuDeviceGetName",
    "cuDeviceGetAttribute",
    "cuDevicePrimaryCtxRetain",
    "cuCtxPushCurrent",
    "cuModuleLoadData",
    "cuStreamCreate",
)


def test_device_is_opened_in_order_and_given_back(cuda: Any, seen: Seen) -> None:
    before = seen.live
    device = CudaDevice()
    assert list(dict.fromkeys(call.split()[0] for call in seen.calls)) == [*OPENING, "cuCtxPopCurrent"]
    assert (device.name, device.capability, device.multiprocessors) == ("stand-in", (9, 0), 4)
    device.close()
    assert seen.live == before


@pytest.mark.parametrize("call", OPENING)
def test_a_failing_call_refuses_the_device_by_name_and_keeps_nothing(cuda: Any, seen: Seen, call: str) -> None:
    before = seen.live
    seen.fail(call)
    with pytest.raises(ImportError, match=rf"no CUDA device: {call}\w* failed with CUDA_ERROR_LAUNCH_FAILED \(719\)"):
        CudaDevice()
    assert seen.live == before


def test_the_context_of_the_thread_is_left_as_it_was(cuda: Any, seen: Seen) -> None:
    """It may be the context of another device, which another library uses."""
    device = CudaDevice()
    program, _, _ = recorded(cuda, device)
    program.run()
    assert device.described.startswith("stand-in")
    with device.timed():
        program.run()
    assert seen.current == 0
    assert seen.count("cuCtxPushCurrent") == seen.count("cuCtxPopCurrent")
    seen.forget()
    seen.fail("cuStreamSynchronize")
    with pytest.raises(BackendError):
        program.run()
    assert seen.current == 0
    device.close()


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[bytes]:
    """Put files in place of a wheel's, and return the content of the images in them."""
    whole, *parts = b"machine code\0", b"PTX of 60", b"PTX of 80"
    (tmp_path / "kernels.fatbin.xz").write_bytes(lzma.compress(whole))
    (tmp_path / "kernels.60-80.ptx.xz").write_bytes(lzma.compress(b"\0".join(parts)))
    monkeypatch.setattr(compiled_images, "FOLDER", tmp_path)
    monkeypatch.delenv("EDGEFL_CUDA_KERNELS", raising=False)
    return [*parts, whole]


def test_a_driver_is_given_what_it_takes_first(cuda: Any, files: list[bytes]) -> None:
    first, second, third = files
    for version, capability, expected in (
        (13000, (9, 0), [third, second, first]),
        (12060, (8, 7), [second, first, third]),
        (12020, (7, 2), [first, third]),
    ):
        assert [image.code for image in compiled_images.found(version, capability)] == expected


def test_an_image_without_code_for_the_device_is_passed_over(cuda: Any, seen: Seen, files: list[bytes]) -> None:
    seen.fail("cuModuleLoadData", status=209)
    CudaDevice().close()
    assert seen.count("cuModuleLoadData") == 2
    driver, one = Driver(), compiled_images.found(12000, (6, 1))[:1]
    seen.forget()
    seen.fail("cuModuleLoadData", status=222)
    with pytest.raises(
        ImportError, match=r"no kernels for this device and its driver \(kernels.60-80.ptx.xz \(sm_60\): .*\(222\)"
    ):
        compiled_images.loaded(driver, one)


def test_kernels_that_were_not_compiled_are_missed_by_name(
    cuda: Any, seen: Seen, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("EDGEFL_CUDA_KERNELS", str(tmp_path / "kernels.fatbin.xz"))
    with pytest.raises(ImportError, match=r"kernels\.fatbin\.xz is missing: this edgefl was built without nvcc"):
        CudaDevice()


def test_no_driver_is_a_backend_that_cannot_be_loaded() -> None:
    code = "from edgefl import kernels; kernels.backend('cuda')"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"EDGEFL_LIBCUDA": "libnone.so.7"}, capture_output=True, text=True
    )
    assert "EDGEFL_KERNELS=cuda cannot be loaded (no CUDA driver: libnone.so.7" in done.stderr
    assert "BackendError" in done.stderr


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="there may be a device")
@pytest.mark.parametrize("part", ["tests", "sanitizer", "times"])
def test_without_a_device_nothing_is_measured(part: str) -> None:
    done = subprocess.run(
        ["scripts/cuda_device.sh", part], cwd=standin.ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "not run: no device\n"


def test_cuda_is_never_the_default() -> None:
    assert "cuda" not in kernels.BACKENDS
    found = "(n for n in sys.modules if n.startswith('edgefl') and 'cuda' in n)"  # numba-cuda begins with every Python
    code = f"import sys; from edgefl import kernels; kernels.backend(); print(*{found})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_no_room_is_told_with_its_bytes(cuda: Any, seen: Seen) -> None:
    device = CudaDevice()
    seen.room(1000)
    with (
        device.used(),
        pytest.raises(MemoryLimitError, match="2000 bytes of device memory; stand-in has 1000 of 1000 free"),
    ):
        device.allocate(2000)
    device.close()


def test_scratch_that_finds_no_room_makes_what_used_it_stale(cuda: Any, seen: Seen) -> None:
    device = CudaDevice()
    with device.used():
        device.scratch(500)
    before = device.generation
    seen.room(1000)
    with device.used(), pytest.raises(MemoryLimitError, match="2048 bytes of device memory"):
        device.scratch(2000)
    assert device.generation > before
    assert device.scratch_bytes == 0
    device.close()


RUNNING = (
    "cuMemAlloc",
    "cuMemcpyHtoDAsync",
    "cuLaunchKernel",
    "cuMemcpyDtoHAsync",
    "cuStreamSynchronize",
    "cuModuleGetFunction",
    "cuFuncGetAttribute",
)
GRAPHS = ("cuStreamBeginCapture", "cuStreamEndCapture", "cuGraphInstantiate", "cuGraphLaunch")


@pytest.mark.parametrize("call", [*RUNNING, *GRAPHS])
def test_a_call_that_fails_in_a_run_is_named_and_the_next_run_is_right(cuda: Any, seen: Seen, call: str) -> None:
    device = CudaDevice()
    program, x, y = recorded(cuda, device)
    if call in GRAPHS:
        program.run()
    y[:] = 0
    seen.forget()
    seen.fail(call)
    with pytest.raises(BackendError, match=f"{call}\\w* failed with CUDA_ERROR_LAUNCH_FAILED"):
        program.run()
    seen.forget()
    program.run()
    assert np.array_equal(y, np.maximum(x, 0))
    assert seen.current == 0
    del program
    with device.used():
        pass
    device.close()


def recorded(cuda: Any, device: CudaDevice) -> tuple[CudaProgram, np.ndarray, np.ndarray]:
    """A program of one rectifier on arrays of the host's: it, its input and its output."""
    x = np.arange(-12, 12, dtype=np.float32).reshape(2, 3, 4)
    y = np.zeros_like(x)
    program = CudaProgram(device, DeviceMemory(device), cuda.KNOWN)
    program.append("relu_forward", x, y, None)
    return program, x, y
