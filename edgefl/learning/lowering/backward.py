"""The lowering of the backward pass: one function per operation, from a table. Each function returns the parameter
gradients that it recorded.

Weight gradients exist for active blocks only. The gradient of a result is computed on the channels that
gradient_needs.py selects. The rest of its buffer is undefined and is never read into a result. A gradient is
overwritten in place where nothing else reads its buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from edgefl.learning.lowering import (
    activation,
    arrange,
    attention,
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
from edgefl.learning.lowering.channel_sets import count, is_empty
from edgefl.learning.lowering.chunked_head import ChunkedHead
from edgefl.learning.lowering.forward import average_window
from edgefl.learning.lowering.fusion import HALVING, FusedNormReLU
from edgefl.learning.lowering.gradients import (
    ActivationGradients,
    DeferredWeightGradient,
    Gradients,
    bias,
    trained_block,
    trained_part,
)
from edgefl.learning.lowering.growth import CONVOLUTION_ROWS, LINEAR_ROWS, rank, rank_tiles
from edgefl.learning.lowering.mask_zeroing import mask
from edgefl.learning.lowering.recompute import Replays
from edgefl.learning.lowering.recorder import Recorder
from edgefl.learning.lowering.schedule import Index, Tensor, TrainedBlock
from edgefl.learning.lowering.shared_gradients import SharedGradients
from edgefl.learning.lowering.turned_weight import input_gradient, turned_weight
from edgefl.models.graph import Node
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


def backward(
    recorder: Recorder,
    nodes: tuple[Node, ...],
    dlogits: Tensor | ChunkedHead,
    further: Mapping[str, Tensor] = MappingProxyType({}),
    replays: Replays | None = None,
) -> Iterator[Gradients]:
    """Record all nodes in reverse, and yield each node's parameter gradients when the gradient of its input is
    recorded. The gradient of a shared parameter comes with the last node that adds to it.

    dlogits  gradient of the output, or the gradients that the chunks of the last node have left
    further  gradients of auxiliary outputs, by result
    replays  parts of the forward pass that are recorded again before their nodes
    """
    output_grads, shared = ActivationGradients(recorder), SharedGradients(recorder)
    if isinstance(dlogits, Tensor):
        output_grads.give(nodes[-1].name, dlogits)
    for name, gradient in further.items():
        output_grads.give(name, gradient)
    for node in reversed(nodes):
        if replays is not None:
            replays.before(node)
        dy, found = output_grads.take(node.name), Gradients()
        if dy is not None:
            recorder.node = node.name
            found = _TABLE[type(node.op)](recorder, output_grads, node, dy)
        elif isinstance(dlogits, ChunkedHead) and node.name == dlogits.name:
            found = dlogits.gradients
            if dlogits.features is not None:
                output_grads.give(node.inputs[0], dlogits.features)
        trained = {name: block for name, block in found.items() if name in recorder.scope.active.blocks}
        complete = shared.completed(node, trained).items()
        gradients = {name: trained_part(recorder, name, block) for name, block in complete}
        _rank(recorder, gradients)
        _mask(recorder, gradients)
        yield gradients


def _rank(recorder: Recorder, gradients: Gradients) -> None:
    """Record the search through gradients that exist as a whole, such as the gradients of biases and norms."""
    for name, block in gradients.items():
        if name in recorder.scope.active.grown:
            assert isinstance(block, TrainedBlock)
            rank(recorder, name, block.values)


def _mask(recorder: Recorder, gradients: Gradients) -> None:
    """Record that gradients are 0 at coordinates that do not exist, for masked parameters that lie whole."""
    for name, block in gradients.items():
        if isinstance(block, TrainedBlock):
            mask(recorder, name, block.values)


def _conv(recorder: Recorder, output_grads: ActivationGradients, node: Node, dy: Tensor) -> Gradients:
    op, below = node.op, node.inputs[0]
    assert isinstance(op, Conv2d)
    gradients: Gradients = {}
    settings = (op.stride, op.padding, op.dilation, op.groups)
    if node.name in recorder.inputs:
        x, ids = recorder.inputs[node.name]
        ids = ids if op.groups == 1 else None

        def grad_weight(dw: Tensor, outs: Index) -> None:
            recorder.call("conv2d_grad_weight", x, dy, dw, *settings, outs, ids, op.in_channels)

        gradients |= _weight(recorder, node, dy, grad_weight, CONVOLUTION_ROWS)
    gradients |= bias(recorder, node, dy, op.bias)
    if recorder.needed(below):
        dx = recorder.like(recorder.read(below, node))
        outs, ins = recorder.channels_needed(node.name), recorder.channels_needed(below)
        if not _other_input(recorder, node, dy, dx):
            recorder.call("conv2d_grad_input", dy, recorder.param(node, "weight"), dx, *settings, outs, ins)
        output_grads.give(below, dx)
    return gradients


def _linear(recorder: Recorder, output_grads: ActivationGradients, node: Node, dy: Tensor) -> Gradients:
    op, below = node.op, node.inputs[0]
    assert isinstance(op, Linear)
    gradients: Gradients = {}
    if node.name in recorder.inputs:
        gradients |= _linear_weight(recorder, node, dy)
    gradients |= bias(recorder, node, dy, op.bias)
    if recorder.needed(below):
        dx = recorder.new(recorder.values[below].shape)
        outs, ins = recorder.channels_needed(node.name), recorder.channels_needed(below)
        ins = ins if count(ins, op.in_features) < op.in_features / 2 else None  # with more, all take no longer
        if not _other_input(recorder, node, dy, dx):
            recorder.call("linear_grad_input", dy, recorder.param(node, "weight"), dx, outs, ins)
        output_grads.give(below, dx)
    return gradients


def _linear_weight(recorder: Recorder, node: Node, dy: Tensor) -> Gradients:
    (x, ids), weight, active = recorder.inputs[node.name], node.full_name("weight"), recorder.scope.active
    if recorder.scope.defers(weight):
        return {weight: DeferredWeightGradient(*active.blocks[weight], x, ids, dy)}

    def grad_weight(dw: Tensor, outs: Index) -> None:
        recorder.call("linear_grad_weight", x, dy, dw, outs, ids)

    return _weight(recorder, node, dy, grad_weight, LINEAR_ROWS)


def _weight(
    recorder: Recorder, node: Node, dy: Tensor, grad_weight: Callable[[Tensor, Index], None], tile_rows: int
) -> Gradients:
    """Record the gradient of a layer's weight. Nothing is returned where it is only searched, tile by tile."""
    name = node.full_name("weight")
    if name in recorder.scope.active.grown and name not in recorder.scope.graph.collected:
        rank_tiles(recorder, name, tile_rows, grad_weight)
        return {}
    masked = recorder.scope.sparse.get(name)
    if masked:
        values = sparse.grad_weight(recorder, masked, recorder.inputs[node.name].values, dy)
        return {name: TrainedBlock(None, None, values, is_sparse=True)}
    dw = trained_block(recorder, node, "weight")
    grad_weight(dw.values, dw.rows)
    return {name: dw}


def _other_input(recorder: Recorder, node: Node, dy: Tensor, dx: Tensor) -> bool:
    """Record the gradient of a layer's input if the layer's weight exists as values alone, or is kept transposed.
    Return whether it is one of these.
    """
    masked, turned = recorder.scope.sparse.get(node.full_name("weight")), turned_weight(recorder, node)
    if masked:
        sparse.grad_input(recorder, masked, dy, dx)
    elif turned:
        input_gradient(recorder, turned, dy, dx)
    return bool(masked or turned)


def _norm_kernel(recorder: Recorder, norm: Node) -> tuple[str, tuple[object, ...]]:
    """Return the name of a normalisation's kernels, and the arguments that tell them which channels need a gradient."""
    if isinstance(norm.op, BatchNorm):
        return "batchnorm", (recorder.channels_needed(norm.name),)
    assert isinstance(norm.op, GroupNorm)
    return "groupnorm", (norm.op.num_groups, recorder.scope.active.groups[norm.name])


def _norm(recorder: Recorder, output_grads: ActivationGradients, node: Node, dy: Tensor) -> Gradients:
    if recorder.scope.graph.keeps_statistics(node):
        return kept_statistics.backward(recorder, output_grads, node, dy)
    weight, bias = trained_block(recorder, node, "weight"), trained_block(recorder, node, "bias")
    dx = output_grads.target(dy)
    if isinstance(node.op, GroupNorm) and dy.lanes > 1:
        group_norm.backward(recorder, node, dy, _statistics(recorder, node), dx, (weight, bias), relu=False)
        output_grads.give(node.inputs[0], dx)
        return {} if is_empty(weight.rows) else {node.full_name("weight"): weight, node.full_name("bias"): bias}
    xhat, inv_std = recorder.extras[node.name, "xhat"], recorder.extras[node.name, "inv_std"]
    outputs = (dx.channels, weight.values, bias.values)
    kernel, needed = _norm_kernel(recorder, node)
    read = (dy.channels, xhat.channels, recorder.param(node, "weight"), inv_std)
    recorder.call(f"{kernel}_backward", *read, *outputs, *needed, weight.rows)
    output_grads.give(node.inputs[0], dx)
    return {} if is_empty(weight.rows) else {node.full_name("weight"): weight, node.full_name("bias"): bias}


def _statistics(recorder: Recorder, node: Node) -> tuple[Tensor, Tensor, Tensor]:
    """Return what a normalisation saved: x, mean and inverse deviation."""
    x, mean, inv_std = (recorder.extras[node.name, what] for what in ("x", "mean", "inv_std"))
    return x, mean, inv_std


def _norm_relu(recorder: Recorder, output_grads: ActivationGradients, node: Node, dy: Tensor) -> Gradients:
    assert isinstance(node.op, FusedNormReLU)
    norm = node.op.norm
    weight, bias = trained_block(recorder, norm, "weight"), trained_block(recorder, norm, "bias")
    saved = x, mean, inv_std = _statistics(recorder, node)
    dx = recorder.extras.get((node.name, "dx"))
    dx = recorder.like(x) if dx is None else dx
    if node.op.is_pooled and x.lanes > 1:
        dy = _unpooled(recorder, node, dy, recorder.like(x), HALVING)
    if isinstance(norm.op, GroupNorm) and x.lanes > 1:
        group_norm.backward(recorder, norm, dy, saved, dx, (weight, bias), relu=True)
        output_grads.give(node.inputs[0], dx)
        return {} if is_empty(weight.rows) else {norm.full_name("weight"): weight, norm.full_name("bias"): bias}
    read = (dy.channels, x.channels, recorder.param(norm, "weight"), recorder.param(norm, "bias"))
    outputs = (dx.channels, weight.values, bias.values)
    kernel, needed = _norm_kernel(recorder, norm)
    kind = (node.op.is_relu6,) if isinstance(norm.op, BatchNorm) else ()
    recorder.call(f"{kernel}_relu_backward", *read, mean, inv_std, *outputs, *needed, weight.rows, *kind)
    output_grads.give(node.inputs[0], dx)
    return {} if is_empty(weight.rows) else {norm.full_name("weight"): weight, norm.full_name("bias"): bias}


def _maxpool(recorder: Recorder, output_grads: ActivationGradients, node: Node, dy: Tensor) -> Gradients:
    op, below = node.op, node.inputs[0]
    assert isinstance(op, MaxPool2d)
    dx = recorder.new(recorder.values[below].shape, lanes=dy.lanes)
    if dy.lanes > 1:
        _unpooled(recorder, node, dy, dx, op)
    else:
        window = (op.kernel_size, op.stride, op.padding)
        codes, channels = recorder.extras[node.name, "codes"], recorder.channels_needed(below)
        recorder.call("maxpool_backward", dy, codes, dx, *window, channels)
    output_grads.give(below, dx)
    return {}


def _unpooled(recorder: Recorder, node: Node, dy: Tensor, dx: Tensor, op: MaxPool2d) -> Tensor:
    """Record the gradient of a pool's input, for images that lie side by side, and return it."""
    codes, window = recorder.extras[node.name, "codes"], (op.kernel_size, op.stride, op.padding)
    recorder.call("maxpool_lanes_backward", dy.words, codes, dx.words, *window)
    return dx


def _avgpool(recorder: Recorder, output_grads: ActivationGradients, node: Node, dy: Tensor) -> Gradients:
    op, below = average_window(recorder, node), node.inputs[0]
    dx, channels = recorder.new(recorder.values[below].shape), recorder.channels_needed(below)
    if op is None:
        recorder.call("adaptive_avgpool_backward", dy, dx, channels)
    else:
        window = (op.kernel_size, op.stride, op.padding, op.count_include_pad)
        recorder.call("avgpool_backward", dy, dx, *window, channels)
    output_grads.give(below, dx)
    return {}


_TABLE: dict[type[Operation], Callable[[Recorder, ActivationGradients, Node, Tensor], Gradients]] = {
    Conv2d: _conv,
    Linear: _linear,
    BatchNorm2d: _norm,
    BatchNorm1d: _norm,
    GroupNorm: _norm,
    FusedNormReLU: _norm_relu,
    MaxPool2d: _maxpool,
    AvgPool2d: _avgpool,
    GlobalAvgPool: _avgpool,
    AdaptiveAvgPool2d: _avgpool,
}  # the functions of other files follow
_TABLE |= activation.BACKWARD | arrange.BACKWARD | dropout.BACKWARD | layer_norm.BACKWARD | transposed.BACKWARD
_TABLE |= attention.BACKWARD | parameter.BACKWARD | recurrent.BACKWARD | elementwise.BACKWARD | resample.BACKWARD
_TABLE |= training_alone.BACKWARD | sdpa.BACKWARD | rms_norm.BACKWARD | rotary.BACKWARD
