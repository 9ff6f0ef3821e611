"""What nvcc makes of the kernels: all of them, none that spills, none that takes more than resources.csv says."""

from __future__ import annotations

import csv
import ctypes
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from . import standin
from .conftest import Seen

RECORDED = standin.ROOT / "csrc" / "cuda" / "resources.csv"
BUILT = standin.ROOT / "edgefl" / "kernels" / "cuda" / "kernels.csv"
TARGETS = ("75", "90")

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
    """Of the install, if it was asked for these targets; else made now."""
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
    assert {kernel for kernel, _ in recorded} == {kernel for kernel, _ in compiled}
    assert recorded
    for key, most in recorded.items():
        assert all(found <= limit for found, limit in zip(compiled[key], most, strict=True)), (key, compiled[key])
        assert compiled[key][2] == 0, key


def test_tf32_is_compiled_for_processors_that_have_it(compiled: Table) -> None:
    forms = {key for key in compiled if key[0].endswith("_tf32")}
    assert {target for _, target in forms} == {target for _, target in compiled if int(target) >= 80}


def test_the_emulation_has_the_kernels_that_are_compiled(seen: Seen) -> None:
    library = standin.controls()
    threads, size = ctypes.c_int(), ctypes.c_size_t()
    for kernel, _ in table(RECORDED):
        assert library.standin_kernel(kernel.encode(), ctypes.byref(threads), ctypes.byref(size)), kernel
        assert size.value % 8 == 0, kernel  # a struct of 8-byte fields
