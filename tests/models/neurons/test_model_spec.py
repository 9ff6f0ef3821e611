"""The neuron group of each axis: one small graph per rule of group_inference.py."""

from __future__ import annotations

import json

import pytest

from edgefl.models.graph import Graph, Node, architectures
from edgefl.models.graph.json import dumps, loads
from edgefl.models.graph.operations import (
    GRU,
    LSTM,
    Add,
    AvgPool2d,
    BatchNorm2d,
    Concat,
    Conv1d,
    Conv2d,
    ConvTranspose2d,
    Flatten,
    GlobalAvgPool,
    GroupNorm,
    Linear,
    MaxPool2d,
    Mul,
    Operation,
    PReLU,
    ReLU,
    SelfAttention,
)
from edgefl.models.neurons.model_spec import Axis, AxisSpec, JoinedAxis, ModelSpec, ParamSpec
from edgefl.models.neurons.neuron_set import NeuronSet


def conv(channels: int, out: int, groups: int = 1) -> Conv2d:
    return Conv2d(channels, out, (1, 1), groups=groups, bias=False)


def chain(shape: tuple[int, ...], *layers: tuple[str, Operation]) -> list[Node]:
    names = ["input", *(name for name, _ in layers)]
    return [Node(name, op, (before,)) for before, (name, op) in zip(names, layers, strict=False)]


def spec_of(shape: tuple[int, ...], *nodes: Node) -> ModelSpec:
    return ModelSpec.of(Graph(shape, nodes))


def axes(spec: ModelSpec, name: str) -> tuple[Axis | None, Axis | None]:
    return spec.params[name].rows, spec.params[name].cols


def test_chain_of_convolution_norm_pooling_flatten_and_linear() -> None:
    spec = spec_of(
        (3, 8, 8),
        *chain(
            (3, 8, 8),
            ("conv1", Conv2d(3, 4, (3, 3), padding=(1, 1))),
            ("bn1", BatchNorm2d(4)),
            ("relu1", ReLU()),
            ("pool1", MaxPool2d((2, 2), (2, 2))),
            ("conv2", conv(4, 6)),
            ("gn2", GroupNorm(2, 6)),
            ("pool2", AvgPool2d((2, 2), (2, 2))),
            ("flatten", Flatten()),
            ("fc1", Linear(24, 5)),
            ("fc", Linear(5, 2)),
        ),
    )
    one, two, three = AxisSpec("conv1"), AxisSpec("conv2"), AxisSpec("fc1")
    assert spec.groups == {"conv1": 4, "conv2": 6, "fc1": 5}
    assert spec.params == {
        "conv1.weight": ParamSpec((4, 3, 3, 3), "learn", one, None),
        "conv1.bias": ParamSpec((4,), "learn", one),
        "bn1.weight": ParamSpec((4,), "learn", one),
        "bn1.bias": ParamSpec((4,), "learn", one),
        "bn1.running_mean": ParamSpec((4,), "stat", one),
        "bn1.running_var": ParamSpec((4,), "stat", one),
        "conv2.weight": ParamSpec((6, 4, 1, 1), "learn", two, one),
        "gn2.weight": ParamSpec((6,), "learn", two),
        "gn2.bias": ParamSpec((6,), "learn", two),
        "fc1.weight": ParamSpec((5, 24), "learn", three, AxisSpec("conv2", 4)),
        "fc1.bias": ParamSpec((5,), "learn", three),
        "fc.weight": ParamSpec((2, 5), "learn", None, three),
        "fc.bias": ParamSpec((2,), "learn", None),
    }


def test_recurrent_layers_own_units_with_all_gates_and_attention_its_heads() -> None:
    nodes = chain(
        (3, 5),
        ("gru", GRU(3, 4)),
        ("lstm", LSTM(4, 2, bias=False)),
        ("attn", SelfAttention(2, 3, 5)),
        ("attn.out_proj", Conv1d(15, 2, 1)),
    )
    spec = spec_of((3, 5), *nodes)
    gru, lstm, heads = AxisSpec("gru"), AxisSpec("lstm"), AxisSpec("attn", 5)
    assert spec.groups == {"gru": 4, "lstm": 2, "attn": 3}
    gates, cells, parts = beside((gru, 4), (gru, 4), (gru, 4)), beside(*4 * [(lstm, 2)]), beside(*3 * [(heads, 15)])
    assert axes(spec, "gru.weight_ih_l0") == (gates, None)
    assert axes(spec, "gru.weight_hh_l0") == (gates, gru)
    assert axes(spec, "gru.bias_ih_l0") == axes(spec, "gru.bias_hh_l0") == (gates, None)
    assert axes(spec, "lstm.weight_ih_l0") == (cells, gru)
    assert axes(spec, "lstm.weight_hh_l0") == (cells, lstm)
    assert axes(spec, "attn.in_proj_weight") == (parts, lstm)
    assert axes(spec, "attn.in_proj_bias") == (parts, None)
    assert axes(spec, "attn.out_proj.weight") == (None, heads)
    smaller = Graph((3, 5), tuple(nodes)).sub(NeuronSet.of(spec, {"gru": [0, 3], "lstm": [1], "attn": [0, 2]}))
    assert [node.op for node in smaller.nodes[:3]] == [GRU(3, 2), LSTM(2, 1, False), SelfAttention(1, 2, 5)]
    last = spec_of((3, 5), *nodes[:1])
    assert last.groups == {} and axes(last, "gru.weight_hh_l0") == (None, None)


def test_global_average_pooling_leaves_one_feature_per_channel() -> None:
    nodes = chain((3, 8, 8), ("a", conv(3, 4)), ("pool", GlobalAvgPool()), ("flatten", Flatten()), ("fc", Linear(4, 2)))
    assert axes(spec_of((3, 8, 8), *nodes), "fc.weight") == (None, AxisSpec("a", 1))


def test_depthwise_convolution_has_the_neurons_of_its_input() -> None:
    nodes = chain((3, 8, 8), ("a", conv(3, 4)), ("dw", conv(4, 8, groups=4)), ("bn", BatchNorm2d(8)), ("b", conv(8, 2)))
    spec = spec_of((3, 8, 8), *nodes)
    assert spec.groups == {"a": 4}
    assert axes(spec, "dw.weight") == (AxisSpec("a", 2), None)
    assert axes(spec, "bn.running_var") == (AxisSpec("a", 2), None)
    assert axes(spec, "b.weight") == (None, AxisSpec("a", 2))


def test_multipliers_of_depthwise_convolutions_and_flatten_multiply() -> None:
    layers = [("a", conv(1, 2)), ("d", conv(2, 4, groups=2)), ("e", conv(4, 12, groups=4)), ("flat", Flatten())]
    spec = spec_of((1, 2, 2), *chain((1, 2, 2), *layers, ("fc", Linear(48, 2))))
    assert axes(spec, "e.weight") == (AxisSpec("a", 6), None)
    assert axes(spec, "fc.weight") == (None, AxisSpec("a", 24))


def test_convolution_of_one_input_channel_is_not_depthwise() -> None:
    spec = spec_of((1, 4, 4), *chain((1, 4, 4), ("a", conv(1, 4)), ("b", conv(4, 2))))
    assert axes(spec, "a.weight") == (AxisSpec("a"), None)


def test_depthwise_convolution_of_the_input_is_never_restricted() -> None:
    spec = spec_of((3, 4, 4), *chain((3, 4, 4), ("dw", conv(3, 6, groups=3)), ("b", conv(6, 2)), ("c", conv(2, 2))))
    assert spec.groups == {"b": 2}
    assert axes(spec, "dw.weight") == (None, None)
    assert axes(spec, "b.weight") == (AxisSpec("b"), None)


def test_input_of_a_grouped_convolution_is_never_restricted() -> None:
    nodes = chain((3, 4, 4), ("a", conv(3, 4)), ("bn", BatchNorm2d(4)), ("b", conv(4, 6, groups=2)), ("c", conv(6, 2)))
    spec = spec_of((3, 4, 4), *nodes)
    assert spec.groups == {"b": 6}
    assert axes(spec, "a.weight") == (None, None)
    assert axes(spec, "bn.weight") == (None, None)
    assert axes(spec, "b.weight") == (AxisSpec("b"), None)
    assert axes(spec, "c.weight") == (None, AxisSpec("b"))


def residual(*extra: Node) -> list[Node]:
    """stem -> (a, b) + stem -> relu, then whatever follows."""
    return [
        Node("stem", conv(3, 4), ("input",)),
        Node("a", conv(4, 5), ("stem",)),
        Node("b", conv(5, 4), ("a",)),
        Node("sum", Add(), ("b", "stem")),
        Node("relu", ReLU(), ("sum",)),
        *extra,
    ]


def test_summed_layers_share_the_group_of_the_earliest() -> None:
    spec = spec_of((3, 4, 4), *residual(Node("head", conv(4, 2), ("relu",))))
    assert spec.groups == {"stem": 4, "a": 5}
    assert axes(spec, "stem.weight") == (AxisSpec("stem"), None)
    assert axes(spec, "b.weight") == (AxisSpec("stem"), AxisSpec("a"))
    assert axes(spec, "head.weight") == (None, AxisSpec("stem"))


def test_chains_of_sums_share_one_group() -> None:
    nodes = residual(
        Node("c", conv(4, 4), ("relu",)),
        Node("sum2", Add(), ("relu", "c")),
        Node("head", conv(4, 2), ("sum2",)),
    )
    spec = spec_of((3, 4, 4), *nodes)
    assert spec.groups == {"stem": 4, "a": 5}
    assert axes(spec, "c.weight") == (AxisSpec("stem"), AxisSpec("stem"))


def test_sum_with_the_graph_input_frees_the_group() -> None:
    nodes = [
        Node("a", conv(3, 5), ("input",)),
        Node("b", conv(5, 3), ("a",)),
        Node("sum", Add(), ("input", "b")),
        Node("head", conv(3, 2), ("sum",)),
    ]
    spec = spec_of((3, 4, 4), *nodes)
    assert spec.groups == {"a": 5}
    assert axes(spec, "b.weight") == (None, AxisSpec("a"))
    assert axes(spec, "head.weight") == (None, None)


def test_group_freed_after_it_was_joined_is_free_everywhere() -> None:
    spec = spec_of((3, 4, 4), *residual(Node("g", conv(4, 4, groups=2), ("relu",)), Node("head", conv(4, 2), ("g",))))
    assert spec.groups == {"a": 5, "g": 4}
    assert axes(spec, "stem.weight") == (None, None)
    assert axes(spec, "b.weight") == (None, AxisSpec("a"))


def test_group_freed_before_it_is_joined_frees_what_it_is_summed_with() -> None:
    nodes = [
        Node("a", conv(3, 4), ("input",)),
        Node("b", conv(3, 4), ("input",)),
        Node("g", conv(4, 6, groups=2), ("b",)),
        Node("sum", Add(), ("a", "b")),
        Node("c", conv(4, 6), ("sum",)),
        Node("sum2", Add(), ("c", "g")),
        Node("head", conv(6, 2), ("sum2",)),
    ]
    spec = spec_of((3, 4, 4), *nodes)
    assert spec.groups == {"g": 6}
    assert axes(spec, "a.weight") == (None, None)
    assert axes(spec, "c.weight") == (AxisSpec("g"), None)


def test_layers_summed_into_the_output_are_never_restricted() -> None:
    spec = spec_of((3, 4, 4), *residual())
    assert spec.groups == {"a": 5}
    assert axes(spec, "stem.weight") == (None, None)


def test_sum_of_axes_with_different_repeats_is_never_restricted() -> None:
    nodes = [
        Node("a", conv(1, 2), ("input",)),
        Node("dw", conv(2, 4, groups=2), ("a",)),
        Node("b", conv(1, 4), ("input",)),
        Node("sum", Add(), ("dw", "b")),
        Node("head", conv(4, 2), ("sum",)),
    ]
    spec = spec_of((1, 4, 4), *nodes)
    assert spec.groups == {}
    assert all(param.rows is None and param.cols is None for param in spec.params.values())


def beside(*parts: tuple[AxisSpec | None, int]) -> JoinedAxis:
    return JoinedAxis(parts)


def side_by_side(*extra: Node) -> list[Node]:
    """a | input | b, of 3, 1 and 2 channels, then whatever follows."""
    return [
        Node("a", conv(1, 3), ("input",)),
        Node("b", conv(1, 2), ("input",)),
        Node("all", Concat(), ("a", "input", "b")),
        *extra,
    ]


def test_results_side_by_side_keep_their_groups() -> None:
    nodes = side_by_side(
        Node("bn", BatchNorm2d(6), ("all",)),
        Node("one", PReLU(), ("bn",)),
        Node("each", PReLU(6), ("one",)),
        Node("dw", conv(6, 12, groups=6), ("each",)),
        Node("more", Concat(), ("dw", "a")),
        Node("up", ConvTranspose2d(15, 4, (1, 1)), ("more",)),
        Node("again", Concat(), ("up", "all", "up2")),
        Node("flat", Flatten(), ("again",)),
        Node("fc", Linear(56, 2), ("flat",)),
    )
    nodes.insert(-3, Node("up2", PReLU(4), ("up",)))
    spec = spec_of((1, 2, 2), *nodes)
    a, b, up = AxisSpec("a"), AxisSpec("b"), AxisSpec("up")
    three = beside((a, 3), (None, 1), (b, 2))
    assert spec.groups == {"a": 3, "b": 2, "up": 4}
    assert axes(spec, "bn.running_var") == axes(spec, "each.weight") == (three, None)
    assert axes(spec, "one.weight") == (None, None)
    twice = ((AxisSpec("a", 2), 6), (None, 2), (AxisSpec("b", 2), 4))
    assert axes(spec, "dw.weight") == (beside(*twice), None)
    assert axes(spec, "up.weight") == (beside(*twice, (a, 3)), up)
    assert axes(spec, "up.bias") == (up, None)
    features = ((AxisSpec("a", 4), 12), (None, 4), (AxisSpec("b", 4), 8))
    assert axes(spec, "fc.weight") == (None, beside((AxisSpec("up", 4), 16), *features, (AxisSpec("up", 4), 16)))


def test_joined_axes_that_are_put_together_share_groups_part_by_part() -> None:
    """c joins a and d joins b. With other parts nothing is restricted, and results without a group are not joined."""
    twins = [Node("c", conv(1, 3), ("input",)), Node("d", conv(1, 2), ("input",))]
    alike = [Node("two", Concat(), ("c", "input", "d")), Node("sum", Mul(), ("two", "all"))]
    spec = spec_of((1, 4, 4), *side_by_side(*twins, *alike, Node("head", conv(6, 2), ("sum",))))
    assert spec.groups == {"a": 3, "b": 2}
    assert axes(spec, "c.weight") == (AxisSpec("a"), None)
    assert axes(spec, "head.weight") == (None, beside((AxisSpec("a"), 3), (None, 1), (AxisSpec("b"), 2)))
    otherwise = [Node("two", Concat(), ("d", "input", "c")), Node("sum", Add(), ("two", "all"))]
    single = [Node("e", conv(1, 6), ("input",)), Node("sum", Add(), ("all", "e"))]
    grouped = [Node("bn", BatchNorm2d(6), ("all",)), Node("sum", conv(6, 6, groups=2), ("bn",))]
    for name, more, groups in (
        ("other parts", [*twins, *otherwise], {}),
        ("a single layer", single, {}),
        ("a grouped convolution", grouped, {"sum": 6}),
        ("the output", [], {}),
    ):
        last = [] if name == "the output" else [Node("head", conv(6, 2), (more[-1].name,))]
        found = spec_of((1, 4, 4), *side_by_side(*more, *last))
        assert found.groups == groups, name
        assert not any(isinstance(axis, JoinedAxis) for param in found.params.values() for axis in param[2:]), name
        assert axes(found, "a.weight") == axes(found, "b.weight") == (None, None), name


def test_resnet_stages_share_one_group_each() -> None:
    groups = ModelSpec.of(architectures.build("resnet18", (3, 32, 32), 10)).groups
    inner = [f"layer{stage}.{block}.conv1" for stage in (1, 2, 3, 4) for block in (0, 1)]
    assert set(groups) == {"conv1", "layer2.0.conv2", "layer3.0.conv2", "layer4.0.conv2", *inner}


@pytest.mark.parametrize("name", architectures.PUBLISHED)
def test_every_axis_has_as_many_indices_as_its_group_repeats(name) -> None:
    spec = ModelSpec.of(architectures.build(name, (3, 32, 32), 10))
    for param in spec.params.values():
        for axis, length in zip((param.rows, param.cols), param.shape, strict=False):
            assert axis is None or spec.groups[axis.group] * axis.repeat == length


def test_fingerprint_is_pinned() -> None:
    spec = spec_of((4,), Node("fc", Linear(4, 2), ("input",)))
    assert spec.fingerprint.hex() == "23374e1b4713c16b4a2021789a829efb"


def test_fingerprint_does_not_depend_on_the_order_of_keys() -> None:
    graph = architectures.build("digits_cnn", (1, 8, 8), 10)

    def reverse(value):
        if isinstance(value, dict):
            return {key: reverse(value[key]) for key in reversed(value)}
        return [reverse(item) for item in value] if isinstance(value, list) else value

    again = loads(json.dumps(reverse(json.loads(dumps(graph))), indent=2))
    assert ModelSpec.of(again).fingerprint == ModelSpec.of(graph).fingerprint


def test_fingerprint_changes_with_every_part_of_a_graph() -> None:
    def fingerprint(eps: float = 1e-5, name: str = "bn", shape: tuple[int, ...] = (2, 4, 4)) -> bytes:
        return spec_of(shape, Node(name, BatchNorm2d(2, eps), ("input",))).fingerprint

    variants = [fingerprint(), fingerprint(eps=1e-3), fingerprint(name="norm"), fingerprint(shape=(2, 4, 5))]
    assert len(set(variants)) == 4
    assert all(len(value) == 16 for value in variants)


def test_equal_graphs_share_one_specification() -> None:
    first, second = (architectures.build("digits_cnn", (1, 8, 8), 10) for _ in range(2))
    assert ModelSpec.of(first) is ModelSpec.of(second)
