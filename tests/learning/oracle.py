"""torch in float64 as the oracle: it runs a Graph with torch's operations, and differentiates with autograd. Tests
only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict

import numpy as np
import torch
from torch.nn import functional as F  # noqa: N812

from edgefl.kernels.reference.dropout import words
from edgefl.learning import SGD, AdamW, Samples
from edgefl.learning.batches import Keyed
from edgefl.learning.fit_options import Pull
from edgefl.learning.losses import L1, BinaryCrossEntropy, CrossEntropy, Huber, Loss
from edgefl.learning.optimizers import Optimizer
from edgefl.models.graph import INPUT, Graph, Node, Params
from edgefl.models.graph.operations import (
    RNN,
    Add,
    AddParameter,
    AnyDropout,
    Attention,
    BatchNorm,
    Concat,
    Conv1d,
    Conv2d,
    ConvTranspose2d,
    Dropout,
    Elementwise,
    Embedding,
    FlattenPlaces,
    Flip,
    GlobalAvgPool,
    GroupNorm,
    Hardsigmoid,
    InputPart,
    Interpolate,
    LayerNorm,
    Linear,
    Mul,
    Permute,
    PReLU,
    Recurrent,
    Reduce,
    Reshape,
    RMSNorm,
    Rotary,
    SelfAttention,
    Slice,
    StochasticDepth,
    Upsample,
    WithParameter,
)

torch.set_num_threads(1)  # the models are tiny

Tensors = dict[str, torch.Tensor]
Blocks = Mapping[str, tuple[np.ndarray | None, np.ndarray | None] | np.ndarray]
"""By parameter its rows and columns, or booleans of its shape."""


def to_torch(params: Mapping[str, np.ndarray], dtype: torch.dtype = torch.float64) -> Tensors:
    """Return parameters as tensors. The learnable ones ask for gradients."""
    tensors = {name: torch.tensor(np.asarray(value), dtype=dtype) for name, value in params.items()}
    for name, value in tensors.items():
        value.requires_grad_("running_" not in name and not name.endswith((".cos", ".sin")))
    return tensors


def logits(
    graph: Graph,
    params: Tensors,
    x: torch.Tensor,
    training: bool,
    at_neurons: Callable | None = None,
    dropout: Keyed | None = None,
) -> torch.Tensor:
    """Return the graph's output.

    `at_neurons(node, y)` may replace the result of every convolution and Linear, queries, keys and values of attention,
    and the states of a recurrent layer after each step. Dropout is at the position `dropout`, or there is no dropout.
    """
    values, params = {INPUT: x}, _with_computed(graph, params)
    for number, node in enumerate(graph.nodes):
        if isinstance(node.op, Recurrent | SelfAttention):
            run = _recur if isinstance(node.op, Recurrent) else _attend
            values[node.name] = run(node, params, values[node.inputs[0]], at_neurons)
            continue
        if isinstance(node.op, Attention):
            values[node.name] = _attend_given(node, number, params, values[node.inputs[0]], dropout)
            continue
        y = _run(node, params, [values[name] for name in node.inputs], training)
        if dropout and isinstance(node.op, AnyDropout):
            y = y * torch.tensor(kept(node.op, number, tuple(y.shape), dropout), dtype=y.dtype)
        if at_neurons and isinstance(node.op, Conv1d | Conv2d | ConvTranspose2d | Linear):
            y = at_neurons(node, y)
        values[node.name] = y
    found = values[graph.nodes[-1].name]
    return found.flatten(1) if math.prod(found.shape[2:]) == 1 else found


def _with_computed(graph: Graph, params: Tensors) -> Tensors:
    """Return the parameters together with the computed ones, by torch's own functions."""
    run: dict[str, Callable] = {
        "WeightNorm": lambda op, g, v: torch._weight_norm(v, g, 0),
        "MatrixProduct": lambda op, a, b: torch.einsum("ij,jk->ik", a, b),
        "ParameterSum": lambda op, a, b: torch.add(a, b),
        "ParameterProduct": lambda op, a, b: torch.mul(a, b),
        "ScaledParameter": lambda op, a: torch.mul(a, op.factor),
        "TransposedMatrix": lambda op, a: torch.transpose(a, 0, 1),
        "ExchangedAxes": lambda op, a: a.transpose(1, 2),
        "ReshapedParameter": lambda op, a: a.reshape(op.shape),
        "ParameterRows": lambda op, a: torch.narrow(a, 0, op.start, op.length),
        "ParameterExpression": lambda op, *parts: _expression(op.expression, list(parts)),
        "RowsAtPlaces": lambda op, table, places: torch.index_select(table, 0, places.long()).T,
        "StackedParameters": lambda op, *parts: torch.concat(parts),
    }
    found = dict(params)
    for each in graph.computed:
        found[each.name] = run[each.op.title](each.op, *(found[name] for name in each.sources))
    return found


def kept(op: AnyDropout, number: int, shape: tuple[int, ...], position: Keyed) -> np.ndarray:
    """Return the factors of the values of node `number` in a step: 0 or 1 / (1 - p), for each value or for whole
    planes.
    """
    if isinstance(op, StochasticDepth):
        shape = (shape[0], 1, *shape[2:])
    inner = shape[2:] if isinstance(op, Dropout) else tuple(1 for _ in shape[2:])
    state = (position.key, position.step, 0)
    found = words(np.array(state, object), number, shape[0], shape[1] * math.prod(inner))
    return np.where(found >= round(op.p * 2**32), 1 / (1 - op.p), 0.0).reshape(shape[0], shape[1], *inner)


def _run(node: Node, params: Tensors, inputs: list[torch.Tensor], training: bool) -> torch.Tensor:
    op, x = node.op, inputs[0]
    weight, bias = params.get(node.full_name("weight")), params.get(node.full_name("bias"))
    if isinstance(op, Conv2d):
        return F.conv2d(x, weight, bias, op.stride, op.padding, op.dilation, op.groups)
    if isinstance(op, Linear):
        return F.linear(x.movedim(1, -1), weight, bias).movedim(-1, 1)
    if isinstance(op, Conv1d):
        return F.conv1d(x, weight, bias, op.stride, op.padding, op.dilation, op.groups)
    if isinstance(op, ConvTranspose2d):
        settings = (op.stride, op.padding, op.output_padding, op.groups, op.dilation)
        return F.conv_transpose2d(x, weight, bias, *settings)
    if isinstance(op, LayerNorm) and len(op.normalized_shape) == 1:
        return F.layer_norm(x.movedim(1, -1), op.normalized_shape, weight, bias, op.eps).movedim(-1, 1)
    if isinstance(op, Embedding):
        return F.embedding(x.long(), weight, op.padding_idx).movedim(-1, 1)
    if isinstance(op, WithParameter):
        value = (
            params[node.full_name("")]
            if len(op.shape) > 1
            else params[node.full_name("")].view(-1, *[1] * (x.dim() - 2))
        )
        value = value.movedim(-1, 0) if op.channels_last else value
        return x + value if isinstance(op, AddParameter) else x * value
    if isinstance(op, Reshape):
        return x.reshape(len(x), -1, *op.places)
    if isinstance(op, Permute):
        if x.requires_grad:  # torch's batch norm has wrong gradients of its bias for signals that are permuted views
            x.register_hook(torch.Tensor.contiguous)
        return x.permute(0, *(axis + 1 for axis in op.axes))
    if isinstance(op, FlattenPlaces):  # a moved mean spoils torch 2.13's batch norm (test_oracle.py)
        return x.flatten(1) if x.shape[2:].numel() == 1 else x.movedim(1, -1).flatten(1)
    if isinstance(op, InputPart):
        return torch.narrow(x, 1, op.start, math.prod(op.shape)).reshape(len(x), *op.shape)
    if isinstance(op, Slice):
        return x[:, :, op.start : op.start + op.length]
    if isinstance(op, LayerNorm):
        return F.layer_norm(x, op.normalized_shape, weight, bias, op.eps)
    if isinstance(op, PReLU):
        return F.prelu(x, weight)
    if isinstance(op, Mul):
        return x * inputs[1]
    if isinstance(op, Elementwise):
        return _expression(op.expression, inputs)
    if isinstance(op, Reduce):
        run = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax, "min": torch.amin}[op.kind]
        return run(x, [axis + 1 for axis in op.axes], keepdim=True)
    if isinstance(op, Concat):
        return torch.cat(inputs, 1)
    if isinstance(op, Hardsigmoid):
        return (x / 6 + 0.5).clamp(0, 1)  # torch's own multiplies by 1/6 in float32, going back
    if isinstance(op, Upsample):
        return F.interpolate(x, scale_factor=op.scale_factor[4 - x.dim() :], mode="nearest")
    if isinstance(op, Interpolate):
        mode, size = ("linear", op.size[1:]) if x.dim() == 3 else ("bilinear", op.size)
        return F.interpolate(x, size, mode=mode, align_corners=op.align_corners)
    if isinstance(op, Flip):
        return x.flip(-1)
    if isinstance(op, BatchNorm):
        stats = params.get(node.full_name("running_mean")), params.get(node.full_name("running_var"))
        return F.batch_norm(x, *stats, weight, bias, training or not op.track_running_stats, op.momentum, op.eps)
    if isinstance(op, GroupNorm):
        return F.group_norm(x, op.num_groups, weight, bias, op.eps)
    if isinstance(op, GlobalAvgPool):
        return x.mean(tuple(range(2, x.ndim)), keepdim=True)
    if isinstance(op, Add):
        return x + inputs[1]
    if isinstance(op, RMSNorm):
        runs = x.unflatten(1, (-1, op.num_features)).movedim(2, -1)
        return F.rms_norm(runs, (op.num_features,), weight + op.offset, op.eps).movedim(-1, 2).flatten(1, 2)
    if isinstance(op, Rotary):
        cos, sin = (params[node.full_name(name)] for name in ("cos", "sin"))
        runs = x.unflatten(1, (-1, op.head_dim))
        first, second = runs.chunk(2, 2)
        return (runs * cos + torch.cat((-second, first), 2) * sin).flatten(1, 2)
    if isinstance(op, AnyDropout):
        return x  # see `kept`
    return getattr(torch.nn, op.title)(**asdict(op))(
        x
    )  # what an operation means is what torch's class of its name does


def _expression(text: str, inputs: list[torch.Tensor]) -> torch.Tensor:
    """Run the text as Python with torch's functions."""

    def of_tensors(function: Callable) -> Callable:
        return lambda *parts: function(*(torch.as_tensor(part, dtype=inputs[0].dtype) for part in parts))

    names = ("exp", "log", "sqrt", "sin", "cos", "abs", "minimum", "maximum")
    functions = {name: of_tensors(getattr(torch, name)) for name in names}
    functions["where"] = lambda test, *parts: torch.where(
        test, *(torch.as_tensor(each, dtype=inputs[0].dtype) for each in parts)
    )
    found = eval(text, {"__builtins__": {}}, {**functions, **dict(zip("abcd", inputs, strict=False))})
    return found.to(inputs[0].dtype)


def _recur(node: Node, params: Tensors, x: torch.Tensor, at_neurons: Callable | None) -> torch.Tensor:
    """Run torch's own layer, step by step where something happens at its neurons."""
    op, lstm = node.op, node.op.title == "LSTM"
    weights = [params[node.full_name(name)] for name in op.parameters()]
    state = x.new_zeros(1, len(x), op.hidden_size)
    carried, run = ((state, state), torch.lstm) if lstm else (state, torch.gru)
    if isinstance(op, RNN):
        run = torch.rnn_relu if op.relu else torch.rnn_tanh
    settings, x = (op.bias, 1, 0.0, True, False, True), x.transpose(1, 2)
    if not at_neurons:
        return run(x, carried, weights, *settings)[0].transpose(1, 2)
    results = []
    for step in range(x.shape[1]):
        y, *carried = run(x[:, step : step + 1], carried, weights, *settings)
        results.append(at_neurons(node, y.transpose(1, 2)))
        state = results[-1].permute(2, 0, 1)
        carried = (state, at_neurons(node, carried[1].permute(1, 2, 0)).permute(2, 0, 1)) if lstm else state
    return torch.cat(results, 2)


def _attend(node: Node, params: Tensors, x: torch.Tensor, at_neurons: Callable | None) -> torch.Tensor:
    op, bias = node.op, params.get(node.full_name("in_proj_bias"))
    qkv = F.linear(x.transpose(1, 2), params[node.full_name("in_proj_weight")], bias).transpose(1, 2)
    qkv = at_neurons(node, qkv) if at_neurons else qkv
    heads = (part.unflatten(1, (op.num_heads, op.head_dim)).transpose(2, 3) for part in qkv.chunk(3, 1))
    return F.scaled_dot_product_attention(*heads, is_causal=op.causal).transpose(2, 3).flatten(1, 2)


def _attend_given(node: Node, number: int, params: Tensors, x: torch.Tensor, dropout: Keyed | None) -> torch.Tensor:
    op, size = node.op, node.op.head_dim
    q, k, v = (
        part.unflatten(1, (-1, size)) for part in x.split([op.features, size * op.kv_heads, size * op.kv_heads], 1)
    )
    k, v = (part.repeat_interleave(op.num_heads // op.kv_heads, 1) for part in (k, v))
    scores = torch.einsum("bhcj,bhci->bhji", k, q) * op.scale
    if op.bias:
        scores = scores + params[node.full_name("bias")].repeat_interleave(op.num_heads // op.bias[0], 0)
    places = torch.arange(x.shape[2])
    behind = places[None] - places[:, None]  # query minus key
    left_out = (behind < 0) & op.causal | (behind >= (op.window or len(places)))
    shares = scores.masked_fill(left_out, -torch.inf).softmax(2)
    if dropout and op.p:
        shares = shares * torch.tensor(kept(Dropout(op.p), number, tuple(shares.shape), dropout), dtype=x.dtype)
    return torch.einsum("bhcj,bhji->bhci", v, shares).flatten(1, 2)


def gradients(
    graph: Graph,
    params: Params,
    x: np.ndarray,
    y: np.ndarray,
    at_neurons: Callable | None = None,
    dropout: Keyed | None = None,
) -> Params:
    """Dense gradient of the mean loss of one batch, in training mode."""
    tensors = to_torch(params)
    outputs = logits(graph, tensors, torch.tensor(np.asarray(x, np.float64)), True, at_neurons, dropout)
    F.cross_entropy(outputs, torch.tensor(y, dtype=torch.int64)).backward()
    return {name: value.grad.numpy() for name, value in tensors.items() if value.grad is not None}


def block(dense: np.ndarray, rows: np.ndarray | None, cols: np.ndarray | None) -> np.ndarray:
    """The rows and columns of a dense gradient."""
    part = dense if rows is None else dense[rows]
    return part if cols is None else part[:, cols]


def train(
    graph: Graph,
    params: Mapping[str, np.ndarray],
    samples: Samples,
    batches: Sequence[np.ndarray],
    sgd: Optimizer,
    blocks: Blocks | None = None,
    pull: Pull | None = None,
    linear: Mapping[str, np.ndarray] | None = None,
    at_neurons: Callable | None = None,
    dtype: torch.dtype = torch.float64,
    dropout: Keyed | None = None,
) -> tuple[Params, float]:
    """Parameters after one step of torch's optimizer per batch, and the examples times their mean loss.

    With `blocks`, dense gradients are masked before the norm is clipped and frozen coordinates are put back afterwards.
    The gradients of `pull` and `linear` are added after the clip, like weight decay.
    """
    tensors = to_torch(params, dtype)
    learned = {name: value for name, value in tensors.items() if value.requires_grad}
    chosen = blocks or dict.fromkeys(learned, (None, None))
    masks = {name: torch.tensor(_mask_of(value.shape, chosen[name])) for name, value in learned.items()}
    optimiser = optimizer_of(learned.values(), sgd)
    total, divisor, seen = 0.0, 0.0, 0
    for step, batch in enumerate(batches):
        before = {name: value.detach().clone() for name, value in learned.items()}
        x = torch.tensor(samples.x[batch].astype(np.float64) * samples.scale + samples.shift, dtype=dtype)
        position = dropout and dropout._replace(step=dropout.step + step)
        outputs = logits(graph, tensors, x, True, at_neurons, position)
        loss = loss_of(samples.loss, outputs, samples.y[batch])
        optimiser.zero_grad()
        loss.backward()
        for name, value in learned.items():
            value.grad *= masks[name]
        if sgd.clip is not None:
            torch.nn.utils.clip_grad_norm_(learned.values(), sgd.clip)
        _add_terms(learned, pull, linear)
        optimiser.step()
        with torch.no_grad():
            for name, value in learned.items():
                value.copy_(torch.where(masks[name], value, before[name]))
        share = samples.loss.divisor(samples.y, batch)
        total, divisor, seen = total + loss.item() * share, divisor + share, seen + len(batch)
    return {name: value.detach().numpy() for name, value in tensors.items()}, total * seen / divisor


def optimizer_of(values: Iterable[torch.Tensor], settings: Optimizer) -> torch.optim.Optimizer:
    """torch's, with these settings."""
    if isinstance(settings, SGD):
        kept = {"weight_decay": settings.weight_decay, "nesterov": settings.nesterov}
        return torch.optim.SGD(values, settings.lr, settings.momentum, **kept)
    kind = torch.optim.AdamW if isinstance(settings, AdamW) else torch.optim.Adam
    return kind(values, settings.lr, settings.betas, settings.eps, settings.weight_decay)


def loss_of(loss: Loss, outputs: torch.Tensor, y: np.ndarray) -> torch.Tensor:
    """torch's mean loss of a batch."""

    def weights(given: tuple[float, ...] | None) -> torch.Tensor | None:
        return None if given is None else torch.tensor(given, dtype=outputs.dtype)

    if isinstance(loss, CrossEntropy):
        labels = torch.tensor(y, dtype=torch.int64)
        labels = labels.flatten() if outputs.dim() == 2 else labels
        settings = {"label_smoothing": loss.label_smoothing, "ignore_index": loss.ignore_index}
        first = outputs if loss.class_axis == 1 else outputs.movedim(-1, 1)
        return F.cross_entropy(first, labels, weights(loss.weight), **settings)
    targets = torch.tensor(y, dtype=outputs.dtype)
    if isinstance(loss, BinaryCrossEntropy):
        given = weights(loss.pos_weight)
        by_channel = None if given is None else given.reshape(-1, *(1,) * (outputs.dim() - 2))
        return F.binary_cross_entropy_with_logits(outputs, targets, pos_weight=by_channel)
    if isinstance(loss, L1):
        return F.l1_loss(outputs, targets)
    return F.huber_loss(outputs, targets, delta=loss.delta) if isinstance(loss, Huber) else F.mse_loss(outputs, targets)


def _add_terms(learned: Tensors, pull: Pull | None, linear: Mapping[str, np.ndarray] | None) -> None:
    """The gradients of mu/2 |w - centre|^2 and of <linear, w>."""
    for name, value in learned.items():
        if pull is not None:
            value.grad += pull[0] * (value.detach() - torch.tensor(pull[1][name], dtype=value.dtype))
        if linear is not None:
            value.grad += torch.tensor(linear[name], dtype=value.dtype)


def cut(blocks: Blocks) -> Callable:
    """Return an `at_neurons` that stops the gradient at the outputs of layers that are not in their weight's block."""

    def at_neurons(node: Node, y: torch.Tensor) -> torch.Tensor:
        active = torch.zeros(y.shape[1], dtype=y.dtype)
        rows, cols = blocks[node.full_name(node.op.main)]
        if isinstance(node.op, ConvTranspose2d):
            rows = cols if rows is None or rows.size else rows  # its outputs lie along axis 1
        if isinstance(node.op, Recurrent) and rows is not None:
            rows = rows[rows < y.shape[1]]  # of the first gate
        active[slice(None) if rows is None else torch.tensor(rows, dtype=torch.int64)] = 1
        active = active.view(1, -1, *[1] * (y.ndim - 2))
        return y * active + (y * (1 - active)).detach()

    return at_neurons


def _mask_of(shape: tuple[int, ...], block: tuple[np.ndarray | None, np.ndarray | None] | np.ndarray) -> np.ndarray:
    return block if isinstance(block, np.ndarray) else mask(shape, *block)


def mask(shape: tuple[int, ...], rows: np.ndarray | None, cols: np.ndarray | None) -> np.ndarray:
    """True on the rows and columns of an array of this shape."""
    chosen = np.zeros(shape, bool)
    inside = chosen if rows is None else chosen[rows]
    if cols is None:
        inside[...] = True
    else:
        inside[:, cols] = True
    if rows is not None:
        chosen[rows] = inside
    return chosen
