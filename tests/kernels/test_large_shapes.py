"""Shapes beyond the sizes at which a kernel goes another way: tiles, chunks, several passes over the terms of a sum.

cases.py has the edges of vectors. Here a case is the smallest that reaches its path, which its name says. Each runs
with one thread and with several, because some paths need one of the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from types import ModuleType

import numpy as np
import pytest

from edgefl.kernels import reference

from . import cases_convolution as conv
from . import cases_linear as linear
from . import cases_norm as norm
from . import cases_norm_relu as norm_relu
from .bounds import bounds
from .calls import Guarded, as_float64, compare, native_isas, run
from .cases import Args, Case, Rng, blank, count, normal, pick

THREADS = (1, 3)
WIDE = (41, 18, 29, 29)  # 16 channels and 2 more, with planes of more floats than are kept between two walks
STRETCHES = (2, 4, 2051)  # two groups of 4102 values: a whole stretch and a piece
PASSES = {  # operations on convolutions: the geometry that takes their way
    "conv2d_forward": {
        "small_map_in_two_passes": conv.Geometry(3, 120, 66, (4, 3), (2, 2), padding=(0, 0)),
        "rows_in_two_passes": conv.Geometry(2, 60, 20, (9, 20), stride=(1, 2)),
        "weights_in_groups_of_targets": conv.Geometry(2, 260, 259, (6, 7)),
        "groups_of_targets_over_images": conv.Geometry(16, 140, 139, (4, 4)),
        "kept_weights_over_images": conv.Geometry(16, 140, 139, (6, 6)),
        "fours_over_images": conv.Geometry(16, 52, 50, (8, 8)),
        "fours_over_images_of_odd_size": conv.Geometry(31, 66, 50, (15, 14), padding=(0, 1)),
        "fours_in_passes_and_groups": conv.Geometry(16, 130, 61, (7, 8)),
        "tiles_over_images": conv.Geometry(31, 20, 41, (4, 4)),
        "tiles_over_images_of_odd_size": conv.Geometry(16, 24, 40, (5, 7), padding=(0, 1)),
        "whole_maps_with_spare_lanes": conv.Geometry(17, 20, 15, (2, 2)),
        "whole_maps_of_nine_cells": conv.Geometry(14, 20, 15, (3, 3)),
        "images_of_small_maps_in_chunks": conv.Geometry(20, 12, 600, (3, 3), (1, 1), padding=(0, 0)),
        "images_abreast": conv.Geometry(5, 20, 18, (7, 7), (2, 2), (2, 2), (2, 2)),
        "one_tap_of_images_abreast": conv.Geometry(7, 40, 70, (7, 8), (1, 1), stride=(2, 2), padding=(0, 0)),
        "strided_tiles_of_a_short_row": conv.Geometry(5, 38, 30, (9, 11), stride=(2, 2), padding=(2, 0)),
        "strided_tiles_of_two_rows": conv.Geometry(3, 40, 52, (29, 31), stride=(2, 2)),
        "strided_tiles_of_two_short_rows": conv.Geometry(3, 40, 32, (21, 15), stride=(2, 2)),
        "strided_tiles_in_overlapping_words": conv.Geometry(2, 37, 32, (7, 83), stride=(2, 2), padding=(0, 3)),
        "strided_tiles_over_images": conv.Geometry(17, 32, 40, (7, 8), stride=(2, 2)),
        "strided_tiles_over_few_images": conv.Geometry(16, 36, 30, (4, 3), stride=(2, 2)),
        "strided_tiles_in_two_passes": conv.Geometry(3, 190, 180, (8, 6), stride=(2, 2)),
        "fives_of_short_rows": conv.Geometry(3, 34, 36, (19, 17), (5, 5), padding=(2, 2)),
        "fives_in_overlapping_words": conv.Geometry(1, 36, 34, (8, 83), (5, 5), padding=(0, 2)),
        "fives_of_several_images": conv.Geometry(5, 40, 32, (8, 8), (5, 5), padding=(2, 2)),
    },
    "conv2d_grad_input": {
        "fives_of_short_rows": conv.Geometry(3, 36, 34, (19, 17), (5, 5), padding=(1, 3)),
        "fives_in_overlapping_words": conv.Geometry(1, 34, 36, (8, 83), (5, 5), padding=(0, 2)),
        "fives_of_several_images": conv.Geometry(5, 32, 40, (8, 8), (5, 5), padding=(2, 2)),
        "small_map_in_two_passes": conv.Geometry(3, 66, 120, (4, 3), (2, 2), padding=(1, 1)),
        "rows_in_two_passes": conv.Geometry(2, 20, 60, (9, 20), dilation=(1, 2)),
        "tiles_over_images": conv.Geometry(31, 41, 20, (4, 4)),
        "groups_of_targets_over_images": conv.Geometry(16, 139, 140, (4, 4)),
        "tiles_over_images_beyond_the_edge": conv.Geometry(16, 41, 20, (4, 4), padding=(3, 4)),
        "fours_over_images": conv.Geometry(16, 50, 52, (8, 7)),
        "fours_in_passes_and_groups": conv.Geometry(31, 61, 130, (7, 8)),
        "whole_maps_in_runs_of_sources": conv.Geometry(17, 15, 40, (2, 2)),
        "whole_maps_of_nine_cells": conv.Geometry(13, 15, 40, (3, 3)),
        "images_abreast": conv.Geometry(5, 18, 20, (7, 7), (2, 2), (2, 2), (2, 2)),
        "one_tap_of_images_abreast": conv.Geometry(7, 70, 40, (3, 8), (1, 1), stride=(2, 2), padding=(0, 0)),
        "windows_that_overlap": conv.Geometry(5, 7, 30, (8, 7), (5, 5), padding=(0, 0)),
        "windows_that_overlap_in_two_words": conv.Geometry(2, 7, 30, (6, 18), (5, 6), padding=(0, 1)),
        "windows_that_overlap_beyond_the_padding": conv.Geometry(3, 7, 30, (4, 12), (2, 9), padding=(3, 0)),
        "strided_tiles_of_a_short_row": conv.Geometry(5, 20, 23, (9, 11), stride=(2, 2)),
        "strided_tiles_of_two_rows": conv.Geometry(3, 52, 41, (29, 31), stride=(2, 2)),
        "strided_tiles_of_two_short_rows": conv.Geometry(3, 20, 41, (21, 16), stride=(2, 2), padding=(3, 1)),
        "strided_tiles_in_overlapping_words": conv.Geometry(2, 20, 22, (7, 83), stride=(2, 2)),
        "strided_tiles_over_images": conv.Geometry(17, 40, 31, (7, 8), stride=(2, 2)),
        "strided_tiles_over_few_images": conv.Geometry(16, 30, 21, (4, 3), stride=(2, 2)),
        "strided_tiles_in_two_passes": conv.Geometry(3, 180, 191, (8, 6), stride=(2, 2)),
    },
    "conv2d_grad_weight": {
        "fours_in_one_chunk": conv.Geometry(4, 50, 52, (16, 16)),
        "fours_of_odd_size_in_chunks": conv.Geometry(5, 52, 51, (15, 18), padding=(1, 0)),
        "lanes_over_channels_dilated": conv.Geometry(2, 17, 5, (9, 10), padding=(2, 3), dilation=(2, 3)),
        "lanes_over_channels_strided": conv.Geometry(2, 17, 5, (9, 9), stride=(2, 2)),
        "lanes_over_channels_of_met_pixels": conv.Geometry(2, 40, 34, (5, 70), (1, 1), stride=(3, 2), padding=(0, 0)),
        "lanes_over_channels_in_one_panel": conv.Geometry(3, 50, 40, (9, 9), (2, 2), stride=(2, 2), padding=(2, 2)),
        "lanes_over_few_channels_in_one_panel": conv.Geometry(3, 20, 50, (12, 12), (5, 5), padding=(0, 0)),
        "images_in_three_chunks": conv.Geometry(17, 3, 4, (6, 7), (3, 2)),
        "tiles_in_two_chunks": conv.Geometry(3, 50, 50, (32, 32)),
        "fives_in_three_panels": conv.Geometry(3, 70, 34, (19, 17), (5, 5), padding=(2, 2)),
        "fives_of_several_images": conv.Geometry(5, 40, 32, (8, 8), (5, 5), padding=(2, 2)),
        "fives_without_a_frame": conv.Geometry(2, 34, 36, (20, 21), (5, 5), padding=(0, 1)),
    },
}
CONVOLUTIONS: dict[str, Callable[[Rng, conv.Geometry], Args]] = {
    "conv2d_forward": lambda rng, geometry: conv.forward(rng, geometry, True),
    "conv2d_grad_input": lambda rng, geometry: conv.grad_input(rng, geometry, "but_one", "all"),
    "conv2d_grad_weight": lambda rng, geometry: conv.grad_weight(rng, geometry, "all", "all"),
}


def gather_unscaled(rng: Rng) -> Args:
    """Shifted and not scaled."""
    index = rng.integers(0, 6, 5).astype("int32")
    return {"src": normal(rng, 6, 9), "index": index, "scale": 1.0, "shift": -0.5, "out": blank(5, 9)}


def channel_sum_of_many(rng: Rng) -> Args:
    outs = pick("but_one", 40)
    return {"dy": normal(rng, 3, 40), "out": blank(count(outs, 40)), "outs": outs}


def dead_channel(rng: Rng, is_halved: bool) -> Args:
    """A channel whose result is 0 everywhere, where the ReLU has no gradient."""
    args = norm_relu.batchnorm_backward(rng, (2, 3, 4, 6), is_halved, "all", "all")
    args["weight"][-1] = args["bias"][-1] = 0
    return args


def runs_of_tiles() -> Iterator[Case]:
    """Panels that read the right side where it lies, in several runs of tiles and passes, and panels that keep it."""
    yield Case("linear_grad_input", "runs", lambda rng: linear.linear_grad_input(rng, 30, 1100, 300, "all", "all"))
    yield Case("linear_grad_input", "uneven", lambda rng: linear.linear_grad_input(rng, 20, 100, 40, "all", "all"))
    yield Case("linear_grad_weight", "runs", lambda rng: linear.linear_grad_weight(rng, 150, 1030, 40, "all", "all"))
    yield Case("linear_update", "runs", lambda rng: linear.linear_update(rng, 140, 550, 110, "odd", "all", True))
    yield Case("linear_grad_input", "kept", lambda rng: linear.linear_grad_input(rng, 80, 100, 400, "all", "all"))


def large_cases() -> Iterator[Case]:
    yield Case("gather_rows", "unscaled", gather_unscaled)
    yield Case("channel_sum", "more_than_a_block", channel_sum_of_many)
    yield Case("linear_forward", "examples_in_chunks", lambda rng: linear.linear_forward(rng, 20, 3000, 9, True))
    yield Case(
        "linear_grad_weight", "two_passes", lambda rng: linear.linear_grad_weight(rng, 400, 20, 30, "all", "all")
    )
    wide = conv.Geometry(1, 1030, 1025, (2, 150), (1, 1), padding=(0, 0))
    yield Case("conv2d_forward", "tiles_of_positions", lambda rng: conv.forward(rng, wide, True))
    yield Case("conv2d_grad_input", "tiles_of_some", lambda rng: conv.grad_input(rng, wide, "but_one", "odd"))
    yield Case("linear_forward", "blocks_in_passes", lambda rng: linear.linear_forward(rng, 70, 1100, 150, True))
    yield Case(
        "linear_grad_input",
        "blocks_of_chosen",
        lambda rng: linear.linear_grad_input(rng, 30, 200, 500, "but_one", "odd"),
    )
    yield Case(
        "linear_grad_weight",
        "tiles_of_chosen",
        lambda rng: linear.linear_grad_weight(rng, 30, 200, 40, "all", "but_one"),
    )
    yield Case(
        "linear_grad_input",
        "passes_under_masks",
        lambda rng: linear.linear_grad_input(rng, 30, 200, 390, "all", "but_one"),
    )
    yield Case("linear_grad_input", "even_pitch", lambda rng: linear.linear_grad_input(rng, 30, 20, 256, "all", "all"))
    yield Case(
        "linear_update", "panels_in_turn", lambda rng: linear.linear_update(rng, 200, 100, 20, "odd", "but_one", True)
    )
    yield Case(
        "linear_grad_weight",
        "few_rows_in_passes",
        lambda rng: linear.linear_grad_weight(rng, 500, 70, 10, "all", "all"),
    )
    yield Case(
        "linear_grad_input", "few_rows", lambda rng: linear.linear_grad_input(rng, 13, 100, 30, "but_one", "all")
    )
    yield from runs_of_tiles()
    yield Case("batchnorm_forward", "abreast", lambda rng: norm.batchnorm_forward(rng, WIDE, 1.0))
    yield Case("batchnorm_backward", "abreast", lambda rng: norm.batchnorm_backward(rng, WIDE, "but_one", "but_one"))
    yield Case("batchnorm_relu_forward", "abreast", lambda rng: norm_relu.batchnorm_forward(rng, WIDE, True))
    yield Case(
        "batchnorm_relu_backward",
        "abreast",
        lambda rng: norm_relu.batchnorm_backward(rng, WIDE, False, "but_one", "but_one"),
    )
    for is_halved in (False, True):
        yield Case("batchnorm_relu_backward", f"dead-{is_halved}", lambda rng, h=is_halved: dead_channel(rng, h))
    yield Case("groupnorm_forward", "stretches", lambda rng: norm.groupnorm_forward(rng, STRETCHES, 2, True))
    for op, geometries in PASSES.items():
        for name, geometry in geometries.items():
            yield Case(op, name, lambda rng, make=CONVOLUTIONS[op], g=geometry: make(rng, g))


@pytest.fixture
def restored(native: ModuleType) -> Iterator[ModuleType]:
    """Native, whose instruction set and threads are put back afterwards."""
    isa, threads = native.isa(), native.threads()
    yield native
    native.set_threads(threads)
    native.cap_isa(isa)


@pytest.mark.parametrize("case", list(large_cases()), ids=str)
def test_a_large_shape_matches_the_reference(restored: ModuleType, case: Case) -> None:
    args = case.args()
    before, wanted = as_float64(args), run(reference, case.op, as_float64(args))
    allowed = bounds(case.op, before, wanted)
    for isa, threads in product(native_isas(), THREADS):
        restored.cap_isa(isa)
        restored.set_threads(threads)
        found = Guarded(args)
        run(restored, case.op, found.args)
        found.check()
        for name, value in wanted.items():
            if isinstance(value, np.ndarray):
                compare(f"{isa}, {threads} threads: {name}", found.args[name], value, args[name], allowed.get(name))
