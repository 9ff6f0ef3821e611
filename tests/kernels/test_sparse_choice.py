"""The rule that says which masked layers run sparse."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from edgefl.kernels.sparse_choice import FOURS, LANES, RULES, keeps_transposed, runs_sparse

WIDE = (512, 512)


def test_sparse_below_a_density_and_dense_above() -> None:
    for isa in LANES.keys() - {"cuda"}:
        for batch in (16, 128):
            chosen = [runs_sparse("linear", WIDE, batch, density, isa) for density in (0.0, 0.05, 0.2, 0.5, 1.0)]
            assert chosen == [True, True, True, False, False], (isa, batch)


def test_a_gpu_runs_sparse_only_what_has_few_weights_and_many_products() -> None:
    """As it was measured on an H200."""
    for op, shape, batch, density, expected in (
        ("linear", (4096, 4096), 16, 0.05, True),
        ("linear", (4096, 4096), 128, 0.2, False),
        ("linear", (1024, 1024), 128, 0.05, False),
        ("conv2d", (512, 512, 3, 3, 4, 4), 128, 0.05, True),
        ("conv2d", (512, 512, 3, 3, 4, 4), 128, 0.1, False),
        ("conv2d", (512, 512, 3, 3, 4, 4), 16, 0.05, False),
        ("conv2d", (512, 512, 3, 3, 2, 2), 128, 0.05, False),
    ):
        assert runs_sparse(op, shape, batch, density, "cuda") == expected, (op, shape, batch, density)


def test_a_weight_that_would_first_be_written_for_torch_runs_sparse_up_to_more() -> None:
    """The fewer products each weight has, the more its way counts. Torch's convolutions are slower than ours."""
    small, large = (*WIDE, 3, 3, 4, 4), (64, 64, 3, 3, 32, 32)
    for op, shape, batch, density, expected in (
        ("linear", WIDE, 16, 0.5, True),
        ("linear", WIDE, 128, 0.4, True),
        ("linear", WIDE, 1024, 0.44, False),
        ("conv2d", small, 16, 0.45, True),
        ("conv2d", large, 16, 0.5, True),
        ("conv2d", large, 16, 0.54, False),
        ("conv2d", (512, 512, 1, 1, 4, 4), 16, 0.5, False),
    ):
        assert not runs_sparse(op, shape, batch, density, "avx512")
        assert runs_sparse(op, shape, batch, density, "avx512", scatters=True) == expected, (op, shape, batch)


def test_few_examples_leave_lanes_empty() -> None:
    assert runs_sparse("linear", WIDE, 8, 0.2, "avx2")
    assert not runs_sparse("linear", WIDE, 1, 0.2, "avx2")  # a word of which one lane in eight is used
    assert not runs_sparse("linear", WIDE, 0, 0.2, "avx2")


def test_small_layers_and_backends_in_python_are_dense() -> None:
    assert not runs_sparse("linear", (10, 512), 16, 0.1, "avx512")
    assert not runs_sparse("linear", WIDE, 16, 0.1, "")


def test_another_operation_is_refused() -> None:
    with pytest.raises(ValueError, match=f"op='pool'; expected one of {', '.join(RULES)}"):
        runs_sparse("pool", WIDE, 16, 0.1, "avx2")


def test_linear_layers_of_small_batches_have_one_structure() -> None:
    assert [keeps_transposed("linear", batch) for batch in (1, 32, 33, 128)] == [False, False, True, True]
    assert keeps_transposed("conv2d", 16)


def test_the_rule_knows_which_channels_have_dense_tiles_of_4x4_positions() -> None:
    source = Path(__file__).parents[2] / "csrc" / "kernels" / "convolution" / "ways.inl.h"
    found = re.search(r"FOUR_BALANCE = (\d+);", source.read_text("utf-8"))
    assert found is not None and int(found[1]) == FOURS


def test_convolutions_run_sparse_by_the_size_of_maps_and_weights() -> None:
    wide = (512, 512, 3, 3)
    for size, density in ((2, 0.2), (4, 0.38), (16, 0.25)):
        assert runs_sparse("conv2d", (*wide, size, size), 16, density, "avx512"), size
    for size, density in ((2, 0.25), (4, 0.45), (32, 0.45)):
        assert not runs_sparse("conv2d", (*wide, size, size), 16, density, "avx512"), size
    for size, limit in ((2, 0.22), (4, 0.42), (8, 0.18), (16, 0.18), (32, 0.2)):
        chosen = [runs_sparse("conv2d", (*wide, size, size), 16, limit + more, "avx2") for more in (-0.01, 0.01)]
        assert chosen == [True, False], size
    assert runs_sparse("conv2d", (50, 20, 5, 5, 12, 12), 16, 0.38, "avx512")  # few weights
    assert runs_sparse("conv2d", (64, 32, 3, 3, 16, 16), 16, 0.38, "avx512")
    assert not runs_sparse("conv2d", (48, 48, 3, 3, 16, 16), 16, 0.3, "avx512")  # which have dense tiles of 4x4
    assert not runs_sparse("conv2d", (16, 6, 3, 3, 16, 16), 16, 0.48, "avx512")  # and few inputs
    assert not runs_sparse("conv2d", (64, 3, 3, 3, 32, 32), 16, 0.1, "avx512")  # few inputs
