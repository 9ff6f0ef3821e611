"""Every kernel operation in plain numpy: what each one means. Readable above fast; no compiler, no numba.

Contracts are those of csrc/edgefl.h: arrays are C-contiguous, outputs are passed in and written, ids are sorted unique
int32 arrays or None for all. Arrays may be float32, or float64 throughout: that is the reference that other backends
are tested against. Convolution and pooling are in reference_conv.py, normalisation in reference_norm.py, with
ReLU and pooling in reference_norm_relu.py.
"""

from __future__ import annotations

import numpy as np

from . import contracts
from .checks import Array, Ids
from .program import Program as _RecordedCalls
from .reference_conv import (
    avgpool_backward,
    avgpool_forward,
    conv2d_forward,
    conv2d_grad_input,
    conv2d_grad_weight,
    maxpool_backward,
    maxpool_forward,
)
from .reference_norm import batchnorm_backward, batchnorm_eval, batchnorm_forward, groupnorm_backward, groupnorm_forward
from .reference_norm_relu import (
    batchnorm_relu_backward,
    batchnorm_relu_forward,
    groupnorm_relu_backward,
    groupnorm_relu_forward,
)

__all__ = [
    "Program",
    "add",
    "avgpool_backward",
    "avgpool_forward",
    "batchnorm_backward",
    "batchnorm_eval",
    "batchnorm_forward",
    "batchnorm_relu_backward",
    "batchnorm_relu_forward",
    "channel_sum",
    "clip_scale",
    "conv2d_forward",
    "conv2d_grad_input",
    "conv2d_grad_weight",
    "fill_zero",
    "gather_labels",
    "gather_rows",
    "groupnorm_backward",
    "groupnorm_forward",
    "groupnorm_relu_backward",
    "groupnorm_relu_forward",
    "linear_forward",
    "linear_grad_input",
    "linear_grad_weight",
    "linear_update",
    "maxpool_backward",
    "maxpool_forward",
    "put_axes",
    "put_flat",
    "relu_backward",
    "relu_forward",
    "sgd",
    "softmax_xent",
    "sum_squares",
    "take_axes",
    "take_channels",
    "take_flat",
]


def _all_or(ids: Ids, size: int) -> Array:
    return np.arange(size) if ids is None else ids


# ---- batches --------------------------------------------------------------------------------------------------------


def gather_rows(src: Array, index: Array, scale: float, shift: float, out: Array) -> None:
    """out[b] = src[index[b]] * scale + shift. src uint8 or floating; index in any order."""
    contracts.gather_rows(src, index, out)
    out[:] = src[index].astype(out.dtype) * out.dtype.type(scale) + out.dtype.type(shift)


def gather_labels(src: Array, index: Array, out: Array) -> None:
    """out[b] = src[index[b]]."""
    contracts.gather_labels(src, index, out)
    out[:] = src[index]


def take_channels(x: Array, channels: Ids, out: Array) -> None:
    """out[b, j] = x[b, channels[j]]."""
    contracts.take_channels(x, channels, out)
    out[:] = x[:, _all_or(channels, x.shape[1])]


# ---- linear ---------------------------------------------------------------------------------------------------------


def linear_forward(x: Array, weight: Array, bias: Array | None, y: Array) -> None:
    """y = x weight^T + bias."""
    contracts.linear_forward(x, weight, bias, y)
    y[:] = x @ weight.T
    if bias is not None:
        y += bias


def linear_grad_input(dy: Array, weight: Array, dx: Array, outs: Ids, ins: Ids) -> None:
    """dx[:, ins] = dy[:, outs] weight[outs, ins]; other columns of dx are left alone."""
    contracts.linear_grad_input(dy, weight, dx, outs, ins)
    rows, columns = _all_or(outs, len(weight)), _all_or(ins, weight.shape[1])
    dx[:, columns] = dy[:, rows] @ weight[np.ix_(rows, columns)]


def linear_grad_weight(x: Array, dy: Array, dw: Array, outs: Ids, ins: Ids) -> None:
    """dw = dy[:, outs]^T x[:, ins], compact."""
    contracts.linear_grad_weight(x, dy, dw, outs, ins)
    dw[:] = dy[:, _all_or(outs, dy.shape[1])].T @ x[:, _all_or(ins, x.shape[1])]


def linear_update(x: Array, dy: Array, w: Array, hyper: Array, outs: Ids, ins: Ids, cols: Ids) -> None:
    """w[outs, cols] -= lr (dw + decay w[outs, cols]) with dw = dy[:, outs]^T x[:, ins]; the rest of w is untouched."""
    contracts.linear_update(x, dy, w, hyper, outs, ins, cols)
    block = np.ix_(_all_or(outs, len(w)), _all_or(cols, w.shape[1]))
    dw = dy[:, _all_or(outs, dy.shape[1])].T @ x[:, _all_or(ins, x.shape[1])]
    w[block] -= hyper[0] * (dw + hyper[2] * w[block])


def channel_sum(dy: Array, out: Array, outs: Ids) -> None:
    """out[j] = sum of dy[:, outs[j]] over batch and pixels: a bias gradient."""
    contracts.channel_sum(dy, out, outs)
    out[:] = dy[:, _all_or(outs, dy.shape[1])].sum(axis=(0, *range(2, dy.ndim)))


# ---- elementwise ----------------------------------------------------------------------------------------------------


def relu_forward(x: Array, y: Array, bits: Array | None) -> None:
    """y = x where x > 0, else 0; NaN stays NaN. y may alias x.

    Bit j % 8 of byte j // 8 of a plane is set where x > 0.
    """
    contracts.relu_forward(x, y, bits)
    if bits is not None:
        planes = (x > 0).reshape(*x.shape[:2], int(np.prod(x.shape[2:])))
        bits[...] = np.packbits(planes, axis=2, bitorder="little").reshape(bits.shape)
    y[:] = np.where(x <= 0, 0, x)


def relu_backward(dy: Array, bits: Array, dx: Array, channels: Ids) -> None:
    """dx[:, channels] = dy where the bit is set, else 0; other channels are left alone. dx may alias dy."""
    contracts.relu_backward(dy, bits, dx, channels)
    inner = int(np.prod(dy.shape[2:]))
    packed = bits.reshape(*dy.shape[:2], (inner + 7) // 8)
    is_on = np.unpackbits(packed, axis=2, count=inner, bitorder="little").reshape(dy.shape)
    chosen = _all_or(channels, dy.shape[1])
    dx[:, chosen] = np.where(is_on, dy, 0)[:, chosen]


def add(a: Array, b: Array, y: Array) -> None:
    """y = a + b. y may alias a or b."""
    contracts.add(a, b, y)
    np.add(a, b, out=y)


# ---- loss and update ------------------------------------------------------------------------------------------------


def softmax_xent(logits: Array, labels: Array, dlogits: Array | None, loss: Array, correct: Array) -> None:
    """Softmax cross-entropy: loss += its sum over the batch, correct += rows whose first largest logit is the label.

    dlogits, where given, is the gradient of the batch mean: (softmax - onehot) / B. It may alias logits.
    """
    contracts.softmax_xent(logits, labels, dlogits, loss, correct)
    if not logits.size:
        return
    rows = np.arange(len(logits))
    shifted = logits - logits.max(axis=1, keepdims=True)
    exponentials = np.exp(shifted)
    total = exponentials.sum(axis=1)
    loss += float(np.sum(np.log(total) - shifted[rows, labels], dtype=np.float64))
    correct += int((logits.argmax(axis=1) == labels).sum())
    if dlogits is not None:
        dlogits[:] = exponentials / total[:, None]
        dlogits[rows, labels] -= 1
        dlogits /= len(logits)


def sum_squares(x: Array, total: Array) -> None:
    """total += sum of x^2, in float64."""
    contracts.sum_squares(x, total)
    total += np.sum(np.square(x, dtype=np.float64))


def clip_scale(total: Array, max_norm: float, scale: Array) -> None:
    """scale = min(1, max_norm / (sqrt(total) + 1e-6)). Source: torch.nn.utils.clip_grad_norm_."""
    contracts.clip_scale(total, max_norm, scale)
    scale[:] = np.minimum(1, max_norm / (np.sqrt(total) + 1e-6))


def sgd(
    w: Array,
    grad: Array,
    hyper: Array,
    rows: Ids,
    cols: Ids,
    scale: Array | None = None,
    velocity: Array | None = None,
    centre: Array | None = None,
    linear: Array | None = None,
) -> None:
    """One step on the block w[rows, cols, :] of w [R, C, inner]; the rest of w is untouched.

    g = scale grad + decay w + pull (w - centre) + linear ; v = momentum v + g ; w -= lr v
    With momentum 0, v is g, and `velocity` is neither read nor written.
    hyper = lr, momentum, decay, pull; the other arrays are compact, [|rows|, |cols|, inner] in any shape.
    Source: torch.optim.SGD with dampening 0, started from v = 0.
    """
    contracts.sgd(w, grad, hyper, rows, cols, scale, velocity, centre, linear)
    lr, momentum, decay, pull = hyper
    block = np.ix_(_all_or(rows, w.shape[0]), _all_or(cols, w.shape[1]))
    shape = w[block].shape
    step = (grad if scale is None else scale * grad).reshape(shape) + decay * w[block]
    if centre is not None:
        step += pull * (w[block] - centre.reshape(shape))
    if linear is not None:
        step += linear.reshape(shape)
    if velocity is not None and momentum:
        velocity.reshape(shape)[:] = momentum * velocity.reshape(shape) + step
        step = velocity.reshape(shape)
    w[block] -= lr * step


# ---- gather and scatter of parameters -------------------------------------------------------------------------------


def take_axes(w: Array, rows: Ids, cols: Ids, values: Array) -> None:
    """values = w[rows, cols, :], compact."""
    contracts.take_axes(w, rows, cols, values)
    values[...] = w[np.ix_(_all_or(rows, w.shape[0]), _all_or(cols, w.shape[1]))].reshape(values.shape)


def put_axes(w: Array, rows: Ids, cols: Ids, values: Array) -> None:
    """w[rows, cols, :] = values; the rest of w is untouched."""
    contracts.put_axes(w, rows, cols, values)
    block = np.ix_(_all_or(rows, w.shape[0]), _all_or(cols, w.shape[1]))
    w[block] = values.reshape(w[block].shape)


def take_flat(w: Array, ids: Array, values: Array) -> None:
    """values = w.flat[ids]; ids uint32."""
    contracts.take_flat(w, ids, values)
    values[...] = w.reshape(-1)[ids].reshape(values.shape)


def put_flat(w: Array, ids: Array, values: Array) -> None:
    """w.flat[ids] = values; the rest of w is untouched."""
    contracts.put_flat(w, ids, values)
    w.reshape(-1)[ids] = values.reshape(-1)


def fill_zero(x: Array) -> None:
    """x = 0."""
    contracts.fill_zero(x)
    x[...] = 0


class Program(_RecordedCalls):
    """A recorded list of calls to the operations above."""

    def __init__(self) -> None:
        super().__init__(globals())
