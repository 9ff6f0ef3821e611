"""Losses and their gradients: csrc/cuda/loss.cuh and target_loss.cuh."""

from __future__ import annotations

from .launch import Field, KernelArray, Launches, PlannedLaunch, Scratch, struct_values, tiled
from .structs import declare

declare(
    {
        # The partial sums are [blocks, 2], or None for one block.
        "LossSums": "loss:float64[]! correct:int64[]?! partials:float64[]?!",
        "add_losses": "sums:LossSums count",
        # A smoothed label has its own part, and each class has a share.
        "CrossEntropyArgs: cross_entropy_{narrow,wide} of cross_entropy": (
            "logits labels weight dlogits sums:LossSums batch classes own:real share:real"
        ),
        "PlaceLossArgs: place_cross_entropy": (
            "logits labels index weight dlogits sums:LossSums count before from every rows classes places length "
            "ignored own:real share:real"
        ),
        # The weight is of the positive targets of a binary loss. Without it they count 1.
        "TargetArgs: binary_cross_entropy squared_error absolute_error huber": (
            "y,targets:float[] weight:float[]? dy:float[]?! sums:LossSums count outputs delta:real"
        ),
    }
)

THREADS = 256
WIDE = 256  # classes from which on a row takes 128 threads, not 32
MOST_BLOCKS = 256
AT_ONCE = 8  # turns that one block takes rather than that its loss be added by a second launch


def softmax_xent(
    logits: KernelArray, labels: KernelArray, dlogits: KernelArray | None, loss: KernelArray, correct: KernelArray
) -> Launches:
    return cross_entropy(logits, labels, None, 0.0, dlogits, loss, correct)


def cross_entropy(
    logits: KernelArray,
    labels: KernelArray,
    weight: KernelArray | None,
    smoothing: float,
    dlogits: KernelArray | None,
    loss: KernelArray,
    correct: KernelArray,
) -> Launches:
    batch, classes = logits.shape
    kernel, rows = ("cross_entropy_wide", 2) if classes >= WIDE else ("cross_entropy_narrow", 8)
    turns = -(-batch // rows) if classes else 0
    arrays = {"logits": logits, "labels": labels, "weight": weight, "dlogits": dlogits}
    shares = {"own": 1.0 - smoothing, "share": smoothing / max(classes, 1)}
    return _summed(kernel, turns, loss, correct, **arrays, batch=batch, classes=classes, **shares)


def place_cross_entropy(
    logits: KernelArray,
    labels: KernelArray,
    index: KernelArray,
    first: int,
    place: int,
    weight: KernelArray | None,
    smoothing: float,
    ignored: int,
    dlogits: KernelArray | None,
    loss: KernelArray,
    correct: KernelArray,
) -> Launches:
    batch, classes = logits.shape[:2]
    count = batch * logits.inner
    arrays = {"logits": logits, "labels": labels, "index": index, "weight": weight, "dlogits": dlogits}
    rows, length = labels.shape
    extents = {"before": first, "from": place, "every": index.size * length, "length": length}
    extents |= {"rows": rows, "classes": classes, "places": logits.inner, "ignored": ignored}
    shares = {"own": 1.0 - smoothing, "share": smoothing / max(classes, 1)}
    turns = -(-count // THREADS) if classes else 0
    return _summed("place_cross_entropy", turns, loss, correct, **arrays, count=count, **extents, **shares)


def binary_cross_entropy(
    logits: KernelArray,
    targets: KernelArray,
    pos_weight: KernelArray | None,
    dlogits: KernelArray | None,
    loss: KernelArray,
    correct: KernelArray,
) -> Launches:
    return _against("binary_cross_entropy", logits, targets, pos_weight, dlogits, loss, correct)


def squared_error(y: KernelArray, targets: KernelArray, dy: KernelArray | None, loss: KernelArray) -> Launches:
    return _against("squared_error", y, targets, None, dy, loss, None)


def absolute_error(y: KernelArray, targets: KernelArray, dy: KernelArray | None, loss: KernelArray) -> Launches:
    return _against("absolute_error", y, targets, None, dy, loss, None)


def huber(y: KernelArray, targets: KernelArray, delta: float, dy: KernelArray | None, loss: KernelArray) -> Launches:
    return _against("huber", y, targets, None, dy, loss, None, delta)


def _against(
    kernel: str,
    y: KernelArray,
    targets: KernelArray,
    weight: KernelArray | None,
    dy: KernelArray | None,
    loss: KernelArray,
    correct: KernelArray | None,
    delta: float = 0.0,
) -> Launches:
    turns = -(-y.size // THREADS)
    arrays = {"y": y, "targets": targets, "weight": weight, "dy": dy}
    return _summed(kernel, turns, loss, correct, **arrays, count=y.size, outputs=y.shape[1], delta=delta)


def _summed(kernel: str, turns: int, loss: KernelArray, correct: KernelArray | None, /, **fields: Field) -> Launches:
    """Plan one block that takes all turns, or several blocks and a launch that adds what they have found."""
    blocks = 1 if 0 < turns <= AT_ONCE else min(turns, MOST_BLOCKS)
    partials = Scratch(0, 16 * blocks) if blocks > 1 else None
    sums = struct_values("LossSums", loss=loss, correct=correct, partials=partials)
    launches: list[PlannedLaunch] = [tiled(kernel, (blocks, 1, 1), **fields, sums=sums)]
    if partials:
        launches.append(tiled("add_losses", (1, 1, 1), sums=sums, count=blocks))
    return launches
