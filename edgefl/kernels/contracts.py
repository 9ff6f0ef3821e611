"""What each operation asks of its arguments, for the Python backends. Mirrors csrc/edgefl.h; no arithmetic.

One function per operation, with the operation's name and arguments; it raises ValueError. Convolution and pooling are
in contracts_conv.py, normalisation in contracts_norm.py. The floating arrays of one call share one type, float32 or
float64, so that the same code serves as the float32 fallback and as the float64 reference. Contents are checked only
where a wrong value would read out of bounds.
"""

from __future__ import annotations

import math

import numpy as np

from .checks import (
    Array,
    Ids,
    array,
    below,
    flat_ids,
    floating,
    ids,
    optional,
    output,
    require,
    sized,
)

# ---- batches --------------------------------------------------------------------------------------------------------


def gather_rows(src: Array, index: Array, out: Array) -> None:
    dtype = floating("out", out, 1)
    array("src", src, np.uint8 if getattr(src, "dtype", None) == np.uint8 else dtype, (None, *out.shape[1:]))
    output("out", out, dtype, out.shape)
    below("index", index, len(src), len(out))


def gather_labels(src: Array, index: Array, out: Array) -> None:
    array("src", src, np.int32, (None,))
    output("out", out, np.int32, (None,))
    below("index", index, len(src), len(out))


def take_channels(x: Array, channels: Ids, out: Array) -> None:
    dtype = floating("x", x, 2)
    output("out", out, dtype, (len(x), ids("channels", channels, x.shape[1]), *x.shape[2:]))


# ---- linear ---------------------------------------------------------------------------------------------------------


def linear_forward(x: Array, weight: Array, bias: Array | None, y: Array) -> None:
    dtype = floating("x", x, 2)
    array("x", x, dtype, (None, None))
    array("weight", weight, dtype, (None, x.shape[1]))
    optional("bias", bias, dtype, (len(weight),))
    output("y", y, dtype, (len(x), len(weight)))


def linear_grad_input(dy: Array, weight: Array, dx: Array, outs: Ids, ins: Ids) -> None:
    dtype = floating("dy", dy, 2)
    array("dy", dy, dtype, (None, None))
    array("weight", weight, dtype, (dy.shape[1], None))
    output("dx", dx, dtype, (len(dy), weight.shape[1]))
    ids("outs", outs, len(weight))
    ids("ins", ins, weight.shape[1])


def linear_grad_weight(x: Array, dy: Array, dw: Array, outs: Ids, ins: Ids) -> None:
    dtype = floating("x", x, 2)
    array("x", x, dtype, (None, None))
    array("dy", dy, dtype, (len(x), None))
    output("dw", dw, dtype, (ids("outs", outs, dy.shape[1]), ids("ins", ins, x.shape[1])))


def linear_update(x: Array, dy: Array, w: Array, hyper: Array, outs: Ids, ins: Ids, cols: Ids) -> None:
    dtype = floating("x", x, 2)
    array("x", x, dtype, (None, None))
    output("w", w, dtype, (None, None))
    array("dy", dy, dtype, (len(x), len(w)))
    array("hyper", hyper, dtype, (4,))
    ids("outs", outs, len(w))
    width = ids("ins", ins, x.shape[1])
    require(ids("cols", cols, w.shape[1]) == width, "cols", cols, f"{width} columns, as many as ins")
    require(hyper[1] == 0 and hyper[3] == 0, "hyper", hyper, "momentum and pull 0")


def channel_sum(dy: Array, out: Array, outs: Ids) -> None:
    dtype = floating("dy", dy, 2)
    output("out", out, dtype, (ids("outs", outs, dy.shape[1]),))


# ---- elementwise ----------------------------------------------------------------------------------------------------


def bit_bytes(shape: tuple[int, ...]) -> int:
    """Bytes of the ReLU bits of an array [B, C, ...]: each plane starts on a byte."""
    return shape[0] * shape[1] * ((math.prod(shape[2:]) + 7) // 8)


def relu_forward(x: Array, y: Array, bits: Array | None) -> None:
    dtype = floating("x", x, 2)
    output("y", y, dtype, x.shape)
    sized("bits", bits, np.uint8, bit_bytes(x.shape), is_output=True)


def relu_backward(dy: Array, bits: Array, dx: Array, channels: Ids) -> None:
    dtype = floating("dy", dy, 2)
    _given("bits", bits)
    sized("bits", bits, np.uint8, bit_bytes(dy.shape))
    output("dx", dx, dtype, dy.shape)
    ids("channels", channels, dy.shape[1])


def add(a: Array, b: Array, y: Array) -> None:
    dtype = floating("a", a, 0)
    array("b", b, dtype, a.shape)
    output("y", y, dtype, a.shape)


def fill_zero(x: Array) -> None:
    output("x", x, floating("x", x, 0), (None,) * x.ndim)


# ---- loss and update ------------------------------------------------------------------------------------------------


def softmax_xent(logits: Array, labels: Array, dlogits: Array | None, loss: Array, correct: Array) -> None:
    dtype = floating("logits", logits, 2)
    array("logits", logits, dtype, (None, None))
    below("labels", labels, logits.shape[1], len(logits))
    if dlogits is not None:
        output("dlogits", dlogits, dtype, logits.shape)
    output("loss", loss, np.float64, (1,))
    output("correct", correct, np.int64, (1,))


def sum_squares(x: Array, total: Array) -> None:
    floating("x", x, 0)
    output("total", total, np.float64, (1,))


def clip_scale(total: Array, max_norm: float, scale: Array) -> None:
    array("total", total, np.float64, (1,))
    output("scale", scale, floating("scale", scale, 1), (1,))
    require(max_norm >= 0, "max_norm", max_norm, "a norm that is not negative")


def _given(name: str, value: Array | None) -> None:
    require(value is not None, name, value, "an array")


def _block_size(w: Array, rows: Ids, cols: Ids) -> int:
    return ids("rows", rows, w.shape[0]) * ids("cols", cols, w.shape[1]) * w.shape[2]


def sgd(
    w: Array,
    grad: Array,
    hyper: Array,
    rows: Ids,
    cols: Ids,
    scale: Array | None,
    velocity: Array | None,
    centre: Array | None,
    linear: Array | None,
) -> None:
    dtype = floating("w", w, 3)
    output("w", w, dtype, (None,) * 3)
    size = _block_size(w, rows, cols)
    _given("grad", grad)
    sized("grad", grad, dtype, size)
    array("hyper", hyper, dtype, (4,))
    optional("scale", scale, dtype, (1,))
    sized("velocity", velocity, dtype, size, is_output=True)
    sized("centre", centre, dtype, size)
    sized("linear", linear, dtype, size)
    require(velocity is not None or hyper[1] == 0, "velocity", velocity, f"an array, because momentum={hyper[1]}")
    require(centre is not None or hyper[3] == 0, "centre", centre, f"an array, because pull={hyper[3]}")


# ---- gather and scatter of parameters -------------------------------------------------------------------------------


def _four_bytes(name: str, value: Array) -> None:
    sizes = (4, 8)  # 8 for the float64 reference
    found = value.dtype if isinstance(value, np.ndarray) else type(value).__name__
    require(isinstance(value, np.ndarray) and value.itemsize in sizes, name, found, "an array of 4-byte values")


def take_axes(w: Array, rows: Ids, cols: Ids, values: Array) -> None:
    _four_bytes("w", w)
    array("w", w, w.dtype, (None,) * 3)
    _given("values", values)
    sized("values", values, w.dtype, _block_size(w, rows, cols), is_output=True)


def put_axes(w: Array, rows: Ids, cols: Ids, values: Array) -> None:
    _four_bytes("w", w)
    output("w", w, w.dtype, (None,) * 3)
    _given("values", values)
    sized("values", values, w.dtype, _block_size(w, rows, cols))


def take_flat(w: Array, ids: Array, values: Array) -> None:
    _four_bytes("w", w)
    array("w", w, w.dtype, w.shape)
    flat_ids("ids", ids, w.size)
    _given("values", values)
    sized("values", values, w.dtype, ids.size, is_output=True)


def put_flat(w: Array, ids: Array, values: Array) -> None:
    _four_bytes("w", w)
    output("w", w, w.dtype, w.shape)
    flat_ids("ids", ids, w.size)
    _given("values", values)
    sized("values", values, w.dtype, ids.size)
