"""Normalisations of runs that several blocks share, whose sums are left for a second launch, and of small layers.

Small layers take one launch.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest

from edgefl.kernels.cuda.divisor import divisor
from edgefl.kernels.cuda.launch import Ids
from edgefl.kernels.cuda.norm_runs import BLOCK, Runs

from .. import cases_norm as norm
from .. import cases_norm_relu as norm_relu
from ..calls import check_case, each
from ..cases import Case, normal
from . import standin

PLANES = (41, 3, 21, 20)  # a channel is more values than a block sums
GROUPS = (2, 20, 31, 30)  # and so are two groups of channels, of windows too
IMAGES = (24, 2, 31, 30)  # and a channel, whose groups are small
ROWS = (700, 5)  # channels side by side in a block
LANES = (1, 4, 700, 5)
POSITIONS = (3, 900, 7)
LAST = 2**31 - 1


@pytest.fixture
def backend() -> ModuleType:
    return standin.backend()


def shared_channels() -> Iterator[Case]:
    for shape in (PLANES, ROWS):
        yield Case("batchnorm_forward", str(shape), lambda rng, s=shape: norm.batchnorm_forward(rng, s, 100))
        yield Case("batchnorm_eval", str(shape), lambda rng, s=shape: norm.batchnorm_eval(rng, s))
        make = lambda rng, s=shape: norm.batchnorm_backward(rng, s, "but_one", "but_one")  # noqa: E731
        yield Case("batchnorm_backward", str(shape), make)
    for is_halved in (False, True):
        make = lambda rng, h=is_halved: norm_relu.batchnorm_forward(rng, PLANES, h, True)  # noqa: E731
        yield Case("batchnorm_relu_forward", f"halved-{is_halved}", make)
        for kind in ("but_one", "none"):
            make = lambda rng, h=is_halved, k=kind: norm_relu.batchnorm_backward(rng, PLANES, h, k, k, True)  # noqa: E731
            yield Case("batchnorm_relu_backward", f"halved-{is_halved}-{kind}", make)


def shared_groups() -> Iterator[Case]:
    yield Case("groupnorm_forward", "split", lambda rng: norm.groupnorm_forward(rng, GROUPS, 1, True))
    yield Case("groupnorm_backward", "split", lambda rng: norm.groupnorm_backward(rng, GROUPS, 1, "all"))
    for is_halved in (False, True):
        make = lambda rng, h=is_halved: norm_relu.groupnorm_forward(rng, GROUPS, h, 1)  # noqa: E731
        yield Case("groupnorm_relu_forward", f"halved-{is_halved}", make)
        for shape in (GROUPS, IMAGES):
            make = lambda rng, s=shape, h=is_halved: norm_relu.groupnorm_backward(rng, s, h, 1, "all")  # noqa: E731
            yield Case("groupnorm_relu_backward", f"{shape}-halved-{is_halved}", make)
    make = lambda rng: norm_relu.groupnorm_backward(rng, IMAGES, True, 2, "none")  # noqa: E731
    yield Case("groupnorm_relu_backward", "none", make)
    yield Case("groupnorm_lanes_forward", "split", lambda rng: norm_relu.lanes_forward(rng, LANES, 1, True))
    yield Case("groupnorm_lanes_backward", "split", lambda rng: norm_relu.lanes_backward(rng, LANES, 1, True, True))
    yield Case("layernorm_forward", "split", lambda rng: norm.layernorm_forward(rng, POSITIONS, True))
    yield Case("layernorm_backward", "split", lambda rng: norm.layernorm_backward(rng, POSITIONS, "odd"))


def test_runs_that_blocks_share(backend: ModuleType) -> None:
    each((case, lambda case=case: check_case(backend, case)) for case in (*shared_channels(), *shared_groups()))


def test_a_mean_far_from_zero_costs_no_accuracy(backend: ModuleType) -> None:
    """Values of 4096 and of one more, whose first is 0: about neither 0 nor the first a sum in float32 would do."""
    x = 4096 + (np.arange(6000, dtype=np.float32) % 2).reshape(4, 1, 1500)
    x[0, 0, 0] = 0
    y, xhat, inv_std = np.empty_like(x), np.empty_like(x), np.zeros(1, np.float32)
    one, running = np.ones(1, np.float32), np.zeros((2, 1), np.float32)
    backend.batchnorm_forward(x, one, np.zeros(1, np.float32), *running, y, xhat, inv_std, 0.0, 1.0)
    exact = x.astype(np.float64)
    assert inv_std[0] == pytest.approx(1 / exact.std(), rel=1e-6)
    assert running[0, 0] == pytest.approx(exact.mean(), rel=1e-7)
    assert running[1, 0] == pytest.approx(exact.var(ddof=1), rel=1e-6)


def test_equal_values_have_no_variance(backend: ModuleType) -> None:
    x = np.full((3, 1, 2000), 1e6 + 1, np.float32)
    y, inv_std = np.empty_like(x), np.zeros((3, 1), np.float32)
    backend.groupnorm_forward(x, np.ones(1, np.float32), np.zeros(1, np.float32), y, None, inv_std, 1, 0.25)
    assert (y == 0).all()
    assert (inv_std == 2).all()


def test_small_layers_are_one_launch_and_large_ones_fill_the_device() -> None:
    def shared(batch: int, channels: int, inner: int) -> Runs:
        return Runs(Ids(None, channels), 1, channels, 1, batch, channels, inner).shared()

    assert not shared(16, 20, 14 * 14).is_split
    assert not shared(128, 512, 4).is_split
    large = shared(128, 64, 32 * 32)
    assert 512 <= large.count * large.pieces <= 2048
    assert large.values // large.pieces >= BLOCK
    assert shared(128, 1000, 1).abreast == 32


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 641, 1000, 65536, 65537, 2**30 + 1, LAST])
def test_a_product_divides(size: int) -> None:
    multiplier, shift = divisor(size).values
    multiples = [k * size for k in (1, 2, 3, LAST // size) if k * size <= LAST]
    for number in (0, 1, LAST - 1, LAST, *multiples, *(multiple - 1 for multiple in multiples)):
        assert number * multiplier >> shift == number // size
    assert multiplier < 2**32


def test_planes_are_averaged_by_threads_together(backend: ModuleType) -> None:
    x = normal(np.random.default_rng(0), 3, 5, 40, 33)
    for call in ("adaptive_avgpool_forward", "avgpool_forward"):
        y = np.zeros((3, 5, 1, 1), np.float32)
        window = ((40, 33), (1, 1), (0, 0), True) if call == "avgpool_forward" else ()
        getattr(backend, call)(x, y, *window)
        assert np.allclose(y[..., 0, 0], x.astype(np.float64).mean(axis=(2, 3)), rtol=0, atol=1e-7)
