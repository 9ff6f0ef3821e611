"""The neuron group along axis 0 of every result of a graph, found by following the graph from node to node.

The rules (docs/algorithms.md section 1.1):

1. Every convolution and Linear owns a group of its output channels or features. A following norm belongs to the group.
2. The group passes through operations that keep the shape, and through pooling. Flatten repeats a channel for its
   height * width features. FlattenPlaces repeats all channels at each position. A Linear layer at each position is a
   convolution of single cells.
3. A recurrent layer owns a group of its hidden units, each with all its gates. Self-attention owns a group of its
   heads. The layers that make queries, keys and values of an Attention own a group of its heads of keys and values. If
   other operations make them, the neurons before the Attention are always active.
4. An Embedding owns a group of its features, along axis 1 of its weight. All of its rows are active.
5. No group lies along the result where a Permute moves other things than channels to axis 0, or where an added or
   multiplied parameter has its channels on its third axis. The neurons of the input's group are then always active.
6. A depthwise convolution has the neurons of its input, each repeated by the channel multiplier.
7. Results that are summed or multiplied share one group, named after the earliest layer in it.
8. Results that are put one after another keep their groups, each along its part of the axis.
9. Some results belong to no group and are always active: the input and all outputs (the classes) of the graph, the
   input of a grouped convolution that is not depthwise, and whatever is summed with such an unrestricted result.
10. All uses of a shared parameter have one group along each axis. Groups that meet along an axis become one group. If
    one use has no group along an axis, the neurons of all uses are always active along this axis. No group lies along a
    computed parameter or its sources, because every value of a source may depend on all of them.

In a model with low-rank adapters, neurons without a trained weight are always active, and so are the neurons of a layer
that has an adapter. The ranks of the adapters are left, and neurons of other trained layers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from edgefl.models.graph import INPUT, Graph, Node
from edgefl.models.graph.operations import (
    AdapterSum,
    Add,
    Attention,
    Concat,
    Conv2d,
    ConvTranspose2d,
    Elementwise,
    Embedding,
    Flatten,
    FlattenPlaces,
    Linear,
    Mul,
    Permute,
    Recurrent,
    Reduce,
    Reshape,
    RMSNorm,
    Rotary,
    SelfAttention,
    Shape,
    WithParameter,
)
from edgefl.models.graph.planar import planar
from edgefl.models.graph.shared_parameters import parameter_uses
from edgefl.models.neurons.attention_heads import HeadRows, layers_of_heads
from edgefl.models.neurons.axes import Axis, AxisSpec, JoinedAxis, concatenated, groups_of, parts_of, repeat, repeated
from edgefl.models.neurons.parameter_axes import parameter_axes


def result_axes(graph: Graph) -> dict[str, Axis | None]:
    """Return the group along axis 0 of every result, by the result's name, including "input".

    The group is None if the whole axis is always active.
    """
    return axes_and_groups(graph)[0]


def axes_and_groups(graph: Graph) -> tuple[dict[str, Axis | None], dict[str, int]]:
    """Return the axes that `result_axes` gives, and the number of neurons of every group in node order."""
    groups = JoinedGroups()
    axes = _follow_axes(planar(graph), groups)
    _join_uses(planar(graph), axes, groups)
    if any(isinstance(node.op, AdapterSum) for node in graph.nodes):
        _free_frozen(planar(graph), axes, groups)
    return {name: groups.settled(axis) for name, axis in axes.items()}, groups.sizes()


def _follow_axes(graph: Graph, groups: JoinedGroups) -> dict[str, Axis | None]:
    """Return the group along axis 0 of every result as it is known at its node. `groups` collects later joins."""
    axes: dict[str, Axis | None] = {INPUT: None}
    heads = layers_of_heads(graph)
    for node in graph.nodes:
        if node.name in heads:
            axes[node.name] = _head_rows(heads[node.name], groups)
        elif isinstance(node.op, Attention | RMSNorm | Rotary):
            axes[node.name] = _axis_of_heads(node.op, axes[node.inputs[0]], graph.shapes[node.inputs[0]][0], groups)
        else:
            axes[node.name] = _result_axis(node, axes, graph.shapes, groups)
    for name in (graph.nodes[-1].name, *(each.result for each in graph.auxiliary)):
        groups.free(axes[name])
    return axes


def _join_uses(graph: Graph, axes: Mapping[str, Axis | None], groups: JoinedGroups) -> None:
    """Join the groups along the rows, and along the columns, of all uses of each shared parameter.

    The groups along computed parameters and their sources become always active.
    """
    whole = graph.roots.keys() | {root for roots in graph.roots.values() for root in roots}
    for name, uses in parameter_uses(graph.nodes).items():
        found = [parameter_axes(use.node.op, use.node, use.part, axes) for use in uses]
        for axis in (axis for axes_of_use in found for axis in axes_of_use if name in whole):
            groups.free(axis)
        for rows, cols in found[1:]:
            groups.join(found[0][0], rows)
            groups.join(found[0][1], cols)


def _free_frozen(graph: Graph, axes: Mapping[str, Axis | None], groups: JoinedGroups) -> None:
    """Make the neurons of groups without a trained parameter always active."""
    trained: set[str] = set()
    every: list[Axis | None] = []
    for name, uses in parameter_uses(graph.nodes).items():
        for use in uses:
            found = parameter_axes(use.node.op, use.node, use.part, axes)
            every += found
            if name not in graph.frozen:
                trained |= {group for axis in found for group in groups_of(groups.settled(axis))}
    for axis in every:
        groups.free_unless(axis, trained)


def _result_axis(
    node: Node, axes: Mapping[str, Axis | None], shapes: Mapping[str, Shape], groups: JoinedGroups
) -> Axis | None:
    op, source = node.op, axes[node.inputs[0]]
    if isinstance(op, Conv2d) and op.is_depthwise:
        return repeated(source, op.out_channels // op.in_channels)
    if isinstance(op, Conv2d | Linear | ConvTranspose2d):
        return _own_axis(node, source, groups)
    if isinstance(op, Recurrent):
        return groups.add(node.name, op.hidden_size)
    if isinstance(op, SelfAttention):
        return repeat(groups.add(node.name, op.num_heads), op.head_dim)
    if isinstance(op, Embedding):
        return groups.add(node.name, op.embedding_dim)
    if isinstance(op, Mul) and shapes[node.inputs[1]][0] != shapes[node.inputs[0]][0]:  # a gate for each place
        groups.free(axes[node.inputs[1]])
        return source
    if isinstance(op, AdapterSum):
        groups.free(source)
        groups.free(axes[node.inputs[1]])
        return None
    if isinstance(op, Elementwise):
        return _of_expression([(axes[name], shapes[name][0]) for name in node.inputs], groups)
    if isinstance(op, Reduce) and 0 in op.axes:
        groups.free(source)
        return None
    if isinstance(op, Add | Mul):
        return groups.join(source, axes[node.inputs[1]])
    if isinstance(op, Concat):
        return concatenated([parts_of(axes[name], shapes[name][0]) for name in node.inputs])
    if isinstance(op, Flatten | Reshape):
        return _reshaped(source, shapes[node.inputs[0]][0], shapes[node.name][0], groups)
    if isinstance(op, FlattenPlaces):
        channels = shapes[node.inputs[0]][0]
        return source and concatenated([parts_of(source, channels)] * (shapes[node.name][0] // channels))
    if (isinstance(op, Permute) and op.axes[0] != 0) or (isinstance(op, WithParameter) and _is_apart(op)):
        groups.free(source)
        return None
    return source


def _of_expression(inputs: list[tuple[Axis | None, int]], groups: JoinedGroups) -> Axis | None:
    """Return the axis of an expression: the joined axes of the inputs that have all channels. Others are free."""
    channels = max(count for _, count in inputs)
    whole = [axis for axis, count in inputs if count == channels]
    for axis, count in inputs:
        if count != channels:
            groups.free(axis)
    found = whole[0]
    for axis in whole[1:]:
        found = groups.join(found, axis)
    return found


def _head_rows(rows: HeadRows, groups: JoinedGroups) -> Axis | None:
    """Return the axis of a layer that makes queries, keys or values of the heads of an Attention."""
    own = groups.known(rows.group) or groups.add(rows.group, rows.heads)
    parts = tuple((repeat(own, each), rows.heads * each) for each in rows.parts)
    return parts[0][0] if len(parts) == 1 else JoinedAxis(parts)


def _axis_of_heads(
    op: Attention | RMSNorm | Rotary, source: Axis | None, channels: int, groups: JoinedGroups
) -> Axis | None:
    """Return the axis of a result whose channels are combined in runs, if no run has channels of several neurons."""
    if isinstance(op, Attention):
        parts = parts_of(source, channels)
        repeats = tuple((part.repeat, size) for part, size in parts if part is not None)
        wanted = tuple((each, op.kv_heads * each) for each in (op.shared, op.head_dim, op.head_dim))
        if repeats == wanted and len(set(groups_of(source))) == 1:
            return parts[0][0]
    elif isinstance(op, RMSNorm) and op.num_features == channels:
        return source
    else:
        size = op.num_features if isinstance(op, RMSNorm) else op.head_dim
        if isinstance(source, AxisSpec) and source.repeat % size == 0:
            return source
    groups.free(source)
    return None


def _own_axis(node: Node, source: Axis | None, groups: JoinedGroups) -> Axis | None:
    """Return the axis of a layer that owns neurons, and None for a grouped transposed convolution."""
    op = node.op
    assert isinstance(op, Conv2d | Linear | ConvTranspose2d)
    if not isinstance(op, Linear) and op.groups > 1:
        groups.free(source)
    if isinstance(op, ConvTranspose2d) and op.groups > 1:
        return None
    return groups.add(node.name, op.out_features if isinstance(op, Linear) else op.out_channels)


def _is_apart(op: WithParameter) -> bool:
    """Return whether the parameter has its channels on the third axis, which is not an axis of a block."""
    return op.channels_last and len(op.shape) > 2


def _reshaped(source: Axis | None, before: int, after: int, groups: JoinedGroups) -> Axis | None:
    """Return the axis of values in unchanged order along `after` indices instead of `before` indices."""
    if after % before == 0:
        return repeated(source, after // before)
    shrunk = source.repeat * after if isinstance(source, AxisSpec) and before % after == 0 else 1
    if isinstance(source, AxisSpec) and shrunk % before == 0:
        return AxisSpec(source.group, shrunk // before)
    groups.free(source)
    return None


def _sizes(axis: JoinedAxis) -> list[int]:
    return [size for _, size in axis.parts]


class JoinedGroups:
    """The neuron groups of a graph while the graph is followed from node to node, and several groups become one.

    This is union-find: each layer that owns neurons points towards the earliest layer of its group.
    """

    def __init__(self) -> None:
        self._size: dict[str, int] = {}
        self._parent: dict[str, str] = {}
        self._free: set[str] = set()  # roots of groups whose neurons turned out to be always active

    def add(self, name: str, size: int) -> AxisSpec:
        """Return the axis of a new group of `size` neurons, which is named after its layer."""
        self._size[name], self._parent[name] = size, name
        return AxisSpec(name)

    def known(self, name: str) -> AxisSpec | None:
        """Return the axis of a group that was added, or None."""
        return AxisSpec(name) if name in self._size else None

    def free(self, axis: Axis | None) -> None:
        """Make the neurons of the groups along `axis` always active."""
        self._free.update(map(self._root, groups_of(axis)))

    def free_unless(self, axis: Axis | None, kept: Collection[str]) -> None:
        """Make the neurons of the groups along `axis` always active, except of the groups with these final names."""
        self._free.update(root for root in map(self._root, groups_of(axis)) if root not in kept)

    def join(self, a: Axis | None, b: Axis | None) -> Axis | None:
        """Return the axis of two results that are combined value by value: one group for both, or one for each part.

        The axis is None (always active) if one of the axes is None. It is also None if the two axes have parts of
        different sizes or repeat their neurons differently.
        """
        if isinstance(a, JoinedAxis) and isinstance(b, JoinedAxis) and _sizes(a) == _sizes(b):
            joined = zip(a.parts, b.parts, strict=True)
            return JoinedAxis(tuple((self._join(one, other), size) for (one, size), (other, _) in joined))
        if isinstance(a, JoinedAxis) or isinstance(b, JoinedAxis):
            self.free(a)
            self.free(b)
            return None
        return self._join(a, b)

    def _join(self, a: AxisSpec | None, b: AxisSpec | None) -> AxisSpec | None:
        if a is None or b is None or a.repeat != b.repeat:
            self.free(a)
            self.free(b)
            return None
        order = list(self._size)
        first, second = sorted((self._root(a.group), self._root(b.group)), key=order.index)
        self._parent[second] = first
        if second in self._free:
            self._free.add(first)
        return AxisSpec(first, a.repeat)

    def settled(self, axis: Axis | None) -> Axis | None:
        """Return `axis` with the final names of its groups, or None if all of it is always active."""
        if not isinstance(axis, JoinedAxis):
            return self._settled(axis)
        parts = tuple((self._settled(part), size) for part, size in axis.parts)
        return JoinedAxis(parts) if any(part for part, _ in parts) else None

    def _settled(self, axis: AxisSpec | None) -> AxisSpec | None:
        if axis is None or self._root(axis.group) in self._free:
            return None
        return AxisSpec(self._root(axis.group), axis.repeat)

    def sizes(self) -> dict[str, int]:
        """Return the number of neurons of every group that is not always active, by the group's name, in node order."""
        return {name: size for name, size in self._size.items() if self._root(name) == name and name not in self._free}

    def _root(self, name: str) -> str:
        while self._parent[name] != name:
            name = self._parent[name]
        return name
