"""The list of operations that every kernel backend has: names, arguments and one line of meaning, as data.

The contracts in full (shapes, aliasing, indices) are in csrc/edgefl.h. Arguments appear in the order of every backend's
functions and of Program.append.
"""

from typing import NamedTuple


class Op(NamedTuple):
    """One operation: its argument names in order, and what it computes."""

    arguments: tuple[str, ...]
    meaning: str


def _op(arguments: str, meaning: str) -> Op:
    return Op(tuple(arguments.split()), meaning)


_WINDOW = "stride padding dilation groups"

OPS: dict[str, Op] = {
    "gather_rows": _op("src index scale shift out", "out[b] = float(src[index[b]]) * scale + shift, rounded twice"),
    "gather_labels": _op("src index out", "out[b] = src[index[b]]"),
    "take_channels": _op("x channels out", "out[b, j] = x[b, channels[j]]"),
    "conv2d_forward": _op(f"x weight bias y {_WINDOW}", "y = conv(x, weight) + bias"),
    "conv2d_grad_input": _op(f"dy weight dx {_WINDOW} outs ins", "dx[:, ins] from dy[:, outs] and weight[outs, ins]"),
    "conv2d_grad_weight": _op(f"x dy dw {_WINDOW} outs ins in_channels", "compact dw[outs, ins] from dy and x"),
    "linear_forward": _op("x weight bias y", "y = x weight^T + bias"),
    "linear_grad_input": _op("dy weight dx outs ins", "dx[:, ins] = dy[:, outs] weight[outs, ins]"),
    "linear_grad_weight": _op("x dy dw outs ins", "compact dw = dy[:, outs]^T x[:, ins]"),
    "linear_update": _op(
        "x dy w hyper outs ins cols", "w[outs, cols] moves by a step of plain SGD with dw = dy[:, outs]^T x[:, ins]"
    ),
    "channel_sum": _op("dy out outs", "out[j] = sum of dy[:, outs[j]]"),
    "batchnorm_forward": _op(
        "x weight bias running_mean running_var y xhat inv_std eps momentum", "normalise by the batch's statistics"
    ),
    "batchnorm_eval": _op("x weight bias running_mean running_var y eps", "normalise by the running statistics"),
    "batchnorm_backward": _op(
        "dy xhat weight inv_std dx dweight dbias channels outs", "dx for channels, dweight and dbias compact for outs"
    ),
    "groupnorm_forward": _op("x weight bias y xhat inv_std groups eps", "normalise by sample and group"),
    "groupnorm_backward": _op(
        "dy xhat weight inv_std dx dweight dbias groups groups_needed outs",
        "dx for groups_needed, dweight and dbias compact for outs",
    ),
    "batchnorm_relu_forward": _op(
        "x weight bias running_mean running_var y mean inv_std eps momentum",
        "max(z, 0) of the normalised z, or its 2 x 2 window maxima, by the shape of y",
    ),
    "batchnorm_relu_backward": _op(
        "dy x weight bias mean inv_std dx dweight dbias channels outs", "the backward pass of both forms, from x alone"
    ),
    "groupnorm_relu_forward": _op("x weight bias y mean inv_std groups eps", "the same by sample and group"),
    "groupnorm_relu_backward": _op(
        "dy x weight bias mean inv_std dx dweight dbias groups groups_needed outs", "dx for groups_needed"
    ),
    "relu_forward": _op("x y bits", "y = max(x, 0), NaN kept; one bit per element where x > 0"),
    "relu_backward": _op("dy bits dx channels", "dx = dy where the bit is set, else 0"),
    "add": _op("a b y", "y = a + b"),
    "maxpool_forward": _op("x y codes kernel stride padding", "y = window maximum; codes = the winning cell"),
    "maxpool_backward": _op("dy codes dx kernel stride padding channels", "dy sent to the winning cells"),
    "avgpool_forward": _op("x y kernel stride padding count_include_pad", "y = window mean"),
    "avgpool_backward": _op("dy dx kernel stride padding count_include_pad channels", "dy shared over the window"),
    "softmax_xent": _op(
        "logits labels dlogits loss correct",
        "loss += summed cross-entropy; correct += hits; dlogits = (softmax - onehot) / B",
    ),
    "sum_squares": _op("x total", "total += sum of x^2 in float64"),
    "clip_scale": _op("total max_norm scale", "scale = min(1, max_norm / (sqrt(total) + 1e-6))"),
    "sgd": _op(
        "w grad hyper rows cols scale velocity centre linear", "one step of SGD on w[rows, cols]; hyper in HYPER order"
    ),
    "take_axes": _op("w rows cols values", "values = w[rows, cols, :]"),
    "put_axes": _op("w rows cols values", "w[rows, cols, :] = values"),
    "take_flat": _op("w ids values", "values = w.flat[ids]"),
    "put_flat": _op("w ids values", "w.flat[ids] = values"),
    "fill_zero": _op("x", "x = 0"),
}

HYPER = ("lr", "momentum", "weight_decay", "pull")
"""What the four float32 of sgd's `hyper` are."""
