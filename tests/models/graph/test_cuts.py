"""The places where graphs can be cut, by hand. Both sides together are the graph."""

from __future__ import annotations

import numpy as np
import pytest

from edgefl import rng
from edgefl.errors import GraphError
from edgefl.learning import GraphLearner, Samples
from edgefl.models.graph import INPUT, Graph, Model, Node, architectures
from edgefl.models.graph.cuts import after, before, cuts, until
from edgefl.models.graph.heads import head_of
from edgefl.models.graph.operations import Add, Conv2d, Dropout, Flatten, Linear, MaxPool2d, ReLU

SAME = {"padding": (1, 1)}


def chain(*nodes: tuple[str, object]) -> Graph:
    names = [INPUT, *(name for name, _ in nodes)]
    return Graph((2, 4, 4), tuple(Node(name, op, (names[at],)) for at, (name, op) in enumerate(nodes)))


def branched() -> Graph:
    """conv1 - relu1 - conv2 - relu2 - conv3 - + relu1 - flat - fc: within the branch, narrow as it is, two cross."""
    return Graph(
        (2, 4, 4),
        (
            Node("conv1", Conv2d(2, 4, (3, 3), **SAME), (INPUT,)),
            Node("relu1", ReLU(), ("conv1",)),
            Node("conv2", Conv2d(4, 1, (3, 3), **SAME), ("relu1",)),
            Node("relu2", ReLU(), ("conv2",)),
            Node("conv3", Conv2d(1, 4, (3, 3), **SAME), ("relu2",)),
            Node("sum", Add(), ("relu1", "conv3")),
            Node("flat", Flatten(), ("sum",)),
            Node("fc", Linear(64, 3), ("flat",)),
        ),
    )


def test_between_two_products_it_is_the_smallest_result_the_last_of_equals() -> None:
    graph = chain(
        ("conv1", Conv2d(2, 4, (3, 3), **SAME)),
        ("relu1", ReLU()),
        ("pool1", MaxPool2d((2, 2), (2, 2))),
        ("flat", Flatten()),
        ("fc1", Linear(16, 8)),
        ("relu2", ReLU()),
        ("fc2", Linear(8, 3)),
    )
    assert cuts(graph) == ("flat", "relu2")


def test_branches_are_cut_before_or_behind_and_never_between() -> None:
    assert cuts(branched()) == ("relu1", "flat")


def test_nothing_lies_between_a_dropout_and_the_product_behind_it() -> None:
    fc = (("flat", Flatten()), ("fc1", Linear(32, 8)), ("drop", Dropout(0.5)), ("relu", ReLU()), ("fc2", Linear(8, 3)))
    assert cuts(chain(*fc)) == ("fc1",)
    kept = tuple((name, Dropout(0.0) if name == "drop" else op) for name, op in fc)
    assert cuts(chain(*kept)) == ("relu",)


def test_one_layer_alone_has_no_cut() -> None:
    assert cuts(chain(("flat", Flatten()), ("fc", Linear(32, 3)))) == ()


def test_after_a_result_beside_which_another_is_read_is_refused_by_name() -> None:
    with pytest.raises(
        GraphError, match="cut after 'conv2', after which 'relu1' is read as well; expected one of relu1, flat"
    ):
        after(branched(), "conv2")
    with pytest.raises(GraphError, match=r"cut after 'pool'; expected a result of the graph: input, conv1"):
        before(branched(), "pool")
    with pytest.raises(GraphError, match="cut after 'fc', the last result"):
        after(branched(), "fc")


def test_the_last_cut_of_a_classifier_is_before_its_head() -> None:
    graph = branched()
    assert after(graph, "flat") == head_of(graph)
    assert [node.name for node in before(graph, "flat")] == [node.name for node in graph.nodes[:-1]]
    assert before(graph, INPUT) == ()


@pytest.mark.parametrize("name", ["fedspu_emnist", "fedspu_cifar", "pflego_omniglot", "feddyn_mlp"])
def test_both_sides_one_after_the_other_compute_the_graph(name: str) -> None:
    shape, classes = architectures.EXAMPLES[name]
    graph = architectures.build(name, shape, classes)
    x = rng.stream(2, rng.DATA).uniform(3 * int(np.prod(shape))).astype(np.float32).reshape(3, *shape)
    learner = GraphLearner(Model(graph, graph.init(rng.stream(1, rng.INIT))), "reference")
    assert cuts(graph)
    for cut in cuts(graph):
        sides = until(graph, cut), after(graph, cut)
        assert [node.name for side in sides for node in side.nodes] == [node.name for node in graph.nodes]
        between = learner.features(Samples(x, np.zeros(3, np.int32)), cut=cut)
        assert between.shape == (3, *sides[0].output_shape) == (3, *sides[1].input_shape)
        np.testing.assert_array_equal(learner.rest(cut).predict(between), learner.predict(x))
