"""Properties of any graph: JSON, torch, axes and sub-models agree on graphs that nobody wrote by hand."""

from __future__ import annotations

import math

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edgefl import rng
from edgefl.errors import GraphError
from edgefl.models.graph import INPUT, Graph, Model, Node, Params
from edgefl.models.graph.json import dumps, loads
from edgefl.models.graph.operations import (
    ELU,
    GELU,
    AdaptiveAvgPool2d,
    Add,
    AddParameter,
    AvgPool1d,
    AvgPool2d,
    BatchNorm1d,
    BatchNorm2d,
    Concat,
    Conv1d,
    Conv2d,
    ConvTranspose2d,
    Embedding,
    Flatten,
    FlattenPlaces,
    GlobalAvgPool,
    GroupNorm,
    Hardsigmoid,
    Hardswish,
    LayerNorm,
    LeakyReLU,
    Linear,
    MaxPool1d,
    MaxPool2d,
    Mul,
    MulParameter,
    Operation,
    Permute,
    PReLU,
    ReLU,
    ReLU6,
    Reshape,
    Shape,
    Sigmoid,
    SiLU,
    Slice,
    Softplus,
    Tanh,
    Upsample,
    WithParameter,
    ZeroPad2d,
)
from edgefl.models.neurons.model_spec import ModelSpec, parts_of
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.submodel import sub_params
from edgefl.torch import from_torch, to_torch

SETTINGS = settings(max_examples=40, derandomize=True)
CHANNELS = (4, 6, 8)
WORDS = 9
MOST_CHANNELS = 24  # of a result that another is put beside


ACTIVATIONS: tuple[Operation, ...] = (
    *(ReLU(), ReLU6(), LeakyReLU(0.2), Sigmoid(), Tanh(), SiLU(), GELU(), GELU("tanh"), Hardsigmoid(), Hardswish()),
    *(Softplus(2.0, 3.0), ELU(0.5), PReLU()),
)
NOT_OF_ZERO = (Sigmoid, Hardsigmoid, Softplus)
"""What makes something of a 0."""


@st.composite
def graphs(draw: st.DrawFn, mixing: bool = True) -> Graph:
    """Some operations on small planes or a line, results put together among them, then Flatten, one or two Linear.

    mixing  also norms of several channels
    """
    sizes = draw(st.lists(st.integers(4, 8), min_size=1, max_size=2))
    words = len(sizes) == 1 and draw(st.booleans())
    shapes: dict[str, Shape] = {INPUT: tuple(sizes) if words else (draw(st.integers(1, 3)), *sizes)}
    nodes: list[Node] = []

    def append(op: Operation, *inputs: str) -> None:
        node = Node(f"n{len(nodes)}.{op.title.lower()}", op, inputs or (last(),))
        shapes[node.name] = node.output(shapes)
        nodes.append(node)

    def last() -> str:
        return nodes[-1].name if nodes else INPUT

    def together(shape: Shape) -> None:
        """The last result and an earlier one, added, multiplied or side by side."""
        kinds = {name: [Add, Mul, Concat] if other == shape else [Concat] for name, other in shapes.items()}
        fitting = [name for name, other in shapes.items() if other[1:] == shape[1:] and name != last()]
        if fitting and shape[0] <= MOST_CHANNELS:
            other = draw(st.sampled_from(fitting))
            append(draw(st.sampled_from(kinds[other]))(), *draw(st.permutations([other, last()])))

    def gate(channels: int) -> None:
        gated = last()
        append(GlobalAvgPool())
        append(pointwise(len(shapes[gated]) - 1, channels, channels))
        append(draw(st.sampled_from(ACTIVATIONS)))
        append(Mul(), gated, last())

    if words:
        append(Embedding(WORDS, 3, draw(st.sampled_from((None, 2)))))
    append(pointwise(len(sizes), shapes[last()][0], 4))
    for _ in range(draw(st.integers(1, 6))):
        shape, kind = shapes[last()], draw(st.integers(0, 7))
        if kind < 2:
            together(shape)
        elif kind == 2:
            gate(shape[0])
        elif kind == 3:
            append(draw(st.sampled_from((*ACTIVATIONS, PReLU(shape[0])))))
        else:
            append(draw(st.sampled_from(fitting_operations(shape, draw(st.sampled_from(CHANNELS)), mixing))))
    if draw(st.booleans()):
        append(GlobalAvgPool())
    append(draw(st.sampled_from((Flatten(), FlattenPlaces()))))
    if draw(st.booleans()):
        append(Linear(math.prod(shapes[last()]), 5, bias=draw(st.booleans())))
        append(draw(st.sampled_from((*ACTIVATIONS, PReLU(5), BatchNorm1d(5), *([LayerNorm((5,))] if mixing else [])))))
    append(Linear(math.prod(shapes[last()]), 3))
    return Graph(shapes[INPUT], tuple(nodes))


def pointwise(extents: int, channels: int, out: int) -> Operation:
    """A convolution of single cells."""
    return Conv2d(channels, out, (1, 1)) if extents == 2 else Conv1d(channels, out, 1)


def fitting_operations(shape: Shape, out: int, mixing: bool) -> list[Operation]:
    """Operations that take a result of this shape."""
    candidates = (of_planes(shape, out) if len(shape) == 3 else of_sequences(shape, out)) + at_positions(shape, out)
    if mixing:
        candidates += [
            LayerNorm(shape),
            LayerNorm(shape[:1]),
            *([GroupNorm(2, shape[0])] if shape[0] % 2 == 0 and len(shape) == 3 else []),
        ]
    return [op for op in candidates if takes(op, shape)]


def of_planes(shape: Shape, out: int) -> list[Operation]:
    channels, height, width = shape
    same = Conv2d(channels, channels, (3, 3), padding=(1, 1))
    candidates: list[Operation] = [
        same,
        Conv2d(channels, out, (3, 2), (2, 1), (1, 1), bias=False),
        Conv2d(channels, out, (2, 2), padding=(1, 1), dilation=(1, 2)),
        Conv2d(channels, 2 * channels, (3, 3), padding=(1, 1), groups=channels),
        ConvTranspose2d(channels, out, (2, 3), (1, 2), (0, 1), (0, 1), bias=False),
        BatchNorm2d(channels),
        ZeroPad2d((1, 0, 0, 2)),
        AdaptiveAvgPool2d((height, 1)),
    ]
    if channels % 2 == 0 and channels > 2:
        candidates += [Conv2d(channels, out, (1, 1), groups=2), Conv2d(channels, channels, (1, 1), groups=channels)]
        candidates.append(ConvTranspose2d(channels, out, (2, 2), groups=2))
    if min(height, width) > 2:
        candidates += [MaxPool2d((3, 2), (2, 1), (1, 0)), AvgPool2d((2, 3), (1, 2), (1, 1), count_include_pad=False)]
    if height * width <= 64:
        candidates.append(Upsample((1, 2)))
    return candidates


def of_sequences(shape: Shape, out: int) -> list[Operation]:
    channels, length = shape
    candidates: list[Operation] = [
        Conv1d(channels, channels, 3, padding=1),
        Conv1d(channels, out, 3, 2, 2, 2, bias=False),
        Conv1d(channels, 2 * channels, 3, padding=1, groups=channels),
        BatchNorm1d(channels),
    ]
    if length > 2:
        candidates += [MaxPool1d(3, 2, 1), AvgPool1d(2, 1, 1, count_include_pad=False)]
    return candidates


def at_positions(shape: Shape, out: int) -> list[Operation]:
    """Return operations of sequences, and of images with channels last."""
    channels, *positions = shape
    last = (*positions, channels)
    candidates: list[Operation] = [Linear(channels, out), Linear(channels, out, bias=False), AddParameter((channels,))]
    if min(positions) == 1:  # a parameter of one place is one of channels
        return candidates
    whole = [
        AddParameter(last, True, 1),
        MulParameter(shape, ones=1),
        MulParameter((channels, *(1 for _ in positions))),
    ]
    moved = (
        [Slice(1, positions[0] - 1), Reshape((1, *positions)), Upsample((1, 2))]
        if len(positions) == 1
        else [Permute((0, 2, 1))]
    )
    return [*candidates, *whole, *moved]


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
    x = x if graph.vocabulary is None else x.abs().floor() % WORDS
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
            parts = parts_of(axis, length)
            assert sum(size for _, size in parts) == length
            assert all(part is None or spec.groups[part.group] * part.repeat == size for part, size in parts)


@SETTINGS
@given(graphs())
def test_torch_gives_every_graph_back(graph) -> None:
    model = Model(graph, fresh(graph))
    back = from_torch(to_torch(model), torch.ones(2, *graph.input_shape))
    assert back.graph == graph
    assert all((back.params[name] == value).all() for name, value in model.params.items())


@SETTINGS
@given(graphs(mixing=False), st.sampled_from([0.3, 0.5, 0.8]), st.integers(0, 9))
def test_sub_model_equals_the_full_model_with_zeroed_rows(graph, keep, seed) -> None:
    """With the rows of inactive neurons at zero, their outputs are zero, so their columns cannot matter.

    Where an activation makes something of a 0, the columns are zero, too.
    """
    spec, params = ModelSpec.of(graph), fresh(graph)
    neurons = NeuronSet.draw(spec, keep, rng.stream(seed, rng.NEURONS))
    zeroed = {name: value.copy() for name, value in params.items()}
    axes = {
        node.full_name(part): (0, 1) if isinstance(node.op, ConvTranspose2d | Embedding | WithParameter) else (0,)
        for node in graph.nodes
        for part in node.op.parameters()
    }
    if any(isinstance(node.op, NOT_OF_ZERO) for node in graph.nodes):
        axes = dict.fromkeys(axes, (0, 1))
    for name, ids in neurons.blocks(spec).items():
        for axis in axes[name] if "running" not in name else ():
            if ids[axis] is not None:
                inactive = np.setdiff1d(np.arange(zeroed[name].shape[axis]), ids[axis])
                zeroed[name].swapaxes(0, axis)[inactive] = 0
    try:
        small = graph.sub(neurons)
    except GraphError as error:
        assert "expected equally many channels in each group" in str(error)
        return
    kept = sub_params(graph, params, neurons)
    assert sum(value.size for value in kept.values()) == neurons.count(spec, ("learn", "stat"))
    assert torch.allclose(forward(small, kept), forward(graph, zeroed), rtol=1e-9, atol=1e-9)
