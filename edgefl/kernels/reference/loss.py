"""The softmax cross-entropy in plain numpy."""

from __future__ import annotations

import numpy as np

from ..arrays import Array


def softmax_xent(logits: Array, labels: Array, dlogits: Array | None, loss: Array, correct: Array) -> None:
    """Softmax cross-entropy: loss += its sum over the batch, correct += rows whose first largest logit is the label.

    dlogits, where given, is the gradient of the batch mean: (softmax - onehot) / B. It may alias logits.
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
