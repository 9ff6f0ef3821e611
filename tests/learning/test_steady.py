"""A training step of a warmed native learner allocates nothing and touches no new page, on one thread and on two."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import edgefl
from edgefl.kernels import backend

HERE = Path(__file__).parent
SMALL = (
    ("digits_cnn", (1, 8, 8), 16),
    ("fedspu_emnist", (1, 28, 28), 16),
    ("fedspu_cifar", (3, 32, 32), 16),
    ("pflego_mlp", (1, 28, 28), 64),
)
CASES = [
    *((*case, keep) for case in SMALL for keep in (1.0, 0.2)),
    ("vgg11", (3, 32, 32), 2, 1.0),
    ("resnet18", (3, 32, 32), 2, 0.2),
]


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that counts allocations."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or platform.libc_ver()[0] != "glibc":
        pytest.skip("counts allocations with a C compiler and glibc")
    library = tmp_path_factory.mktemp("counter") / "allocations.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, HERE / "allocations.c"], check=True)
    return library


@pytest.mark.skipif(not backend().__name__.endswith(".native"), reason="numpy and numba allocate as they like")
@pytest.mark.parametrize("threads", [1, 2])
def test_steps_allocate_nothing_and_fault_no_page(counter: Path, threads: int) -> None:
    path = os.pathsep.join(filter(None, (str(Path(edgefl.__file__).parents[1]), os.environ.get("PYTHONPATH"))))
    settings = {"LD_PRELOAD": str(counter), "EDGEFL_NUM_THREADS": str(threads), "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, HERE / "steady.py"],
        input=json.dumps(CASES),
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *found, (allocations, faults) = json.loads(done.stdout)
    assert allocations >= 3 and faults >= 4 * 5_000_000 * 8 >> 21  # the counters count, in pages of 2 MB or less
    assert {case: tuple(counts) for case, counts in zip(CASES, found, strict=True)} == dict.fromkeys(CASES, (0, 0))
