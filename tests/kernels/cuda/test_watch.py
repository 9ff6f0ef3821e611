"""The watch over loads and stores: it tells races in any order of threads, and counts what memory is asked for.

It is tried with kernels of its own (trial_kernels.cu), and then with all our kernels, which must not race.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from edgefl.kernels.cuda.driver import DriverError

from . import standin
from .trial import THREADS, Trial, opened, put_kernels

LAUNCH_FAILED = 719
OPERATIONS = "tests/kernels/test_operations.py"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("watched")
    put_kernels(folder)
    return standin.built(*standin.WATCH, kernels=folder)


@pytest.fixture
def trial(library: Path) -> Iterator[Trial]:
    with opened(library) as made:
        yield made


@pytest.fixture
def races(capfd: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Return a function that returns what is said of the race in a call. The call has to fail by a race."""

    def told(call: Callable[..., object], *args: object, **named: object) -> str:
        with pytest.raises(DriverError) as raised:
            call(*args, **named)
        assert raised.value.status == LAUNCH_FAILED
        return capfd.readouterr().err

    return told


def test_a_missing_barrier_is_a_race_in_every_order(trial: Trial, races: Callable[..., str]) -> None:
    for order in (0, 1, 2):
        assert trial.mirrors(order)
        for left in (0, 1, 2):
            assert "bytes of shared memory, which another thread has " in races(trial.mirrors, order, barriers=left)


def test_blocks_that_meet_in_device_memory_race(trial: Trial, races: Callable[..., str]) -> None:
    y = trial.put(np.zeros(9, np.float32))
    trial.run("store_places", y.address, 1, 0, grid=(8, 1, 1), threads=1)
    trial.run("store_places", y.address, 8, 0, threads=1)
    store, load = (
        "stores 4 bytes of device memory, which another block",
        "loads 4 bytes of device memory, which another",
    )
    assert f"{store} has stored" in races(trial.run, "store_places", y.address, 2, 0, grid=(8, 1, 1), threads=1)
    assert f"{store} has loaded" in races(trial.run, "store_places", y.address, 1, 1, grid=(8, 1, 1), threads=1)
    y = trial.put(np.zeros(9, np.float32))
    assert f"{load} block has stored" in races(
        trial.run, "store_places", y.address + 4, 1, -1, grid=(8, 1, 1), threads=1
    )


def test_neighbouring_bytes_are_no_race(trial: Trial) -> None:
    y = trial.put(np.zeros(THREADS // 4, np.float32))
    trial.run("store_bytes", y.address)
    assert trial.get(y).tobytes() == bytes(range(THREADS))


@pytest.mark.parametrize(("apart", "sectors", "turns"), [(0, 1, 1), (1, 4, 1), (2, 8, 2), (8, 32, 8), (31, 32, 1)])
def test_sectors_and_turns_are_counted(trial: Trial, apart: int, sectors: int, turns: int) -> None:
    x, y = trial.put(np.arange(32 * 32, dtype=np.float32)), trial.put(np.zeros(32, np.float32))
    if apart == 0:  # all threads store to one place
        with pytest.raises(DriverError):
            trial.run("load_apart", x.address, y.address, apart, threads=32)
    else:
        trial.run("load_apart", x.address, y.address, apart, threads=32)
        assert np.array_equal(trial.get(y), 1 + 2 * apart * np.arange(32, dtype=np.float32))
    kernel, sites = trial.traffic("load_apart")
    assert kernel == (1, 1, 32, 32, 4 if apart == 0 else 128, 128)  # launches, blocks, threads, products, bytes
    assert sites["global", "load"] == (1, sectors, 1 if apart == 0 else 4)
    assert sites["global", "store"] == (1, 4, 4)
    assert sites["shared", "load"] == sites["shared", "store"] == (1, turns, 1)


@pytest.mark.parametrize(
    ("fours", "turns", "least"),
    [
        (lambda lane: lane, 4, 4),
        (lambda lane: lane % 8, 4, 4),  # each quarter of the warp reads all banks
        (lambda lane: lane // 2, 2, 2),  # neighbours read the same
        (lambda lane: lane & 1 | lane >> 1 & 14, 2, 2),  # lanes that are two apart read the same
        (lambda lane: lane // 8, 2, 2),
        (lambda lane: lane * 8 % 32, 16, 4),  # all lie in the same four banks
    ],
)
def test_sixteen_bytes_of_a_thread_take_four_turns_or_two(
    trial: Trial, fours: Callable[[int], int], turns: int, least: int
) -> None:
    which, y = trial.put(np.array([fours(lane) for lane in range(32)], np.int32)), trial.put(np.zeros(32, np.float32))
    trial.run("load_fours", which.address, y.address, threads=32)
    _, sites = trial.traffic("load_fours")
    assert sites["shared", "load"] == (1, turns, least)


@pytest.mark.skipif(shutil.which("addr2line") is None, reason="addr2line is not installed")
def test_the_script_tells_what_an_operation_asks_for() -> None:
    command = [sys.executable, "scripts/cuda_traffic.py", "--op", "scale_channels", "--lines", "1"]
    done = subprocess.run(command, cwd=standin.ROOT, capture_output=True, text=True, check=True)
    title, head, kernel, total, *worst = done.stdout.splitlines()
    assert title == "products, memory: cycles of one SM, in thousands"
    assert head.split()[:3] == ["kernel", "launches", "blocks"]
    assert kernel.split()[0] == "scale_channels"
    assert total.split()[1:] == kernel.split()[1:]  # there is no other
    assert float(kernel.split()[3]) <= float(kernel.split()[4])  # MB once, MB taken
    assert "scale_channels: " in worst[-1]
    assert "elementwise.cuh:" in worst[-1]


def test_no_operation_races() -> None:
    if standin.is_real():
        pytest.skip("EDGEFL_LIBCUDA names a real driver: nobody watches its loads and stores")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-k",
        "cuda",
        OPERATIONS,
    ]
    environment = os.environ | {"EDGEFL_STANDIN_WATCH": "1"}
    done = subprocess.run(command, cwd=standin.ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert " passed" in done.stdout
