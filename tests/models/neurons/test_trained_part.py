"""Patterns for the trained part of a model: what they choose, what keeps its bits, and the sentences of refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgefl.errors import GraphError
from edgefl.models.graph import Graph, Node
from edgefl.models.graph.operations import Conv2d, GlobalAvgPool, ReLU
from edgefl.models.neurons.trained_part import chosen_names, patterns, with_trained
from tests.methods.small_models import plain

GRAPH = plain()  # conv1, bn1, conv2, bn2, fc
BN1, BN2 = (
    tuple(f"{bn}.{part}" for part in ("weight", "bias", "running_mean", "running_var")) for bn in ("bn1", "bn2")
)
CONV1, CONV2, HEAD = (tuple(f"{layer}.{part}" for part in ("weight", "bias")) for layer in ("conv1", "conv2", "fc"))
BIASES = ("conv1.bias", "bn1.bias", "conv2.bias", "bn2.bias", "fc.bias")
MOVING = ("running_mean", "running_var")

CHOSEN = [
    ("head", HEAD),
    ("biases", BIASES),  # the statistics of both norms are kept
    ("*.bias", BIASES),
    ("norms", (*BN1, *BN2)),
    ("last:1", (*CONV2, *BN2, *HEAD)),
    ("last:2", (*CONV1, *BN1, *CONV2, *BN2, *HEAD)),
    (" conv1.* , fc.bias ", (*CONV1, "fc.bias")),
    ("last:1,-head", (*CONV2, *BN2)),
    ("last:1,-*.running_*", (*CONV2, "bn2.weight", "bn2.bias", *HEAD)),
    ("-conv1.*,-bn1.*", (*CONV2, *BN2, *HEAD)),
    ("bn?.weight", ("bn1.weight", "bn2.weight")),
    ("bn[12].weight", ("bn1.weight", "bn2.weight")),
    ("fc.*,-fc.*,conv2.weight", ("conv2.weight",)),  # from left to right
    ("fc.*,bn1.*,-bn1.running_var", (*HEAD, "bn1.weight", "bn1.bias")),  # statistics move both or not at all
]


@pytest.mark.parametrize(("text", "trained"), CHOSEN)
def test_patterns_choose_what_is_trained(text: str, trained: tuple[str, ...]) -> None:
    found = with_trained(GRAPH, text)
    assert set(GRAPH.parameters()) - found.frozen == set(trained)
    assert (found.input_shape, found.nodes) == (GRAPH.input_shape, GRAPH.nodes)


def test_no_pattern_leaves_the_model_as_it_is() -> None:
    frozen = replace(GRAPH, frozen=frozenset({"conv1.weight"}))
    assert with_trained(frozen, "") is frozen


def test_patterns_train_what_the_model_froze_and_keep_what_its_norms_keep() -> None:
    """The first norm is in evaluation mode, as of a module whose backbone is frozen."""
    kept = frozenset(f"bn1.{name}" for name in MOVING)
    frozen = replace(GRAPH, frozen=frozenset({*CONV1, *CONV2}) | kept)
    assert with_trained(frozen, "*").frozen == kept
    assert with_trained(frozen, "conv1.*").frozen == frozenset(GRAPH.parameters()) - set(CONV1)


def test_chosen_names_have_statistics_under_their_names() -> None:
    assert chosen_names(GRAPH, "bn1.*") == set(BN1)


REFUSED = [
    ("haed", "train=haed names no parameter; the nearest is head"),
    ("conv3.weight", r"train=conv3\.weight names no parameter; the nearest are conv2\.weight, conv1\.weight"),
    ("conv1", r"train=conv1 names no parameter; expected conv1\.\* for the parameters of the layer conv1"),
    ("zzz*", r"train=zzz\* names no parameter; expected names of parameters with \* and \?, or head, biases, norms or"),
    (
        "bn1.running_*",
        r"train=bn1\.running_\* names running statistics alone, as bn1\.running_mean; expected a pattern",
    ),
    (
        "conv1.weight[:8]",
        r"train=conv1\.weight\[:8\] names a slice of a parameter; expected whole parameters, as in con",
    ),
    ("fc.*,", r"train='fc\.\*,' has an empty pattern; expected names"),
    ("fc.*,-", "has an empty pattern"),
    ("last:0", "train=last:0; expected last:K with a number of blocks K >= 1"),
    ("last:K", "train=last:K; expected last:K with a number"),
    ("last:3", "train=last:3, but the model has 2 blocks, conv1 to conv2"),
    ("fc.*,-fc.*", r"train=fc\.\*,-fc\.\* leaves no parameter to train; expected at least one"),
    ("-nothing.*", r"train=nothing\.\* names no parameter"),
]


@pytest.mark.parametrize(("text", "problem"), REFUSED)
def test_a_pattern_that_chooses_nothing_is_refused_with_the_nearest_names(text: str, problem: str) -> None:
    with pytest.raises(GraphError, match=problem):
        with_trained(GRAPH, text)


def test_a_model_without_head_norms_or_biases_says_so() -> None:
    graph = Graph(
        (1, 2, 2),
        (
            Node("a", Conv2d(1, 3, (1, 1), bias=False), ("input",)),
            Node("r", ReLU(), ("a",)),
            Node("p", GlobalAvgPool(), ("r",)),
        ),
    )
    for text, problem in (
        ("head", "no Linear layer"),
        ("norms", "no BatchNorm"),
        ("biases", "train=biases names no par"),
    ):
        with pytest.raises(GraphError, match=problem):
            with_trained(graph, text)
    assert with_trained(graph, "last:1").frozen == frozenset()


def test_slices_and_wrong_words_are_found_without_a_model() -> None:
    assert patterns("last:2, -*.running_*") == ("last:2", "-*.running_*")
    for text in ("conv1.weight[:8]", "", "last:x", "a,,b"):
        with pytest.raises(GraphError):
            patterns(text)
