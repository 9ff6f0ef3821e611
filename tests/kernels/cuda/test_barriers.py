"""scripts/cuda_barriers.py: barriers get numbers, one of them is passed over, and the files concerned are found."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from . import standin
from .trial import ORDERS, Trial, put_kernels

SCRIPT = standin.ROOT / "scripts" / "cuda_barriers.py"
FIRST = """#include "portable.cuh"
barrier();  // barrier();
if (a) barrier(); else { other_barrier(); barrier(); }
"""
SECOND = '#include "first.cuh"\nEFL_KERNEL(shift, 64, Args) {\n    barrier();\n}\n'


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cuda_barriers", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def kernels(tmp_path: Path) -> Path:
    for name, text in (("first.cuh", FIRST), ("second.cuh", SECOND), ("portable.cuh", "void barrier() {}\n")):
        (tmp_path / name).write_text(text)
    return tmp_path


def test_each_barrier_gets_a_number(script: ModuleType, kernels: Path) -> None:
    copy = kernels / "copy"
    copy.mkdir()
    assert list(map(str, script.numbered(kernels, copy))) == [
        "first.cuh:2",
        "first.cuh:3",
        "first.cuh:3",
        "second.cuh:3",
    ]
    assert (copy / "first.cuh").read_text().splitlines()[1:] == [
        "barrier_but(0);  // barrier();",
        "if (a) barrier_but(1); else { other_barrier(); barrier_but(2); }",
    ]
    assert "barrier_but(int number)" in (copy / "portable.cuh").read_text()


def test_files_concerned_are_those_that_include_one(script: ModuleType, kernels: Path) -> None:
    assert script.with_includers("first.cuh", kernels) == {"first.cuh", "second.cuh"}
    assert script.with_includers("second.cuh", kernels) == {"second.cuh"}
    assert script.kernels_of({"first.cuh", "second.cuh"}, kernels) == {"shift"}


@pytest.fixture
def without(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[int], list[bool]]:  # whether the mirror is right without this barrier, in each order
    folder, copy = tmp_path / "kernels", tmp_path / "copy"
    for each in (folder, copy):
        each.mkdir()
    put_kernels(folder)
    script.numbered(folder, copy)
    built = standin.built(kernels=copy)

    def run(number: int) -> list[bool]:
        library = shutil.copy(built, tmp_path / f"without-{number}.so")  # one that has not asked for the number yet
        for name in ("EDGEFL_LIBCUDA", "EDGEFL_CUDA_KERNELS"):
            monkeypatch.setenv(name, os.fspath(library))
        monkeypatch.setenv("EDGEFL_WITHOUT_BARRIER", str(number))
        trial = Trial(library)
        found = [trial.mirrors(order) for order in ORDERS]
        trial.close()
        return found

    return run


def test_barrier_of_that_number_is_passed_over(without: Callable[[int], list[bool]]) -> None:
    assert not all(without(0))
    assert not all(without(1))
    assert all(without(2))  # of another kernel


def test_what_fails_is_told_with_its_tests(script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("def test_good():\n    pass\n\n\ndef test_bad():\n    assert False\n")
    monkeypatch.setattr(script, "ROOT", tmp_path)
    failed = script.failure(["test_a.py"], tmp_path / "none.so", "2")
    assert (failed.order, failed.tests) == ("2", ["test_a.py::test_bad"])
    assert script.failure(["test_a.py::test_good"], tmp_path / "none.so", "2") is None
    with pytest.raises(ValueError, match=r"returned [45]; expected 0 or 1"):
        script.failure(["test_a.py::test_none"], tmp_path / "none.so", "2")
