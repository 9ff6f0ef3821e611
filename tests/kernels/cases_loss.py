"""Adversarial calls of the loss; see cases.py for what a case is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .cases import WIDTHS, Args, Case, Rng, blank, normal


def cases() -> Iterator[Case]:
    sizes = [(4, n) for n in WIDTHS] + [(n, 10) for n in (0, *WIDTHS)] + [(16, 62), (128, 100), (2, 1000)]
    for number, (batch, classes) in enumerate(dict.fromkeys(sizes)):
        scale, gradient = (1.0, 30.0, 0.0)[number % 3], number % 4 > 0
        label = f"{batch}x{classes}-scale{scale:g}{'' if gradient else '-loss_only'}"
        yield Case("softmax_xent", label, lambda rng, a=(batch, classes, scale, gradient): softmax_xent(rng, *a))
    yield Case("softmax_xent", "ordinary", lambda rng: softmax_xent(rng, 4, 5, 1.0, True))
    yield Case("softmax_xent", "large", lambda rng: softmax_xent(rng, 512, 200, 3.0, True))


def softmax_xent(rng: Rng, batch: int, classes: int, scale: float, has_gradient: bool) -> Args:
    logits = normal(rng, batch, classes) * np.float32(scale)
    labels = rng.integers(0, classes, batch).astype(np.int32)
    dlogits = blank(batch, classes) if has_gradient else None
    totals = {"loss": np.array([2.5]), "correct": np.array([3], np.int64)}
    return {"logits": logits, "labels": labels, "dlogits": dlogits, **totals}
