"""The lowering of the forward pass: one function per operation, from a table. It saves only what the backward pass will
read.

A node runs in place where nothing reads its input afterwards. A layer saves the active channels of its input, copied at
the layer. It saves the whole input where all channels are active, or where lower.py found that this takes no more
memory. A ReLU or LeakyReLU saves one bit per value, and a pool one byte per pooled value. A normalisation saves the
normalised values. A normalisation with ReLU saves its input alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from edgefl.learning.lowering import (
    activation,
    arrange,
    attention,
    computed,
    dropout,
    elementwise,
    group_norm,
    kept_statistics,
    layer_norm,
    parameter,
    recurrent,
    resample,
    rms_norm,
    rotary,
    sdpa,
    sparse,
    training_alone,
    transposed,
)
from edgefl.learning.lowering.fusion import HALVING, FusedNormReLU
from edgefl.learning.lowering.recorder import Readers, Recorder
from edgefl.learning.lowering.saved_inputs import save_input, weight_and_bias
from edgefl.learning.lowering.schedule import Param, Slot, Tensor
from edgefl.learning.lowering.turned_weight import forward as product_of_turned
from edgefl.learning.lowering.turned_weight import turned_weight
from edgefl.models.graph import INPUT, Node
from edgefl.models.graph.operations import (
    AdaptiveAvgPool2d,
    AvgPool2d,
    BatchNorm,
    BatchNorm1d,
    BatchNorm2d,
    Conv2d,
    GlobalAvgPool,
    GroupNorm,
    Linear,
    MaxPool2d,
    Operation,
)


def forward(recorder: Recorder, nodes: tuple[Node, ...], readers: Readers) -> Tensor:
    """Record the gathering of the batch and all nodes. Return the result of the last node, or the input
    without nodes.
    """
    scope = recorder.scope
    x = recorder.new((scope.batch, *scope.graph.input_shape))
    recorder.call("gather_rows", Slot("x"), Slot("index"), Slot("scale"), Slot("shift"), x)
    recorder.values[INPUT] = x
    for _ in forward_nodes(recorder, nodes, readers):
        pass
    return recorder.values[nodes[-1].name if nodes else INPUT]


def forward_nodes(recorder: Recorder, nodes: tuple[Node, ...], readers: Readers) -> Iterator[Node]:
    """Record these nodes in their order, and yield each node when its result is recorded."""
    for node in nodes:
        recorder.node = node.name
        computed.prepare(recorder, node)
        recorder.values[node.name] = _TABLE[type(node.op)](recorder, readers, node)
        yield node


def _conv(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    op, x, y = node.op, recorder.source(node), recorder.result(node)
    assert isinstance(op, Conv2d)
    weight, bias = weight_and_bias(recorder, node, op.bias)
    masked, turned = recorder.scope.sparse.get(node.full_name("weight")), turned_weight(recorder, node)
    if masked:
        sparse.forward(recorder, masked, x, bias, y)
    elif turned:
        product_of_turned(recorder, turned, x, bias, y)
    else:
        recorder.call("conv2d_forward", x, weight, bias, y, op.stride, op.padding, op.dilation, op.groups)
    save_input(recorder, readers, node, x)
    return y


def _linear(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    op, x, y = node.op, recorder.source(node), recorder.result(node)
    assert isinstance(op, Linear)
    weight, bias = weight_and_bias(recorder, node, op.bias)
    masked, turned = recorder.scope.sparse.get(node.full_name("weight")), turned_weight(recorder, node)
    if masked:
        sparse.forward(recorder, masked, x, bias, y)
    elif turned:
        product_of_turned(recorder, turned, x, bias, y)
    else:
        recorder.call("linear_forward", x, weight, bias, y)
    save_input(recorder, readers, node, x)
    return y


def _batchnorm(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    op, x = node.op, recorder.source(node)
    assert isinstance(op, BatchNorm)
    if recorder.scope.trains and recorder.scope.graph.keeps_statistics(node):
        return kept_statistics.forward(recorder, readers, node)
    free = readers.is_free(node.inputs[0], node)
    params = [recorder.param(node, "weight"), recorder.param(node, "bias"), *_running_statistics(recorder, node)]
    if not recorder.scope.trains and op.track_running_stats:
        y = x if free else recorder.result(node)
        recorder.call("batchnorm_eval", x.channels, *params, y.channels, op.eps)
        return y
    y, xhat = recorder.result(node), x if free else recorder.result(node)
    inv_std = recorder.new((op.num_features,))
    outputs = (y.channels, xhat.channels, inv_std)
    recorder.call("batchnorm_forward", x.channels, *params, *outputs, op.eps, op.momentum)
    recorder.extras |= {(node.name, "xhat"): xhat, (node.name, "inv_std"): inv_std}
    return y


def _running_statistics(recorder: Recorder, node: Node) -> tuple[Param | Tensor, Param | Tensor]:
    """Return the running statistics of a BatchNorm, or buffers that nothing reads if it has no running statistics."""
    assert isinstance(node.op, BatchNorm)
    if node.op.track_running_stats:
        return recorder.param(node, "running_mean"), recorder.param(node, "running_var")
    unread = recorder.new((node.op.num_features,)), recorder.new((node.op.num_features,))
    for buffer in unread:
        recorder.call("fill_zero", buffer)
    return unread


def _groupnorm(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    op, x = node.op, recorder.source(node)
    assert isinstance(op, GroupNorm)
    if x.lanes > 1:
        return _groupnorm_lanes(recorder, readers, node, x)
    free = readers.is_free(node.inputs[0], node)
    inv_std = recorder.new((recorder.scope.batch, op.num_groups))
    if recorder.needed(node.name):
        y, xhat = recorder.result(node), x if free else recorder.result(node)
        recorder.extras |= {(node.name, "xhat"): xhat, (node.name, "inv_std"): inv_std}
    else:
        y, xhat = x if free else recorder.result(node), None
    weight, bias = recorder.param(node, "weight"), recorder.param(node, "bias")
    recorder.call("groupnorm_forward", x, weight, bias, y, xhat, inv_std, op.num_groups, op.eps)
    return y


def _groupnorm_lanes(recorder: Recorder, readers: Readers, node: Node, x: Tensor) -> Tensor:
    """Record a GroupNorm of images that lie side by side. It saves x for the backward pass."""
    y = x if readers.is_free(node.inputs[0], node) else recorder.result(node)
    mean, inv_std = group_norm.forward(recorder, node, x, y, relu=False)
    recorder.extras |= {(node.name, "x"): x, (node.name, "mean"): mean, (node.name, "inv_std"): inv_std}
    return y


def _norm_relu(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    """Record a normalisation with ReLU. It saves x, which its gradient may overwrite if nothing else reads x."""
    assert isinstance(node.op, FusedNormReLU)
    norm, x, free = node.op.norm, recorder.source(node), readers.is_sole(node.inputs[0])
    over = (free or readers.is_free(node.inputs[0], node)) and not recorder.needed(node.name)
    y = x if over and not node.op.is_pooled else recorder.result(node)
    if node.op.is_pooled and x.lanes > 1:
        whole = x if over else recorder.like(x)
        _normalise(recorder, node, norm, x, whole)
        _pool_words(recorder, node, whole, y, HALVING)
    else:
        _normalise(recorder, node, norm, x, y)
    if free:
        recorder.extras[node.name, "dx"] = x
    return y


def _normalise(recorder: Recorder, node: Node, norm: Node, x: Tensor, y: Tensor) -> None:
    """Record y, with ReLU, and what is saved. A batch norm with running statistics saves nothing."""
    weight, bias = recorder.param(norm, "weight"), recorder.param(norm, "bias")
    if isinstance(norm.op, GroupNorm) and x.lanes > 1:
        mean, inv_std = group_norm.forward(recorder, norm, x, y, relu=True)
    elif isinstance(norm.op, GroupNorm):
        mean, inv_std = (recorder.new((recorder.scope.batch, norm.op.num_groups)) for _ in range(2))
        recorder.call("groupnorm_relu_forward", x, weight, bias, y, mean, inv_std, norm.op.num_groups, norm.op.eps)
    else:
        assert isinstance(norm.op, BatchNorm)
        running, tracks = _running_statistics(recorder, norm), norm.op.track_running_stats
        if tracks and (not recorder.scope.trains or recorder.scope.graph.keeps_statistics(norm)):
            given = (x.channels, weight, bias, *running)
            recorder.call("batchnorm_relu_eval", *given, y.channels, norm.op.eps, _is_relu6(node))
            return
        mean, inv_std = (recorder.new((norm.op.num_features,)) for _ in range(2))
        settings = norm.op.eps, norm.op.momentum, _is_relu6(node)
        outputs = (y.channels, mean, inv_std)
        recorder.call("batchnorm_relu_forward", x.channels, weight, bias, *running, *outputs, *settings)
    recorder.extras |= {(node.name, "x"): x, (node.name, "mean"): mean, (node.name, "inv_std"): inv_std}


def _is_relu6(node: Node) -> bool:
    assert isinstance(node.op, FusedNormReLU)
    return node.op.is_relu6


def _maxpool(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    op, x, y = node.op, recorder.source(node), recorder.result(node)
    assert isinstance(op, MaxPool2d)
    if y.lanes > 1:
        _pool_words(recorder, node, x, y, op)
    else:
        recorder.call("maxpool_forward", x, y, _codes(recorder, node, y), op.kernel_size, op.stride, op.padding)
    return y


def _pool_words(recorder: Recorder, node: Node, x: Tensor, y: Tensor, op: MaxPool2d) -> None:
    window = (op.kernel_size, op.stride, op.padding)
    recorder.call("maxpool_lanes_forward", x.words, y.words, _codes(recorder, node, y), *window)


def _codes(recorder: Recorder, node: Node, y: Tensor) -> Tensor | None:
    """Return a new buffer with a byte for each value, or None where the backward pass does not read it."""
    if not recorder.needed(node.name):
        return None
    codes = recorder.new(y.shape, "byte")
    recorder.extras[node.name, "codes"] = codes
    return codes


def average_window(recorder: Recorder, node: Node) -> AvgPool2d | None:
    """Return the averaging window of the node, or None if its windows differ.

    A global average is one window over the whole plane.
    """
    if isinstance(node.op, AvgPool2d):
        return node.op
    shape = recorder.scope.graph.shapes[node.inputs[0]]
    if isinstance(node.op, AdaptiveAvgPool2d):
        return node.op.window(shape)
    _, height, width = shape
    return AvgPool2d((height, width), (height, width))


def _avgpool(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    op, y = average_window(recorder, node), recorder.result(node)
    if op is None:
        recorder.call("adaptive_avgpool_forward", recorder.source(node), y)
        return y
    arguments = (op.kernel_size, op.stride, op.padding, op.count_include_pad)
    recorder.call("avgpool_forward", recorder.source(node), y, *arguments)
    return y


_TABLE: dict[type[Operation], Callable[[Recorder, Readers, Node], Tensor]] = {
    Conv2d: _conv,
    Linear: _linear,
    BatchNorm2d: _batchnorm,
    BatchNorm1d: _batchnorm,
    GroupNorm: _groupnorm,
    FusedNormReLU: _norm_relu,
    MaxPool2d: _maxpool,
    AvgPool2d: _avgpool,
    GlobalAvgPool: _avgpool,
    AdaptiveAvgPool2d: _avgpool,
}
_TABLE |= activation.FORWARD | arrange.FORWARD | dropout.FORWARD | layer_norm.FORWARD | transposed.FORWARD
_TABLE |= attention.FORWARD | parameter.FORWARD | recurrent.FORWARD | elementwise.FORWARD | resample.FORWARD
_TABLE |= training_alone.FORWARD | sdpa.FORWARD | rms_norm.FORWARD | rotary.FORWARD
