"""Batch norm by running statistics with rectifier and pool: the bits of the three kernels in turn, on every tier."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest

from .calls import each, native_isas, run
from .cases import Args, Array, Case, adversarial, blank

NAN, INF, TINY = np.nan, np.inf, 1e-45


@pytest.fixture(params=native_isas())
def instruction_set(native: ModuleType, request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    before = native.isa()
    native.cap_isa(request.param)
    yield native
    native.cap_isa(before)


def in_turn(native: ModuleType, args: Args) -> Array:
    """y by batchnorm_eval, a rectifier and, where it has another shape than x, a pool."""
    x, y = args["x"], args["y"]
    z = np.empty_like(x)
    affine = (args["weight"], args["bias"], args["running_mean"], args["running_var"])
    native.batchnorm_eval(x, *affine, z, args["eps"])
    (native.relu6_forward if args["relu6"] else native.relu_forward)(z, z, None)
    if y.shape == x.shape:
        return z
    native.maxpool_forward(z, y, None, (2, 2), (2, 2), (0, 0))
    return y.copy()


def check(native: ModuleType, args: Args) -> None:
    """Equal bits, but that of a NaN only its place counts."""
    expected, args = in_turn(native, args), args | {"y": np.full_like(args["y"], 7)}
    run(native, "batchnorm_relu_eval", args)
    found, is_number = args["y"], ~np.isnan(expected)
    assert np.array_equal(~np.isnan(found), is_number)
    assert np.array_equal(found.view(np.int32)[is_number], expected.view(np.int32)[is_number])


def test_every_case_has_the_bits_of_the_three_kernels(instruction_set: ModuleType) -> None:
    def of(case: Case) -> None:
        check(instruction_set, case.args())

    each((case, lambda case=case: of(case)) for case in adversarial("batchnorm_relu_eval"))


@pytest.mark.parametrize("relu6", [False, True])
@pytest.mark.parametrize("result", [(), (1, 1), (2, 4), (2, 7), (1, 16), (3, 20)])
@pytest.mark.parametrize("is_halved", [False, True])
def test_nan_infinities_and_zeros_of_either_sign(
    instruction_set: ModuleType, is_halved: bool, result: tuple[int, ...], relu6: bool
) -> None:
    """Every cell of a window is each of these values somewhere, and channels have all signs of weight and bias."""
    plane = tuple(2 * n + n // 7 % 2 for n in result) if is_halved else result
    signs = np.array([(w, b) for w in (1, -2, 0.0, -0.0) for b in (0.0, -0.0, 3, -3, INF)], np.float32)
    values = np.float32([NAN, INF, -INF, 0.0, -0.0, TINY, -TINY, 1, -1, 2, 2, 9])
    x = np.random.default_rng(8).choice(values, (40, len(signs), *plane))
    running = {"running_mean": np.zeros(len(signs), np.float32), "running_var": np.ones(len(signs), np.float32)}
    affine = {"weight": signs[:, 0].copy(), "bias": signs[:, 1].copy()}
    check(instruction_set, {"x": x, **affine, **running, "y": blank(*x.shape[:2], *result), "eps": 0.0, "relu6": relu6})


@pytest.mark.parametrize(
    ("weight", "relu6", "expected"),
    [(2, False, [[0, 0], [0, 1]]), (-2, False, [[0, 0], [0, 0]]), (14, True, [[0, 0], [6, 6]])],
)
def test_a_plane_of_four_by_hand(backend: ModuleType, weight: float, relu6: bool, expected: list[list[float]]) -> None:
    """x - 2 is -1 0 1 2, over the deviation 2, times the weight and less 1: -2 -1 0 1, 0 -1 -2 -3 and -8 -1 6 13."""
    x = np.array([[[[1, 2], [3, 4]]]], np.float32)
    one = {"weight": weight, "bias": -1, "running_mean": 2, "running_var": 4}
    args = {name: np.full(1, value, np.float32) for name, value in one.items()}
    for shape in ((1, 1, 2, 2), (1, 1, 1, 1)):
        y = np.full(shape, 7, np.float32)
        backend.batchnorm_relu_eval(x=x, **args, y=y, eps=0.0, relu6=relu6)
        assert y[0, 0].tolist() == (expected if shape == x.shape else [[np.max(expected)]])
