"""The losses in plain numpy."""

from __future__ import annotations

import numpy as np

from ..arrays import Array


def softmax_xent(logits: Array, labels: Array, dlogits: Array | None, loss: Array, correct: Array) -> None:
    """Add the softmax cross-entropy, summed over the batch, to `loss`, and the number of right rows to `correct`.

    A row is right if its first largest logit is the label. dlogits, where given, is the gradient of the batch mean:
    (softmax - onehot) / B. It may alias logits.
    """
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


def cross_entropy(
    logits: Array, labels: Array, weight: Array | None, smoothing: float, dlogits: Array | None, loss: Array,
    correct: Array,
) -> None:  # fmt: skip
    """Compute softmax_xent with a weight for each class and label smoothing.

    The loss of a row is the sum over c of a_c times the loss that label c would have. The factor a_c is smoothing
    weight_c / K, and (1 - smoothing) weight_c more at the label. dlogits is the gradient of the summed loss divided by
    the summed weights of the labels. This is torch.nn.functional.cross_entropy.
    """
    if not logits.size:
        return
    rows, classes = np.arange(len(logits)), logits.shape[1]
    weight = np.ones(classes, logits.dtype) if weight is None else weight
    asked = np.tile(smoothing / classes * weight, (len(logits), 1)).astype(logits.dtype)
    asked[rows, labels] += (1 - smoothing) * weight[labels]
    shifted = logits - logits.max(axis=1, keepdims=True)
    total = np.exp(shifted).sum(axis=1, keepdims=True)
    losses = np.log(total) - shifted
    loss += float(np.sum(np.where(asked > 0, asked * losses, 0), dtype=np.float64))  # the loss at a_c = 0 may be inf
    correct += int((logits.argmax(axis=1) == labels).sum())
    if dlogits is not None:
        probability = np.exp(shifted) / total
        dlogits[:] = (asked.sum(axis=1, keepdims=True) * probability - asked) / weight[labels].sum()


def place_cross_entropy(
    logits: Array, labels: Array, index: Array, first: int, place: int, weight: Array | None, smoothing: float,
    ignored: int, dlogits: Array | None, loss: Array, correct: Array,
) -> None:  # fmt: skip
    """Compute cross_entropy for every place of logits [B, K, L], with labels[index[first + b], place + l].

    A place counts unless its label is outside [0, K) or is `ignored`. dlogits is the gradient of the summed loss
    divided by the summed weights of the counted labels of all places of `index`. It is 0 at places that do not count.
    This is torch.nn.functional.cross_entropy with ignore_index, except that a batch in which no place counts has the
    loss 0.
    """
    every = labels[index]
    in_all = (every >= 0) & (every < logits.shape[1]) & (every != ignored)
    part = slice(first, first + len(logits)), slice(place, place + logits.shape[2])
    asked, counts = every[part], in_all[part]
    rows = np.moveaxis(logits, 1, 2)
    weights = np.ones(logits.shape[1], logits.dtype) if weight is None else weight
    slopes = np.empty(rows[counts].shape, rows.dtype)
    cross_entropy(rows[counts], asked[counts], weight, smoothing, slopes, loss, correct)
    if dlogits is not None:
        found = np.zeros(rows.shape, rows.dtype)
        found[counts] = (
            slopes * (weights[asked[counts]].sum() / weights[every[in_all]].sum()) if counts.any() else slopes
        )
        dlogits[:] = np.moveaxis(found, 2, 1)


def binary_cross_entropy(
    logits: Array, targets: Array, pos_weight: Array | None, dlogits: Array | None, loss: Array, correct: Array
) -> None:
    """Compute the binary cross-entropy -(pos_weight t log p + (1 - t) log(1 - p)) with p = sigmoid(logit).

    The mean of each row is added to `loss`. `correct` counts the outputs that are on the same side of 0 as their
    targets are of 0.5. dlogits is the gradient of the mean over all outputs. This is torch.nn.BCEWithLogitsLoss.
    """
    if not logits.size:
        return
    asked, against = targets if pos_weight is None else pos_weight * targets, 1 - targets
    small = np.exp(-np.abs(logits))
    rest = np.log1p(small)
    losses = asked * (rest + np.maximum(-logits, 0)) + against * (rest + np.maximum(logits, 0))
    loss += float(np.sum(losses, dtype=np.float64)) / logits.shape[1]
    correct += int((~np.isnan(logits) & ((logits > 0) == (targets > 0.5))).sum())
    if dlogits is not None:
        larger, smaller = 1 / (1 + small), small / (1 + small)
        above = logits > 0
        yes, no = np.where(above, larger, smaller), np.where(above, smaller, larger)
        dlogits[:] = (against * yes - asked * no) / logits.size


def squared_error(y: Array, targets: Array, dy: Array | None, loss: Array) -> None:
    """Add the mean of (y - t)^2 of each row to `loss`, as torch.nn.MSELoss. dy is the gradient of the mean over all."""
    if not y.size:
        return
    difference = y - targets
    loss += float(np.sum(np.square(difference), dtype=np.float64)) / y.shape[1]
    if dy is not None:
        dy[:] = 2 * difference / y.size


def absolute_error(y: Array, targets: Array, dy: Array | None, loss: Array) -> None:
    """Add the mean of |y - t| of each row to `loss`, as torch.nn.L1Loss. dy is the gradient of the mean over all."""
    if not y.size:
        return
    difference = y - targets
    loss += float(np.sum(np.abs(difference), dtype=np.float64)) / y.shape[1]
    if dy is not None:
        dy[:] = np.sign(difference) / y.size


def huber(y: Array, targets: Array, delta: float, dy: Array | None, loss: Array) -> None:
    """Add the mean Huber loss of each row to `loss`: (y - t)^2 / 2 within delta, delta (|y - t| - delta / 2) beyond.

    dy is the gradient of the mean over all. This is torch.nn.HuberLoss.
    """
    if not y.size:
        return
    difference = y - targets
    cut = np.clip(difference, -delta, delta)
    loss += float(np.sum(cut * (difference - cut / 2), dtype=np.float64)) / y.shape[1]
    if dy is not None:
        dy[:] = cut / y.size
