"""The code that nvcc and NVRTC make of the kernels: all kernels, without spills, within the limits of resources.csv."""

from __future__ import annotations

import csv
import ctypes
import lzma
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest

from edgefl.kernels.cuda import structs

from . import standin
from .conftest import Seen

RECORDED = standin.ROOT / "csrc" / "cuda" / "resources.csv"
BUILT = standin.ROOT / "edgefl" / "kernels" / "cuda" / "kernels.csv"
TARGETS = ("75", "90")
UNRECORDED = (32, 0, 0)  # of a kernel without a line: so few registers that a processor runs as many threads as it can

Table = dict[tuple[str, str], tuple[int, int, int]]


def table(path: Path) -> Table:
    """(kernel, target) -> registers, shared bytes, spilled bytes."""
    with path.open() as lines:
        rows = list(csv.DictReader(lines))
    return {
        (row["kernel"], row["target"]): (int(row["registers"]), int(row["shared"]), int(row["spilled"])) for row in rows
    }


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """Return the table of the install, if it was asked for these targets, or make it now."""
    if BUILT.is_file() and {target for _, target in table(BUILT)} >= set(TARGETS):
        return table(BUILT)
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not installed, and the install has made no image")
    image = tmp_path_factory.mktemp("image") / "kernels.fatbin.xz"
    command = [sys.executable, "scripts/cuda.py", "--targets", ",".join(TARGETS), "--out", str(image)]
    subprocess.run(command, cwd=standin.ROOT, check=True)
    return table(image.parent / "kernels.csv")


def test_no_kernel_spills_or_takes_more_than_recorded(compiled: Table) -> None:
    recorded = table(RECORDED)
    standin.backend()  # imports all files that have rows
    assert {kernel for kernel, _ in compiled} == set(structs.kernels())
    assert set(recorded) <= set(compiled)
    assert recorded
    for key in {key for key in compiled if key[1] in TARGETS}:
        most = recorded.get(key, UNRECORDED)
        assert all(found <= limit for found, limit in zip(compiled[key], most, strict=True)), (key, compiled[key])
        assert compiled[key][2] == 0, key


def test_every_recorded_kernel_takes_more_than_one_without_a_line() -> None:
    recorded = table(RECORDED)
    for kernel in {kernel for kernel, _ in recorded}:
        taken = [most for (name, _), most in recorded.items() if name == kernel]
        assert any(most[0] > UNRECORDED[0] or most[1] for most in taken), kernel


@pytest.fixture(scope="module")
def ptx(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Return NVRTC 12's files by the oldest processor, for drivers and processors that are too old for nvcc 13."""
    package = find_spec("nvidia.cuda_nvrtc") if find_spec("nvidia") else None
    if package is None or not package.submodule_search_locations:
        pytest.skip("nvidia-cuda-nvrtc-cu12 is not installed")
    library = Path(package.submodule_search_locations[0]) / "lib" / "libnvrtc.so.12"
    folder = tmp_path_factory.mktemp("ptx")
    command = ["scripts/cuda.py", "--nvrtc", str(library), "--out", str(folder / "kernels.fatbin.xz")]
    subprocess.run([sys.executable, *command], cwd=standin.ROOT, check=True)  # NVRTC changes its process's locale
    assert [path.name for path in folder.glob("*.xz")] == ["kernels.60-80.ptx.xz"]
    made = {}
    texts = lzma.decompress((folder / "kernels.60-80.ptx.xz").read_bytes()).split(b"\0")
    for target, text in zip(("60", "80"), texts, strict=True):
        made[target] = folder / f"{target}.ptx"
        made[target].write_bytes(text)
    return made


def test_nvrtc_compiles_all_kernels_for_old_drivers(ptx: Mapping[str, Path]) -> None:
    standin.backend()  # imports all files that have rows
    every = set(structs.kernels())
    for target, kernels in ("60", {name for name in every if not name.endswith("_tf32")}), ("80", every):
        text = ptx[target].read_text()
        assert f".version 8.0\n.target sm_{target}\n" in text
        assert set(re.findall(r"\.entry (\w+)\(", text)) == kernels


def test_no_kernel_of_nvrtc_spills_on_orin(ptx: Mapping[str, Path]) -> None:
    if shutil.which("ptxas") is None:
        pytest.skip("ptxas is not installed")
    command = ["ptxas", "-arch=sm_87", "-v", str(ptx["80"]), "-o", str(ptx["80"].with_suffix(".cubin"))]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    spilled = re.findall(r"(\d+) bytes spill stores", said)
    standin.backend()  # imports all files that have rows
    assert len(spilled) >= len(structs.kernels())
    assert set(spilled) == {"0"}


def test_tf32_is_compiled_for_processors_that_have_it(compiled: Table) -> None:
    forms = {key for key in compiled if key[0].endswith("_tf32")}
    assert {target for _, target in forms} == {target for _, target in compiled if int(target) >= 80}


def test_the_emulation_has_the_kernels_that_are_compiled(seen: Seen) -> None:
    library = standin.controls()
    threads, size = ctypes.c_int(), ctypes.c_size_t()
    for kernel, _ in table(RECORDED):
        assert library.standin_kernel(kernel.encode(), ctypes.byref(threads), ctypes.byref(size)), kernel
        assert size.value % 8 == 0, kernel  # a struct of 8-byte fields
