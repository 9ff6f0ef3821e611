"""Densities by Erdos-Renyi-Kernel and alike, and exact numbers of ones (ALGORITHMS 8)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgefl.models.graph import INPUT, Graph, Node
from edgefl.models.graph.architectures import EXAMPLES, build
from edgefl.models.graph.operations import Conv1d, Flatten, LayerNorm, Linear
from edgefl.models.neurons.density import counts, erk, uniform, weights
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.random_mask import random_mask


def shapes_of(model: str) -> dict[str, tuple[int, ...]]:
    return weights(ModelSpec.of(build(model, *EXAMPLES[model])))


def test_a_norm_with_a_pair_for_each_value_is_no_weight() -> None:
    line = (Node("conv", Conv1d(3, 4, 3), (INPUT,)), Node("norm", LayerNorm((4, 6)), ("conv",)))
    head = (Node("flat", Flatten(), ("norm",)), Node("fc", Linear(24, 2), ("flat",)))
    assert weights(ModelSpec.of(Graph((3, 8), line + head))) == {"conv.weight": (4, 3, 3), "fc.weight": (2, 24)}


DENSE = 1.0
REFERENCE = {  # at density 1/2: eps, and the density of each weight
    "lenet5": (149.094, [DENSE, 0.4771, 0.4846, DENSE]),
    "vgg11": (966.667, [DENSE, DENSE, DENSE, 0.8490, 0.6343, 0.4220, 0.4220, 0.4220, DENSE]),
    "resnet18": (816.130, {(256, 256, 3, 3): 0.7167, (512, 256, 3, 3): 0.5355, (512, 512, 3, 3): 0.3563}),
}


@pytest.mark.parametrize("model", REFERENCE)
def test_the_densities_of_the_paper_s_models_are_the_reference(model: str) -> None:
    """t_erk_reference_densities, to four digits."""
    shapes, (eps, expected) = shapes_of(model), REFERENCE[model]
    found = erk(shapes, 0.5)
    if isinstance(expected, dict):
        expected = [expected.get(shape, DENSE) for shape in shapes.values()]
    assert [round(density, 4) for density in found.values()] == expected
    for name, shape in shapes.items():
        if found[name] < 1:
            assert found[name] * math.prod(shape) / sum(shape) == pytest.approx(eps, abs=5e-4)


def test_the_numbers_of_ones_of_lenet5_by_hand() -> None:
    """conv1, fc: whole. .47710 * 25000 = 11927.5 and .48456 * 400000 = 193822.5 sum to 219250 with 500 and 13000."""
    assert counts(shapes_of("lenet5"), 0.5, "erk") == {
        "conv1.weight": 500,
        "conv2.weight": 11928,
        "fc1.weight": 193822,
        "fc.weight": 13000,
    }
    assert counts({"a": (3, 3), "b": (1, 3)}, 0.5, "uniform") == {"a": 4, "b": 2}  # 4.5 and 1.5 of 12


extents = st.integers(1, 9)
shapes_drawn = st.lists(
    st.one_of(st.tuples(extents, extents), st.tuples(extents, extents, extents, extents)), min_size=1, max_size=8
)


def test_weights_of_one_value_that_rounding_fills_leave_one_again() -> None:
    assert sum(counts({"a": (1, 1), "b": (1, 1)}, 0.66, "uniform").values()) == 1
    assert sum(counts({"a": (2, 2), "b": (1, 1), "c": (1, 1), "d": (1, 1)}, 0.917, "uniform").values()) == 6


@given(shapes=shapes_drawn, density=st.floats(1e-3, 1.0), distribution=st.sampled_from(["erk", "uniform"]))
def test_all_together_have_exactly_the_density_and_each_its_share(
    shapes: list[tuple[int, ...]], density: float, distribution: str
) -> None:
    """t_erk_total_count: whatever the layers are."""
    named = {f"layer{number}": shape for number, shape in enumerate(shapes)}
    sizes = {name: math.prod(shape) for name, shape in named.items()}
    found = counts(named, density, distribution)
    assert sum(found.values()) == round(density * sum(sizes.values()))
    shares = {"erk": erk, "uniform": uniform}[distribution](named, density)
    for name, size in sizes.items():
        assert 0 <= found[name] <= size and abs(found[name] - shares[name] * size) <= 1.5
        assert 0 < shares[name] <= 1
    assert sum(shares[name] * size for name, size in sizes.items()) == pytest.approx(density * sum(sizes.values()))
    factors = [shares[name] * size / sum(named[name]) for name, size in sizes.items() if shares[name] < 1]
    if distribution == "erk" and factors:
        assert factors == pytest.approx([factors[0]] * len(factors))


def test_a_density_of_one_leaves_everything_whole() -> None:
    for model in REFERENCE:
        shapes = shapes_of(model)
        assert set(erk(shapes, 1.0).values()) == {1.0}
        assert counts(shapes, 1.0, "erk") == {name: math.prod(shape) for name, shape in shapes.items()}


@pytest.mark.parametrize("density", [0.0, -0.1, 1.01, float("nan")])
def test_a_density_out_of_range_is_refused_by_value(density: float) -> None:
    for solve in (erk, uniform):
        with pytest.raises(ValueError, match=f"density={density}; expected 0 < density <= 1"):
            solve({"a": (2, 2)}, density)
    with pytest.raises(ValueError, match="without trained weights of two or more dimensions"):
        erk({}, 0.5)


def test_a_random_mask_has_exactly_its_counts_and_leaves_biases_and_whole_layers_alone() -> None:
    for model in ("lenet5", "fedspu_emnist"):
        spec = ModelSpec.of(build(model, *EXAMPLES[model]))
        for density, distribution in ((0.5, "erk"), (0.2, "erk"), (0.07, "uniform")):
            mask = random_mask(spec, density, distribution, seed=1)
            ones = counts(weights(spec), density, distribution)
            thin = {name: count for name, count in ones.items() if count < math.prod(spec.params[name].shape)}
            assert {name: int(bits.sum()) for name, bits in mask.bits.items()} == thin
            assert list(mask.bits) == list(thin)  # in the order of the specification


def test_equal_seeds_and_clients_have_equal_masks_and_others_have_others() -> None:
    """Over all pairs of four draws, the overlap of two random halves is near a quarter of all coordinates."""
    spec = ModelSpec.of(build("lenet5", *EXAMPLES["lenet5"]))
    drawn = [random_mask(spec, 0.5, "uniform", seed, client) for seed, client in ((1, 0), (1, 1), (2, 0), (2, 1))]
    assert drawn[0] == random_mask(spec, 0.5, "uniform", 1, 0)
    for number, one in enumerate(drawn):
        for other in drawn[:number]:
            overlap = np.mean(one.bits["fc1.weight"] & other.bits["fc1.weight"])
            assert abs(overlap - 0.25) < 0.004
    inside = drawn[0].bits["fc1.weight"]
    assert abs(inside[:250].mean() - 0.5) < 0.004 and abs(inside[:, :400].mean() - 0.5) < 0.004


def test_the_mask_of_a_seed_is_the_same_on_every_machine() -> None:
    """A golden value: runs that are resumed, and devices, draw it again."""
    spec = ModelSpec.of(build("lenet5", *EXAMPLES["lenet5"]))
    assert random_mask(spec, 0.5, "erk", seed=1).hash().hex() == GOLDEN


GOLDEN = "d95d2668f6107605"
