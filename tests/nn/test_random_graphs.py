"""Properties of any graph: JSON, torch, axes and sub-models agree on graphs that nobody wrote by hand."""

from __future__ import annotations

import math

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edgefl import rng
from edgefl.errors import GraphError
from edgefl.graph import INPUT, Graph, Model, Node, Params
from edgefl.graph.json import dumps, loads
from edgefl.graph.operations import (
    Add,
    AvgPool2d,
    BatchNorm2d,
    Conv2d,
    Flatten,
    GlobalAvgPool,
    Linear,
    MaxPool2d,
    Operation,
    ReLU,
    Shape,
)
from edgefl.neurons.selection import NeuronSet
from edgefl.neurons.spec import ModelSpec
from edgefl.neurons.submodel import sub_params
from edgefl.nn import from_torch, to_torch

SETTINGS = settings(max_examples=40, derandomize=True)
CHANNELS = (4, 6, 8)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Some planes operations on a small image, residual sums among them, then Flatten and one or two Linear layers."""
    shapes: dict[str, Shape] = {INPUT: (draw(st.integers(1, 3)), draw(st.integers(4, 8)), draw(st.integers(4, 8)))}
    nodes: list[Node] = []

    def append(op: Operation, *inputs: str) -> None:
        node = Node(f"n{len(nodes)}.{op.title.lower()}", op, inputs or (last(),))
        shapes[node.name] = node.output(shapes)
        nodes.append(node)

    def last() -> str:
        return nodes[-1].name if nodes else INPUT

    append(Conv2d(shapes[INPUT][0], 4, (1, 1)))
    for _ in range(draw(st.integers(1, 6))):
        shape = shapes[last()]
        equals = [name for name, other in shapes.items() if other == shape and name != last()]
        if equals and draw(st.integers(0, 3)) == 0:
            append(Add(), draw(st.sampled_from(equals)), last())
        else:
            append(draw(st.sampled_from(fitting_operations(shape, draw(st.sampled_from(CHANNELS))))))
    if draw(st.booleans()):
        append(GlobalAvgPool())
    append(Flatten())
    if draw(st.booleans()):
        append(Linear(math.prod(shapes[last()]), 5, bias=draw(st.booleans())))
        append(ReLU())
    append(Linear(math.prod(shapes[last()]), 3))
    return Graph(shapes[INPUT], tuple(nodes))


def fitting_operations(shape: Shape, out: int) -> list[Operation]:
    """Operations that take a result of this shape; GroupNorm is absent because it mixes channels."""
    channels, height, width = shape
    same = Conv2d(channels, channels, (3, 3), padding=(1, 1))
    candidates: list[Operation] = [
        same,
        Conv2d(channels, out, (3, 2), (2, 1), (1, 1), bias=False),
        Conv2d(channels, out, (2, 2), padding=(1, 1), dilation=(1, 2)),
        Conv2d(channels, 2 * channels, (3, 3), padding=(1, 1), groups=channels),
        BatchNorm2d(channels),
        ReLU(),
    ]
    if channels % 2 == 0 and channels > 2:
        candidates += [Conv2d(channels, out, (1, 1), groups=2), Conv2d(channels, channels, (1, 1), groups=channels)]
    if min(height, width) > 2:
        candidates += [MaxPool2d((3, 2), (2, 1), (1, 0)), AvgPool2d((2, 3), (1, 2), (1, 1), count_include_pad=False)]
    return [op for op in candidates if takes(op, shape)]


def takes(op: Operation, shape: Shape) -> bool:
    try:
        op.output(shape)
    except GraphError:
        return False
    return True


def fresh(graph: Graph) -> Params:
    """Random parameters of which none is 0, 1 or equal to another's."""
    stream = rng.stream(9, rng.INIT)
    return {
        name: (
            stream.uniform(math.prod(info.shape)).reshape(info.shape) + (0.5 if info.kind == "stat" else -0.4)
        ).astype(np.float32)
        for name, info in graph.parameters().items()
    }


def forward(graph: Graph, params: Params) -> torch.Tensor:
    x = torch.randn(2, *graph.input_shape, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        return to_torch(Model(graph, params)).double().eval()(x.double())


@SETTINGS
@given(graphs())
def test_text_and_axes_agree_with_the_graph(graph) -> None:
    assert graph.shapes[graph.nodes[-1].name] == (3,)
    assert loads(dumps(graph)) == graph
    spec = ModelSpec.of(graph)
    assert spec.params.keys() == graph.parameters().keys()
    for param in spec.params.values():
        for axis, length in zip((param.rows, param.cols), param.shape, strict=False):
            assert axis is None or spec.groups[axis.group] * axis.repeat == length


@SETTINGS
@given(graphs())
def test_torch_gives_every_graph_back(graph) -> None:
    model = Model(graph, fresh(graph))
    back = from_torch(to_torch(model), torch.ones(2, *graph.input_shape))
    assert back.graph == graph
    assert all((back.params[name] == value).all() for name, value in model.params.items())


@SETTINGS
@given(graphs(), st.sampled_from([0.3, 0.5, 0.8]), st.integers(0, 9))
def test_sub_model_equals_the_full_model_with_zeroed_rows(graph, keep, seed) -> None:
    """With the rows of inactive neurons at zero their outputs are zero, so their columns cannot matter."""
    spec, params = ModelSpec.of(graph), fresh(graph)
    neurons = NeuronSet.draw(spec, keep, rng.stream(seed, rng.NEURONS))
    zeroed = {name: value.copy() for name, value in params.items()}
    for name, (rows, _) in neurons.blocks(spec).items():
        if rows is not None and "running" not in name:
            inactive = np.setdiff1d(np.arange(len(zeroed[name])), rows)
            zeroed[name][inactive] = 0
    try:
        small = graph.sub(neurons)
    except GraphError as error:
        assert "expected equally many in each" in str(error)
        return
    kept = sub_params(graph, params, neurons)
    assert sum(value.size for value in kept.values()) == neurons.count(spec, ("learn", "stat"))
    assert torch.allclose(forward(small, kept), forward(graph, zeroed), rtol=1e-9, atol=1e-9)
