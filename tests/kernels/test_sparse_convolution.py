"""The promises of the structures of masked convolutions: a layer by hand, and errors for corrupt structures, never a
crash.

The results of the operations are checked by the cases of cases_sparse_convolution.py, in test_operations.py.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from edgefl.kernels import reference
from edgefl.kernels.sparse_choice import LANES

from . import cases_sparse_convolution as sparse
from .calls import copied, each, is_emulated
from .cases import Args, ordinary
from .cases_convolution import Geometry

READERS = {
    "sparse_conv2d_forward": "structure",
    "sparse_conv2d_grad_input": "structure_t",
    "sparse_conv2d_grad_weight": "structure",
}
LAYERS = [Geometry(2, 6, 5, (5, 6)), Geometry(3, 20, 7, (4, 4)), Geometry(2, 9, 4, (9, 8), (3, 3), (2, 2))]


def test_a_layer_by_hand(backend: ModuleType) -> None:
    """Two inputs, one output, a row of three cells: the second input's first tap and the first one's two last."""
    mask = np.array([[[[0, 1, 1]], [[1, 0, 0]]]], np.uint8)
    args = sparse.build(mask, Geometry(1, 2, 1, (1, 3), (1, 3), padding=(0, 1)))
    backend.sparse_conv2d_build(*args.values())
    assert args["order"].tolist() == [1, 2, 3]  # a run of two, then the single one
    values = np.array([10, 100, 1], np.float32)
    x, y = np.array([[[[1, 2, 3]], [[4, 5, 6]]]], np.float32), np.zeros((1, 1, 1, 3), np.float32)
    window = {"kernel": (1, 3), "stride": (1, 1), "padding": (0, 1), "dilation": (1, 1), "x_lanes": 1, "y_lanes": 1}
    backend.sparse_conv2d_forward(x, args["structure"], values, np.array([0.5], np.float32), y, **window)
    assert y.ravel().tolist() == [210.5, 324.5, 35.5]
    values_t, dx = np.zeros(3, np.float32), np.zeros_like(x)
    backend.permute(values, args["order_t"], values_t)
    backend.sparse_conv2d_grad_input(y, args["structure_t"], values_t, dx, **window)
    assert dx[0, :, 0].tolist() == [[2105, 24295, 32805], [324.5, 35.5, 0]]
    gradients = np.zeros(3, np.float32)
    backend.sparse_conv2d_grad_weight(x, y, args["structure"], gradients, **window)
    assert gradients.tolist() == [966, 1394.5, 1475.5]


def corrupted(args: Args, name: str) -> list[tuple[str, Args]]:
    """The call with each word of its structure changed in turn, each in several ways."""
    found = []
    for position in range(len(args[name])):
        for what, change in (("+1", 1), ("+2^16", 1 << 16), ("largest", 0xFFFFFFFF), ("halves", 0xFFFF)):
            wrong = copied(args)
            word = int(wrong[name][position])
            wrong[name][position] = (word + change) % 2**32 if what.startswith("+") else word ^ change
            found.append((f"{name}[{position}] {what}", wrong))
    return found


@pytest.mark.parametrize("op", READERS)
def test_a_corrupt_structure_is_refused_or_harmless(native: ModuleType, op: str) -> None:
    """A structure in range may describe another mask. All other structures are errors before anything is written."""
    refused = 0
    for layer in LAYERS:
        args = sparse.calls(layer, 0.4, True)[op](np.random.default_rng(5))
        for what, wrong in corrupted(args, READERS[op]):
            before = copied(wrong)
            try:
                getattr(native, op)(*wrong.values())
            except ValueError as error:
                refused += 1
                assert "structure" in str(error), what
                assert all(np.array_equal(before[name], wrong[name]) for name in before), what
    assert refused > 500


@pytest.mark.parametrize("op", READERS)
def test_a_structure_of_another_layer_is_refused(backend: ModuleType, op: str) -> None:
    name = READERS[op]
    geometry = Geometry(2, 6, 5, (5, 6))
    args = sparse.calls(geometry, 0.5, True)[op](np.random.default_rng(5))
    for position in range(16):
        wrong = copied(args)
        wrong[name][position] += 1
        with pytest.raises(ValueError, match=name.removesuffix("_t")):
            getattr(backend, op)(*wrong.values())
    swapped = sparse.calls(geometry._replace(padding=(0, 2), size=(7, 4)), 0.5, True)[op](np.random.default_rng(5))
    with pytest.raises(ValueError, match="structure"):
        getattr(backend, op)(*(args | {name: np.resize(swapped[name], len(args[name]))}).values())


def side_by_side(args: Args, names: tuple[str, ...], lanes: int) -> Args:
    """Return the call with these arrays' images side by side. A result is put there to be turned back."""
    turned = copied(args)
    for name in names:
        reference.to_lanes(args[name], lanes, turned[name])
        turned["x_lanes" if name in ("x", "dx") else "y_lanes"] = lanes
    return turned


@pytest.mark.parametrize("op", READERS)
def test_images_side_by_side_give_the_same_bits(backend: ModuleType, op: str) -> None:
    """Each array is turned alone, and both together. What is written is turned back.

    CUDA takes the gradients of images that are not side by side from the whole weight's, whose sums have another order.
    """
    has_two_orders = backend.__name__.endswith("cuda.backend") and op == "sparse_conv2d_grad_weight"
    lanes = LANES.get(backend.isa(), 1) if backend.__name__.endswith("native") else 6
    both = {"sparse_conv2d_forward": ("x", "y"), "sparse_conv2d_grad_input": ("dy", "dx")}.get(op, ("x", "dy"))
    written = {"sparse_conv2d_forward": "y", "sparse_conv2d_grad_input": "dx"}.get(op, "gradients")

    def check(geometry: Geometry, density: float) -> None:
        args = sparse.calls(geometry, density, True)[op](np.random.default_rng(7))
        plain = copied(args)
        getattr(backend, op)(*plain.values())
        for names in (both, both[:1], both[1:]):
            turned = side_by_side(args, names, lanes)
            getattr(backend, op)(*turned.values())
            found = turned[written]
            if written in names:
                reference.from_lanes(turned[written], lanes, found := np.empty_like(found))
            note = f"{names} of {geometry}"
            if has_two_orders:
                np.testing.assert_allclose(found, plain[written], rtol=1e-4, atol=1e-4, err_msg=note)
            else:
                assert np.array_equal(found, plain[written]), note

    layers = [(g._replace(batch=lanes * (1 + number % 3 // 2)), number) for number, g in enumerate(sparse.GEOMETRIES)]
    layers = layers[::5] if is_emulated(backend) else layers
    each((str(g), lambda g=g, n=n: check(g, (0.0, 0.1, 0.5, 1.0)[n % 4])) for g, n in layers)


def test_threads_change_no_bit_of_images_side_by_side(native: ModuleType) -> None:
    lanes, before = LANES[native.isa()], native.threads()
    names = {"sparse_conv2d_forward": ("x", "y"), "sparse_conv2d_grad_input": ("dy", "dx")}
    for geometry in (Geometry(2 * lanes, 20, 150, (4, 4)), Geometry(lanes, 20, 24, (15, 17))):
        for op in READERS:
            args = sparse.calls(geometry, 0.3, True)[op](np.random.default_rng(9))
            found = []
            for threads in (1, 2, 3):
                native.set_threads(threads)
                call = side_by_side(args, names.get(op, ("x", "dy")), lanes)
                getattr(native, op)(*call.values())
                found.append(call)
            native.set_threads(before)
            for other in found[1:]:
                assert all(np.array_equal(other[name], found[0][name]) for name in args), f"{op} of {geometry}"


@pytest.mark.parametrize("op", READERS)
def test_other_numbers_of_images_side_by_side_are_refused(backend: ModuleType, op: str) -> None:
    args = sparse.calls(Geometry(32, 2, 3, (5, 5)), 0.5, True)[op](np.random.default_rng(7))
    numbers = (-1, 0, 5, 33) if not backend.__name__.endswith("native") else (-1, 0, 2, 5, 32, 33)
    for name in ("x_lanes", "y_lanes"):
        for number in numbers:
            before, wrong = copied(args), copied(args) | {name: number}
            with pytest.raises(ValueError, match=name):
                getattr(backend, op)(*wrong.values())
            assert all(np.array_equal(before[each], wrong[each]) for each in before if each != name)


def test_a_mask_of_another_count_is_refused(backend: ModuleType) -> None:
    for byte in (0, 1):
        args = ordinary("sparse_conv2d_build").args()
        args["mask"].reshape(-1)[np.flatnonzero(args["mask"].reshape(-1) != byte)[0]] = byte
        before = copied(args)
        with pytest.raises(ValueError, match="order"):
            backend.sparse_conv2d_build(*args.values())
        assert all(np.array_equal(before[name], args[name]) for name in before)


def test_any_byte_that_is_not_zero_keeps_a_weight(backend: ModuleType) -> None:
    args, twos = ordinary("sparse_conv2d_build").args(), ordinary("sparse_conv2d_build").args()
    twos["mask"] *= 2
    for call in (args, twos):
        backend.sparse_conv2d_build(*call.values())
    assert all(np.array_equal(args[name], twos[name]) for name in args if name != "mask")


def test_planes_beyond_16_bits_are_refused(backend: ModuleType) -> None:
    mask = np.ones((1, 1, 1, 1), np.uint8)
    wide = Geometry(1, 1, 1, (1, 65_536), (1, 1), padding=(0, 0))
    with pytest.raises(ValueError, match=r"structure|dilation"):
        backend.sparse_conv2d_build(*sparse.build(mask, wide).values())


def test_values_and_structures_hold_for_any_batch(backend: ModuleType) -> None:
    """An image's results do not depend on its neighbours in the batch."""
    geometry = Geometry(19, 5, 6, (6, 7))
    args = sparse.forward(np.random.default_rng(3), geometry, 0.4, True)
    backend.sparse_conv2d_forward(*args.values())

    def alone(image: int) -> None:
        one = args | {"x": args["x"][[image]], "y": np.zeros_like(args["y"][:1])}
        backend.sparse_conv2d_forward(*one.values())
        exact = backend is not reference  # numpy's products of other sizes round differently
        np.testing.assert_allclose(one["y"][0], args["y"][image], rtol=0, atol=0 if exact else 1e-5)

    each((image, lambda image=image: alone(image)) for image in range(19))
