"""The stand-in for a GPU itself: it notices what it is there to notice. With kernels of its own, trial_kernels.cu."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from edgefl.errors import BackendError
from edgefl.kernels.cuda.driver import DriverError

from . import standin
from .trial import ORDERS, THREADS, Trial, opened, put_kernels

INVALID_VALUE, LAUNCH_FAILED = 1, 719


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a stand-in with the kernels of the trial."""
    folder = tmp_path_factory.mktemp("trial")
    put_kernels(folder)
    return standin.built(kernels=folder)


@pytest.fixture
def trial(library: Path) -> Iterator[Trial]:
    with opened(library) as made:
        yield made


@pytest.fixture
def refused() -> Callable[..., None]:
    def check(status: int, call: Callable[..., None], *args: object, **named: object) -> None:
        with pytest.raises(DriverError) as raised:
            call(*args, **named)
        assert raised.value.status == status

    return check


# ---- barriers --------------------------------------------------------------------------------------------------------


def test_kernel_with_its_barriers_is_right_in_every_order(trial: Trial) -> None:
    assert [trial.mirrors(order) for order in ORDERS] == [True] * 3


@pytest.mark.parametrize("barriers", [0, 1, 2])
def test_missing_barrier_is_noticed_in_some_order(trial: Trial, barriers: int) -> None:
    assert not all(trial.mirrors(order, barriers) for order in ORDERS)


@pytest.mark.parametrize(("first", "second"), [(1, 0), (THREADS - 1, 0), (THREADS, 1), (THREADS, THREADS - 1)])
@pytest.mark.parametrize("order", ORDERS)
def test_barrier_that_not_all_threads_reach_fails_the_launch(
    trial: Trial, refused: Callable[..., None], order: int, first: int, second: int
) -> None:
    trial.order(order)
    refused(LAUNCH_FAILED, trial.run, "uneven", first, second)
    trial.run("uneven", THREADS, THREADS)  # the next launch works


# ---- warps -----------------------------------------------------------------------------------------------------------


def products(trial: Trial, lanes: int = 32, threads: int = THREADS) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the expected and found products of two warps, and what threads read of each other in shared memory."""
    draw = np.random.default_rng(0)
    x, z = (draw.integers(-9, 9, shape).astype(np.float32) for shape in ((2, 16, 8), (8, 8)))
    y, left = trial.put(np.zeros((2, 16, 8), np.float32)), trial.put(np.zeros(THREADS, np.float32))
    trial.run(
        "product_of_warps", *(block.address for block in (trial.put(x), trial.put(z), y, left)), lanes, threads=threads
    )
    return trial.get(y).reshape(2, 16, 8), x @ z, trial.get(left)


@pytest.mark.parametrize("order", ORDERS)
def test_product_of_a_warp_is_that_of_its_fragments(trial: Trial, order: int) -> None:
    trial.order(order)
    found, wanted, _ = products(trial)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("order", ORDERS)
def test_product_that_not_all_threads_of_a_warp_reach_fails_the_launch(
    trial: Trial, refused: Callable[..., None], order: int
) -> None:
    trial.order(order)
    for lanes, threads in ((1, 64), (31, 64), (32, 63), (32, 17)):
        refused(LAUNCH_FAILED, products, trial, lanes, threads)
    products(trial)  # the next launch works


@pytest.mark.parametrize("order", ORDERS)
def test_product_of_a_warp_stands_in_for_no_barrier(trial: Trial, order: int) -> None:
    trial.order(order)
    assert np.isnan(products(trial)[2]).any()  # of the warp that had not run


# ---- blocks ----------------------------------------------------------------------------------------------------------


def test_shared_memory_is_nan_when_a_block_begins(trial: Trial) -> None:
    y = trial.put(np.zeros(12, np.float32))
    trial.run("left_over", y.address, grid=(4, 1, 1), threads=1)
    assert np.isnan(trial.get(y)).all()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("grid", "threads"), [((5, 1, 1), 64), ((2, 3, 4), 17), ((1, 7, 1), 1)])
def test_each_thread_of_each_block_runs_once(
    trial: Trial, order: int, grid: tuple[int, int, int], threads: int
) -> None:
    trial.order(order)
    y = trial.put(np.zeros(int(np.prod(grid)) * threads, np.float32))
    trial.run("count_threads", y.address, grid=grid, threads=threads)
    assert (trial.get(y) == 1).all()


# ---- launches --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("grid", [(1, 65536, 1), (1, 1, 65536), (0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_launch_of_a_grid_that_no_gpu_takes_fails(
    trial: Trial, refused: Callable[..., None], grid: tuple[int, int, int]
) -> None:
    refused(INVALID_VALUE, trial.run, "nothing", 0, grid=grid, threads=1)


def test_launch_of_a_large_grid(trial: Trial) -> None:
    trial.run("nothing", 0, grid=(1 << 17, 1, 1), threads=1)
    trial.run("nothing", 0, grid=(1, 65535, 1), threads=2)


@pytest.mark.parametrize("threads", [0, 3])
def test_launch_of_other_threads_than_the_kernel_allows_fails(
    trial: Trial, refused: Callable[..., None], threads: int
) -> None:
    refused(INVALID_VALUE, trial.run, "nothing", 0, threads=threads)


@pytest.mark.parametrize("fields", [(), (0,), (0, 0, 0, 0)])
def test_arguments_of_another_size_are_refused(trial: Trial, fields: tuple[int, ...]) -> None:
    with pytest.raises(BackendError, match=rf"mirror takes 24 bytes of arguments; got {8 * len(fields)}"):
        trial.run("mirror", *fields)


def test_unknown_kernel_is_not_found(trial: Trial, refused: Callable[..., None]) -> None:
    refused(500, trial.run, "no_such_kernel", 0)


# ---- memory ----------------------------------------------------------------------------------------------------------


def test_copies_outside_an_allocation_fail(trial: Trial, refused: Callable[..., None]) -> None:
    values = np.ones(8, np.float32)
    block, here = trial.put(values), values.ctypes.data
    for first, size in ((0, 33), (1, 32), (32, 1), (-4, 8)):
        refused(INVALID_VALUE, trial.device.upload, block.address + first, here, size)
        refused(INVALID_VALUE, trial.device.download, here, block.address + first, size)
    trial.device.upload(block.address + 28, here, 4)
    trial.device.free(block)
    refused(INVALID_VALUE, trial.device.upload, block.address, here, 32)


def test_memory_is_nan_until_it_is_written(trial: Trial) -> None:
    assert np.isnan(trial.get(trial.device.allocate(64))).all()


def test_memory_is_given_back_once(trial: Trial, refused: Callable[..., None]) -> None:
    block = trial.device.allocate(64)
    trial.device.free(block)
    refused(INVALID_VALUE, trial.device.free, block)
