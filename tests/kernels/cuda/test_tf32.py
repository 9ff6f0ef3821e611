"""The backend cuda-tf32: products of rounded inputs and nothing worse, in every tile and order of threads.

Where all sums are exact, its results have fp32's bits. So each case that is checked in this way shows that no term is
left out or counted twice. The bound on the other cases shows that inputs are rounded as TF32 rounds them.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from edgefl.learning import SGD, GraphLearner, Samples
from edgefl.models.graph import INPUT, Graph, Model, Node
from edgefl.models.graph.operations import Conv2d, Flatten, Linear, MaxPool2d, ReLU
from edgefl.rng import INIT, stream
from edgefl.system.build_id import build

from ..bounds import LINEAR, Bounds, bounds
from ..calls import check_case, copied, each, run
from ..cases import Args, Case, adversarial
from ..cases_convolution import Geometry, forward, grad_input, grad_weight
from ..cases_linear import linear_forward, linear_grad_input, linear_grad_weight, linear_update
from . import standin
from .sampling import launched

CONVOLUTIONS = ("conv2d_forward", "conv2d_grad_input", "conv2d_grad_weight")
LINEARS = ("linear_forward", "linear_grad_input", "linear_grad_weight", "linear_update")
EVERY = {**dict.fromkeys(CONVOLUTIONS, 8), **dict.fromkeys(LINEARS, 4)}  # of the adversarial cases, for time
GEOMETRIES = (
    Geometry(3, 19, 133, (9, 10), stride=(2, 1)),
    Geometry(2, 34, 68, (8, 8), (2, 2), stride=(2, 1), dilation=(2, 3), groups=2),
)
SIZES = {"narrow": (17, 300, 70), "wide": (70, 130, 100)}
ROUNDING = 2.0**-11  # of a value to 10 bits behind the leading one, at most half of the last, beside the value


@pytest.fixture
def tf32() -> ModuleType:
    if standin.is_real() and standin.backend().DEVICE.capability < (8, 0):
        pytest.skip(f"{standin.backend().DEVICE.name} has no TF32")
    return standin.backend("cuda-tf32")


@pytest.fixture
def exact() -> ModuleType:
    return standin.backend()


@pytest.fixture(params=(0, 1, 2))
def order(request: pytest.FixtureRequest) -> Iterator[int]:
    """Yield the order of the stand-in's threads. A device has its own order."""
    if standin.is_real():
        yield request.param
        return
    standin.controls().standin_order(request.param)
    yield request.param
    standin.controls().standin_order(int(os.environ.get("EDGEFL_STANDIN_ORDER", "0")))


def allowed(op: str, before: Args, after: Args) -> Bounds:
    """Return (1 + d)(1 + e) - 1, |d|, |e| <= ROUNDING, of each product's size.

    Products of rounded values are exact in fp32. Twice fp32's own error is added, because tensor cores may cut off
    where fp32 rounds.
    """
    terms = 6 + len(before["x"]) if op == "linear_update" else LINEAR[op][1](before)
    rounding = (2 * ROUNDING + ROUNDING**2) / (2.0**-24 * (4 + 2 * terms**0.5))
    return {name: bound * (2 + rounding) for name, bound in bounds(op, before, after).items()}


def found(module: ModuleType, op: str, args: Args) -> bytes:
    """The bits of what a call writes."""
    return b"".join(
        value.tobytes() for value in run(module, op, copied(args)).values() if isinstance(value, np.ndarray)
    )


def of_whole_numbers(args: Args) -> Args:
    """Return the call's arguments as small whole numbers. TF32 has them and all their sums exactly."""
    inputs = ("x", "dy", "weight", "bias")
    return {name: np.rint(8 * value) if name in inputs and value is not None else value for name, value in args.items()}


def check_all(tf32: ModuleType, exact: ModuleType, case: Case) -> None:
    check_case(tf32, case, allowed)
    args = case.args()
    assert found(tf32, case.op, args) != found(exact, case.op, args), "no different from fp32"
    args = of_whole_numbers(args)
    assert found(tf32, case.op, args) == found(exact, case.op, args), "whole numbers are not exact"


@pytest.mark.parametrize("op", EVERY)
def test_adversarial_cases_are_within_what_rounded_inputs_allow(tf32: ModuleType, op: str) -> None:
    each((case, partial(check_case, tf32, case, allowed)) for case in adversarial(op)[:: EVERY[op]])


@pytest.mark.parametrize("kind", ["huge", "long", "square", "flat"])
def test_tiles_of_every_kind(
    tf32: ModuleType, exact: ModuleType, order: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = exact.convolution
    monkeypatch.setattr(own, "TILES", [tile for tile in own.TILES if tile.name == kind])
    monkeypatch.setattr(own, "SPLITS", {1, (1, 3, 1)[order]})
    monkeypatch.setattr(own, "LEAST_DEPTH", 1)
    monkeypatch.setattr(own, "PROCESSORS", 1 << 20)  # so many that every split is welcome
    g = GEOMETRIES[order % len(GEOMETRIES)]
    cases = (
        Case("conv2d_forward", str(g), partial(forward, g=g, has_bias=True)),
        Case("conv2d_grad_input", str(g), partial(grad_input, g=g, rows="odd", cols="but_one")),
        Case("conv2d_grad_weight", str(g), partial(grad_weight, g=g, rows="but_one", cols="all")),
    )
    assert all(launched(tf32, case)[0].kernel.endswith(f"_{kind}_tf32") for case in cases)
    each((case, partial(check_all, tf32, exact, case)) for case in cases)


@pytest.mark.parametrize("kind", SIZES)
def test_linear_products_of_several_tiles(
    tf32: ModuleType, exact: ModuleType, order: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "wide":
        monkeypatch.setattr(exact.linear, "_FULL", 1)
    size = SIZES[kind]
    cases = (
        Case("linear_forward", str(size), lambda rng: linear_forward(rng, *size, True)),
        Case("linear_grad_input", str(size), lambda rng: linear_grad_input(rng, *size, "odd", "but_one")),
        Case("linear_grad_weight", str(size), lambda rng: linear_grad_weight(rng, *size, "but_one", "odd")),
        Case("linear_update", str(size), lambda rng: linear_update(rng, *size, "odd", "all", False)),
    )
    assert all(launched(tf32, case)[0].kernel.endswith(f"_{kind}_tf32") for case in cases)
    each((case, partial(check_all, tf32, exact, case)) for case in cases)


def test_inputs_are_rounded_to_the_nearest_and_of_two_the_larger(tf32: ModuleType) -> None:
    one, last, half = 0x3F800000, 0x2000, 0x1000
    bits = [one, one + half - 1, one + half, one + last, one + last + half, 0x7F7FFFFF, 0x7F800000, 0x00000000]
    kept = [one, one, one + last, one + last, one + 2 * last, 0x7F800000, 0x7F800000, 0x00000000]
    x = np.array([*bits, *(each | 1 << 31 for each in bits)], np.uint32).view(np.float32)[:, None]
    wanted = np.array([*kept, *(each | 1 << 31 for each in kept)], np.uint32).view(np.float32)[:, None]
    for left, right in ((x, np.ones((1, 1), np.float32)), (np.ones((1, 1), np.float32), x)):
        y = np.zeros((len(left), len(right)), np.float32)
        tf32.linear_forward(left, right, None, y)
        np.testing.assert_array_equal(y.reshape(-1, 1), wanted)


def test_a_value_that_is_not_finite_stays_in_its_row_and_column(tf32: ModuleType) -> None:
    x, weight = np.ones((40, 20), np.float32), np.ones((70, 20), np.float32)
    x[3, 5], weight[9, 0] = np.nan, np.inf
    y = np.zeros((40, 70), np.float32)
    tf32.linear_forward(x, weight, None, y)
    wanted = np.full_like(y, 20)
    wanted[:, 9], wanted[3] = np.inf, np.nan
    np.testing.assert_array_equal(y, wanted)


# ---- the backend -----------------------------------------------------------------------------------------------------


def test_device_and_memory_are_those_of_cuda(tf32: ModuleType, exact: ModuleType) -> None:
    assert tf32.DEVICE is exact.DEVICE
    assert tf32.MEMORY is exact.MEMORY
    assert tf32.KNOWN.keys() == exact.KNOWN.keys()


def test_it_is_named_by_runs_and_by_the_doctor(tf32: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("msgspec", reason="a machine that is lent for the kernels may lack what messages need")
    from edgefl.cli import doctor
    from edgefl.methods.rounds.provenance import provenance

    monkeypatch.setenv("EDGEFL_KERNELS", "cuda-tf32")
    assert provenance() == f"edgefl {build()} cuda-tf32-{tf32.DEVICE.architecture}"
    found = doctor.examine()
    assert (found["backend"], found["reason"]) == ("cuda-tf32", "EDGEFL_KERNELS=cuda-tf32")
    assert found["cuda"].endswith(", TF32 with cuda-tf32")


def test_launches_are_those_of_cuda_but_for_the_names_of_forms(tf32: ModuleType, exact: ModuleType) -> None:
    replaced = set()
    for op in (*EVERY, "channel_sum", "relu_forward", "sgd"):
        for case in adversarial(op)[:: EVERY.get(op, 8)]:
            for one, other in zip(launched(exact, case), launched(tf32, case), strict=True):
                is_form = one.kernel in tf32.FORMS
                assert other.kernel == one.kernel + "_tf32" * is_form
                assert (other.grid, other.threads, str(other.fields)) == (one.grid, one.threads, str(one.fields))
                replaced |= {one.kernel} if is_form else set()
    assert {kernel.rpartition("_")[0] for kernel in replaced} == {kernel.rpartition("_")[0] for kernel in tf32.FORMS}


def test_forms_take_the_threads_and_arguments_of_their_kernels(tf32: ModuleType, seen: Any) -> None:
    library = standin.controls()

    def taken(kernel: str) -> tuple[int, int]:
        threads, size = ctypes.c_int(), ctypes.c_size_t()
        assert library.standin_kernel(kernel.encode(), ctypes.byref(threads), ctypes.byref(size)), kernel
        return threads.value, size.value

    for kernel in tf32.FORMS:
        assert taken(f"{kernel}_tf32") == taken(kernel)


@pytest.mark.parametrize(
    ("capability", "status", "said"),
    [
        (75, 0, "stand-in of capability (7, 5); expected (8, 0) or more, which have TF32"),
        (87, 500, "the kernels loaded on stand-in have no TF32 forms; expected those of scripts/cuda.py"),
    ],
)
def test_device_without_tf32_is_refused_before_anything_runs(
    seen: Any, capability: int, status: int, said: str
) -> None:
    code = f"""
import ctypes, os
from edgefl import kernels
kernels.backend("cuda")
library = ctypes.CDLL(os.environ["EDGEFL_LIBCUDA"])
library.standin_fail(b"cuModuleGetFunction", 1, {status})
try:
    kernels.backend("cuda-tf32")
except kernels.BackendError as error:
    print(error)
library.standin_log.restype = ctypes.c_char_p
assert b"cuLaunchKernel" not in library.standin_log()
"""
    env = {**os.environ, **standin.environment(), "EDGEFL_STANDIN_CAPABILITY": str(capability)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"EDGEFL_KERNELS=cuda-tf32 cannot be loaded ({said})")


# ---- training --------------------------------------------------------------------------------------------------------

CNN = Graph(
    (3, 12, 12),
    tuple(
        Node(name, op, (before,))
        for name, op, before in (
            ("conv1", Conv2d(3, 8, (3, 3), padding=(1, 1)), INPUT),
            ("relu1", ReLU(), "conv1"),
            ("pool1", MaxPool2d((2, 2), (2, 2)), "relu1"),
            ("conv2", Conv2d(8, 12, (3, 3)), "pool1"),
            ("relu2", ReLU(), "conv2"),
            ("flatten", Flatten(), "relu2"),
            ("fc", Linear(12 * 4 * 4, 5), "flatten"),
        )
    ),
)
TRACKED = 2.0**-6  # of a parameter's largest change: six products, each of 2^-10 beside its terms, which partly cancel


def trained(backend: str) -> dict[str, np.ndarray]:
    """Parameters after three steps."""
    draw = np.random.default_rng(3)
    data = Samples(draw.standard_normal((8, 3, 12, 12)).astype(np.float32), draw.integers(0, 5, 8).astype(np.int32))
    learner = GraphLearner(Model(CNN, CNN.init(stream(1, INIT))), backend)
    learner.fit(data, [np.arange(8, dtype=np.int32)] * 3, SGD(0.05))
    return learner.read()


def test_training_steps_track_fp32_and_are_the_same_each_time(tf32: ModuleType, exact: ModuleType) -> None:
    initial = CNN.init(stream(1, INIT))
    near, first, again = (trained(backend) for backend in ("cuda", "cuda-tf32", "cuda-tf32"))
    for name, value in first.items():
        assert value.tobytes() == again[name].tobytes(), name
        assert value.tobytes() != near[name].tobytes(), name
        largest = np.abs(near[name] - initial[name]).max()
        assert np.abs(value - near[name]).max() <= TRACKED * largest, name
