"""Structures of masked linear layers that are corrupt or another layer's are refused by every backend."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType

import numpy as np
import pytest

from edgefl.kernels import weight_structure as structures

from . import cases_sparse_linear as sparse
from .calls import Guarded, copied, each, run
from .cases import Args, Array

SHAPE = (3, 100, 150)  # two panels, and for such a batch one block
RNG = np.random.default_rng(5)
FORWARD = sparse.forward(RNG, SHAPE, 0.3, True)
TURNED = sparse.grad_input(RNG, SHAPE, 0.3, True)
STARTS, ENTRIES = structures.HEADER, structures.HEADER + 2 * 3
OFFSETS = ENTRIES + 150


def damaged() -> Iterator[tuple[str, int, int]]:
    """Yield what is wrong, in which word, and the wrong value."""
    for position, value in ((0, 0), (1, 151), (2, 99), (3, 0), (3, 512), (3, 99), (4, 1), (5, 1), (5, 2)):
        yield f"header {position}", position, value
    for position in range(STARTS, ENTRIES):
        yield f"start {position}", position, int(FORWARD["structure"][position]) + 1
        yield f"huge start {position}", position, 2**32 - 1
    yield "row of another panel", ENTRIES, 128 << 9
    yield "row beyond the last", ENTRIES + 149, 150 << 9
    yield "count", ENTRIES + 127, int(FORWARD["structure"][ENTRIES + 127]) - 1
    yield "column beyond the last", OFFSETS, 100 * structures.STEP
    yield "offset between columns", OFFSETS, 1


def refused(backend: ModuleType, op: str, args: Args, structure: Array) -> None:
    args = copied(args) | {"structure": structure}
    before = copied(args)
    with pytest.raises(ValueError, match=r"\bstructure\b"):
        getattr(backend, op)(*args.values())
    for name, value in before.items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(args[name], value, err_msg=name)


def test_a_corrupt_structure_is_refused_and_nothing_is_written(backend: ModuleType) -> None:
    def check(position: int, value: int) -> Callable[[], None]:
        wrong = FORWARD["structure"].copy()
        wrong[position] = value
        return lambda: refused(backend, "sparse_linear_forward", FORWARD, wrong)

    each((what, check(position, value)) for what, position, value in damaged())


def test_a_structure_of_another_kind_is_refused(backend: ModuleType) -> None:
    right, turned = FORWARD["structure"], TURNED["structure"]
    each(
        [
            ("longer", lambda: refused(backend, "sparse_linear_forward", FORWARD, np.append(right, right[:1]))),
            ("shorter", lambda: refused(backend, "sparse_linear_forward", FORWARD, right[:-1])),
            ("header alone", lambda: refused(backend, "sparse_linear_forward", FORWARD, right[:8])),
            ("empty", lambda: refused(backend, "sparse_linear_grad_input", TURNED, right[:0])),
            ("transposed", lambda: refused(backend, "sparse_linear_forward", FORWARD, turned)),
            ("zeros", lambda: refused(backend, "sparse_linear_grad_input", TURNED, np.zeros_like(right))),
        ]
    )


def test_flipped_bits_are_refused_or_harmless(backend: ModuleType) -> None:
    """A flip may leave a sound structure of other weights. Then nothing is read or written outside the arrays."""
    rng, accepted = np.random.default_rng(6), 0
    for op, args in (("sparse_linear_forward", FORWARD), ("sparse_linear_grad_input", TURNED)):
        for _ in range(200):
            guarded = Guarded(args)
            position = rng.integers(len(args["structure"]))
            guarded.args["structure"][position] ^= np.uint32(1 << rng.integers(32))
            try:
                run(backend, op, guarded.args)
                accepted += 1
            except ValueError as error:
                assert "structure" in str(error)
            guarded.check()
    assert 0 < accepted < 300


def test_a_mask_of_another_count_is_refused(backend: ModuleType) -> None:
    args = sparse.build(RNG, SHAPE, 0.3, True)
    args["mask"][2] = 1
    before = copied(args)
    with pytest.raises(ValueError, match=r"order|argument"):
        run(backend, "sparse_linear_build", args)
    for name in ("structure", "order", "structure_t", "order_t"):
        np.testing.assert_array_equal(args[name], before[name])
