"""Adversarial calls of the losses. cases.py says what a case is."""

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
    for number, (batch, classes) in enumerate([(4, n) for n in WIDTHS] + [(n, 3) for n in (0, *WIDTHS)] + [(9, 100)]):
        shape = (batch, classes, (1.0, 30.0, 0.0)[number % 3], number % 4 > 0)
        label = f"{batch}x{classes}{'' if shape[3] else '-loss_only'}"
        smoothing, is_weighed = (0.0, 0.1, 1.0)[number % 3], number % 2 > 0
        yield Case("cross_entropy", label, lambda rng, a=(*shape, smoothing, is_weighed): cross_entropy(rng, *a))
        for op in TARGETS:
            yield Case(op, label, lambda rng, a=(op, *shape, is_weighed): of_targets(rng, *a))
    for label, shape in (("ordinary", (4, 5, 1.0, True)), ("large", (512, 200, 3.0, True))):
        yield Case("cross_entropy", label, lambda rng, a=shape: cross_entropy(rng, *a, 0.1, True))
        for op in TARGETS:
            yield Case(op, label, lambda rng, a=(op, *shape, True): of_targets(rng, *a))
    for number, (classes, places) in enumerate([*((3, n) for n in WIDTHS), (1, 5), (70, 9), (7, 64), (4, 65)]):
        shape = (3, classes, places, number % 4 > 0, (0.0, 0.1, 1.0)[number % 3], number % 2 > 0)
        label = f"3x{classes}x{places}{'' if shape[3] else '-loss_only'}"
        yield Case("place_cross_entropy", label, lambda rng, a=shape: place_cross_entropy(rng, *a))
    for label, shape in (("ordinary", (2, 5, 6)), ("large", (20, 40, 300))):
        arguments = (*shape, True, 0.1, True)
        yield Case("place_cross_entropy", label, lambda rng, a=arguments: place_cross_entropy(rng, *a))
    yield Case("softmax_xent", "ordinary", lambda rng: softmax_xent(rng, 4, 5, 1.0, True))
    yield Case("softmax_xent", "large", lambda rng: softmax_xent(rng, 512, 200, 3.0, True))


def softmax_xent(rng: Rng, batch: int, classes: int, scale: float, has_gradient: bool) -> Args:
    logits = normal(rng, batch, classes) * np.float32(scale)
    labels = rng.integers(0, classes, batch).astype(np.int32)
    dlogits = blank(batch, classes) if has_gradient else None
    totals = {"loss": np.array([2.5]), "correct": np.array([3], np.int64)}
    return {"logits": logits, "labels": labels, "dlogits": dlogits, **totals}


def cross_entropy(
    rng: Rng, batch: int, classes: int, scale: float, has_gradient: bool, smoothing: float, is_weighed: bool
) -> Args:
    args = softmax_xent(rng, batch, classes, scale, has_gradient)
    weight = rng.uniform(0.25, 4, classes).astype(np.float32) if is_weighed else None
    first = {"logits": args["logits"], "labels": args["labels"], "weight": weight, "smoothing": smoothing}
    return {**first, **{name: args[name] for name in ("dlogits", "loss", "correct")}}


def place_cross_entropy(
    rng: Rng, batch: int, classes: int, places: int, has_gradient: bool, smoothing: float, is_weighed: bool
) -> Args:
    logits, ignored = normal(rng, batch, classes, places) * np.float32(4), classes - 1
    length = places + places % 3  # a third of the calls take a part of the places
    labels = rng.integers(-1, classes, (batch + 2, length)).astype(np.int32)
    index = rng.integers(0, batch + 2, batch + 3).astype(np.int32)
    weight = rng.uniform(0.25, 4, classes).astype(np.float32) if is_weighed else None
    first = {"logits": logits, "labels": labels, "index": index, "first": 2, "place": (length - places) // 2}
    rest = {"dlogits": blank(*logits.shape) if has_gradient else None, "loss": np.array([2.5])}
    settings = {"weight": weight, "smoothing": smoothing, "ignored": ignored}
    return {**first, **settings, **rest, "correct": np.array([3], np.int64)}


TARGETS = ("binary_cross_entropy", "squared_error", "absolute_error", "huber")


def of_targets(rng: Rng, op: str, batch: int, outputs: int, scale: float, has_gradient: bool, is_weighed: bool) -> Args:
    y, gradient = normal(rng, batch, outputs) * np.float32(scale), blank(batch, outputs) if has_gradient else None
    sums = {"loss": np.array([2.5]), "correct": np.array([3], np.int64)}
    if op == "binary_cross_entropy":
        targets = np.round(rng.random((batch, outputs), np.float32), 1)
        weight = rng.uniform(0.25, 4, outputs).astype(np.float32) if is_weighed else None
        return {"logits": y, "targets": targets, "pos_weight": weight, "dlogits": gradient, **sums}
    delta = {"delta": 0.75} if op == "huber" else {}
    return {"y": y, "targets": normal(rng, batch, outputs), **delta, "dy": gradient, "loss": sums["loss"]}
