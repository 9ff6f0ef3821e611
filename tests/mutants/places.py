"""Mutants of sequences: torch's axes beside traced values, places, tables, and parameters used by themselves."""

from __future__ import annotations

from tests.mutants.kernels import cases
from tests.mutants.mutant import Mutant

AXES, GRADIENTS = "tests/torch/test_trace_axes.py", "tests/learning/test_gradients.py"
FUZZ = "tests/learning/test_fuzz.py"
K, L, T = "csrc/kernels/", "edgefl/learning/lowering/", "edgefl/torch/"

MUTANTS = (
    Mutant(
        "axes-moved",
        f"{T}axis_order.py",
        "axes[to.index(axis)] - 1",
        "to[axes.index(axis)] - 1",
        "three axes are put into the order that is the inverse of theirs",
        AXES,
    ),
    Mutant(
        "places-flattened",
        f"{T}shape_table.py",
        "Flatten() if math.prod(source[:-1]) == 1 else FlattenPlaces()",
        "Flatten()",
        "places are flattened channel by channel",
        AXES,
    ),
    Mutant(
        "positions-alone",
        f"{T}bare_parameters.py",
        "kind(shape[ones:], is_last, ones)",
        "kind(shape[ones:], False, ones)",
        "positions are read as if their channels came first",
        "tests/zoo/test_models.py -k 'ten_steps and positions'",
    ),
    Mutant(
        "flat-places-needed",
        f"{L}gradient_needs.py",
        "return beside([below[0]] * positions, [channels] * positions)",
        "return members(below[0], positions)",
        "behind places put one after another gradients of other features are computed",
        FUZZ,
    ),
    Mutant(
        "standing-turned",
        f"{L}parameter.py",
        "sums.view(1, channels, positions), block.values.view(1, positions, channels)",
        "sums.view(1, positions, channels), block.values.view(1, channels, positions)",
        "the gradient of positions is not turned back",
        GRADIENTS,
    ),
    Mutant(
        "embedding-padding",
        f"{K}arrange.inl.h",
        "id != padding",
        "true",
        "the row of padding has a gradient",
        cases("embedding_backward"),
    ),
    Mutant(
        "transpose-rest",
        f"{K}arrange.inl.h",
        "for (; c < cols; ++c)\n            for (int m = 0; m < W; ++m) y[c * rows + r + m] = row(r + m)[c];",
        "for (; c < cols; ++c)\n            for (int m = 0; m < W; ++m) y[c * rows + r] = row(r + m)[c];",
        "columns behind whole words are written to one row",
        cases("transpose"),
    ),
    Mutant(
        "places-gain",
        f"{K}norm/places.inl.h",
        "fma(at.read(xhat + c * inner, u), sum_gx[u], sum_g[u])",
        "sum_g[u]",
        "the deviation's part of a place's gradient is left out",
        cases("layernorm_backward"),
    ),
)
