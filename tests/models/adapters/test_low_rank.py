"""Adapters of layers: which layers get one, the values at the start, neurons, merging, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from edgefl.errors import GraphError
from edgefl.learning import GraphLearner
from edgefl.models import LowRankAdapter, adapters_of, add_adapters, merge_adapters
from edgefl.models.graph import Model, json
from edgefl.models.graph.operations import AdapterSum
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet

from .adapted_graphs import GRAPHS, SENTENCES, adapted, base

MODULES = {"pictures": ["conv", "wide", "fc"], "sentences": ["words", "mixed", "block.proj", "fc"]}


def outputs(model: Model) -> np.ndarray:
    """Return the outputs for three samples, in float64."""
    chance = np.random.default_rng(2)
    shape = 3, *model.graph.input_shape
    x = chance.integers(0, 11, shape) if model.graph.vocabulary else chance.normal(size=shape)
    return GraphLearner(model, "reference", np.float64).predict(x.astype(np.float64))


@pytest.mark.parametrize("name", GRAPHS)
def test_every_layer_that_can_gets_an_adapter_which_has_no_effect_yet(name: str) -> None:
    before, made = base(name), add_adapters(base(name), rank=2)
    assert [each.module for each in adapters_of(made.graph)] == MODULES[name]
    assert {each.scale for each in adapters_of(made.graph)} == {2.0}
    np.testing.assert_array_equal(outputs(made), outputs(before))
    assert json.loads(json.dumps(made.graph)) == made.graph


@pytest.mark.parametrize("name", GRAPHS)
def test_only_the_adapters_are_trained_and_their_neurons_are_ranks(name: str) -> None:
    made = add_adapters(base(name), rank=2)
    spec = ModelSpec.of(made.graph)
    assert set(spec.learned) == {each for a in adapters_of(made.graph) for each in (a.down, a.up)}
    ranks = [f"{module}.lora_A" for module in MODULES[name]]
    assert spec.groups == dict.fromkeys(ranks, 2)
    half = NeuronSet.leading(spec, 0.5)
    assert made.graph.sub(half).parameters()["fc.lora_B.weight"].shape == (5, 1)
    assert made.graph.sub(half).parameters()["fc.weight"].shape == made.graph.parameters()["fc.weight"].shape


@pytest.mark.parametrize("name", GRAPHS)
def test_a_merged_model_is_the_base_with_the_outputs_of_the_adapted_model(name: str) -> None:
    model = adapted(name)
    merged = merge_adapters(model)
    assert (merged.graph, merged.params.keys()) == (GRAPHS[name], base(name).params.keys())
    np.testing.assert_allclose(outputs(merged), outputs(model), rtol=1e-5, atol=1e-5)
    assert np.abs(outputs(merged) - outputs(base(name))).max() > 0.1


def test_a_merged_weight_by_hand() -> None:
    """W + 3 / 2 B A, and the transpose of it where a layer reads the transpose of its parameter."""
    model, plain = adapted("sentences"), base("sentences").params
    merged = merge_adapters(model).params
    product = 1.5 * (model.params["fc.lora_B.weight"] @ model.params["fc.lora_A.weight"])
    np.testing.assert_allclose(merged["fc.weight"], plain["fc.weight"] + product, rtol=1e-5, atol=1e-6)
    turned = 1.5 * (model.params["block.proj.lora_B.weight"] @ model.params["block.proj.lora_A.weight"])
    assert merged["block.proj.weight"].shape == (7, 4)
    np.testing.assert_allclose(merged["block.proj.weight"], plain["block.proj.weight"] + turned.T, rtol=1e-5, atol=1e-6)


def test_targets_are_whole_names_last_parts_or_patterns() -> None:
    def found(targets: Any) -> list[str]:
        return [each.module for each in adapters_of(add_adapters(base("sentences"), rank=2, targets=targets).graph)]

    assert found("proj") == found("block.proj") == found("block.*") == ["block.proj"]
    assert found(["fc", "words"]) == found("fc, words") == ["words", "fc"]
    assert adapters_of(SENTENCES) == ()
    made = add_adapters(base("sentences"), rank=1, alpha=0.5, targets="proj")
    assert adapters_of(made.graph) == (LowRankAdapter("block.proj", "block.proj", 1, 0.5),)


def test_more_than_the_adapters_can_be_trained() -> None:
    made = add_adapters(base("pictures"), rank=2, targets="conv", train="head")
    assert ModelSpec.of(made.graph).learned == ("conv.lora_A.weight", "conv.lora_B.weight", "fc.weight", "fc.bias")


def test_seeds_draw_other_values_of_a_and_a_seed_the_same() -> None:
    one, again, other = (add_adapters(base("pictures"), seed=seed, rank=2).params for seed in (1, 1, 2))
    assert one["conv.lora_A.weight"].tobytes() == again["conv.lora_A.weight"].tobytes()
    assert one["conv.lora_A.weight"].tobytes() != other["conv.lora_A.weight"].tobytes()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"rank": 0}, "rank=0; expected an integer from 1 to 4096"),
        ({"rank": 5, "targets": "conv"}, "rank=5 of an adapter of Conv2d.* expected at most 4"),
        ({"rank": 2, "alpha": 0.0}, "alpha=0.0; expected a number above 0"),
        ({"rank": 2, "targets": "depthwise"}, "'depthwise' names no layer that can have an adapter"),
        ({"rank": 2, "targets": "fcc"}, "names no layer that can have an adapter.*: fc"),
        ({"rank": 2, "targets": ""}, "'' names no layer"),
    ],
)
def test_what_does_not_fit_is_named(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(GraphError, match=reason):
        add_adapters(base("pictures"), **settings)


def test_a_second_adapter_and_a_merge_without_one_are_refused() -> None:
    with pytest.raises(GraphError, match=r"has an adapter of conv already"):
        add_adapters(adapted("pictures"), rank=2)
    with pytest.raises(GraphError, match=r"has no adapter"):
        merge_adapters(base("pictures"))


@pytest.mark.parametrize("text", ["a + b", "b + 2.0 * a", "a - 2.0 * b"])
def test_another_expression_is_no_sum_of_an_adapter(text: str) -> None:
    with pytest.raises(GraphError, match=r"expected a \+ S \* b"):
        AdapterSum(text)
