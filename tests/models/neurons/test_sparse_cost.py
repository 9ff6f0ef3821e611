"""The paper's columns of GB and FLOPs out of its formulas, and the counted bytes of a run (ALGORITHMS 10.2)."""

from __future__ import annotations

import pytest

from edgefl.models.graph.architectures import EXAMPLES, build
from edgefl.models.neurons.density import weights
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.sparse_cost import densities, flops, mask_values, nominal_bytes, sparse_round

CLIENTS, EPOCHS, BATCH = 10, 5, 128
GRAPHS = {name: build(name, *EXAMPLES[name]) for name in ("lenet5", "vgg11", "resnet18")}
ROUNDS = {"lenet5": 400, "vgg11": 1000, "resnet18": 1000}
EXAMPLES_EACH = {"lenet5": 1248, "vgg11": 500, "resnet18": 500}


def gigabytes(model: str, down: float, up: float) -> float:
    return ROUNDS[model] * CLIENTS * nominal_bytes(GRAPHS[model], down, up) / 1e9


def run_flops(model: str, density: float, distribution: str = "erk") -> float:
    seen = EPOCHS * EXAMPLES_EACH[model]
    return ROUNDS[model] * CLIENTS * sparse_round(GRAPHS[model], density, distribution, seen, BATCH)


def dense_flops(model: str) -> float:
    return ROUNDS[model] * CLIENTS * flops(GRAPHS[model], {}, EPOCHS * EXAMPLES_EACH[model])


def test_the_column_of_gigabytes_is_the_paper_s() -> None:
    """t_fedspa_bytes_table: dense, at density 1/2, and with half of what goes up. Table 3 is by sparsity."""
    for model, dense, sparse, subsampled in (("vgg11", 738.5, 369.2, 553.9), ("resnet18", 897.6, 448.8, 673.2)):
        for density, paper in (((1, 1), dense), ((0.5, 0.5), sparse), ((1, 0.5), subsampled)):
            assert gigabytes(model, *density) == pytest.approx(paper, rel=1e-3)
    for density, paper in ((0.8, 718.1), (0.6, 538.6), (0.5, 448.8), (0.4, 359.0), (0.2, 179.5)):
        assert gigabytes("resnet18", density, density) == pytest.approx(paper, rel=1e-3)
    printed = [f"{gigabytes('lenet5', *density):.1f}" for density in ((1, 1), (0.5, 0.5), (1, 0.5))]
    assert printed == ["14.1", "7.0", "10.5"]


def test_the_column_of_flops_is_the_paper_s() -> None:
    """t_fedspa_flops_table, with the batch that grows the mask. Table 3 prints two digits."""
    assert dense_flops("vgg11") == pytest.approx(229.3e14, rel=1e-3)
    assert run_flops("vgg11", 0.5) == pytest.approx(172.9e14, rel=1e-3)
    assert dense_flops("resnet18") == pytest.approx(833.2e14, rel=1e-3)
    assert run_flops("resnet18", 0.5) == pytest.approx(705.1e14, rel=1e-3)
    for density, paper in ((0.8, "8.2"), (0.6, "7.6"), (0.5, "7.1"), (0.4, "6.5"), (0.2, "4.6")):
        assert f"{run_flops('resnet18', density) / 1e16:.1f}" == paper
    assert f"{run_flops('resnet18', 0.5, 'uniform') / 1e16:.1f}" == "4.6"
    assert (f"{dense_flops('lenet5') / 1e14:.2f}", f"{run_flops('lenet5', 0.5) / 1e14:.2f}") == ("3.45", "1.95")


def test_a_message_has_a_few_values_more_than_its_density_says() -> None:
    """Parameters of one dimension are whole, which is a part in ten thousand of the paper's formula for ResNet18."""
    for model, graph in GRAPHS.items():
        spec = ModelSpec.of(graph)
        values, formula = mask_values(spec, 0.5, "erk"), nominal_bytes(graph, 0.5, 0) / 4
        assert 0 < values - formula < 2e-3 * formula
        shares = densities(weights(spec), 0.5, "erk")
        assert flops(graph, shares, 7) == pytest.approx(7 * flops(graph, shares, 1)), model
        assert flops(graph, shares, 7) < flops(graph, {}, 7) == 6 * 7 * sum(graph.macs().values()), model
