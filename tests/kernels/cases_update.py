"""Adversarial calls of the loss, the optimiser, and the gather and scatter of parameters. See cases.py for the form."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .cases import SELECTIONS, WIDTHS, Args, Case, Rng, blank, count, normal, pick, shape_label

SgdVariant = tuple[float, float, float, float, tuple[str, ...]]
BLOCKS = [
    (3, 4, 1),
    (5, 3, 9),
    (1, 1, 1),
    (17, 8, 1),
    (8, 17, 4),
    (4, 1, 25),
    (7, 1, 1),
    (0, 3, 2),
    (3, 0, 2),
    (2, 33, 9),
]


# lr, momentum, weight decay, pull, and the optional arrays that are given
SGD_VARIANTS: dict[str, SgdVariant] = {
    "plain": (0.1, 0.0, 0.0, 0.0, ()),
    "decay": (0.1, 0.0, 0.01, 0.0, ("scale",)),
    "momentum": (0.05, 0.9, 0.001, 0.0, ("velocity",)),
    "prox": (0.1, 0.0, 0.0, 0.3, ("centre",)),
    "linear": (0.1, 0.0, 0.01, 0.0, ("linear", "scale")),
    "velocity_unused": (0.1, 0.0, 0.01, 0.0, ("velocity",)),
    "everything": (0.1, 0.5, 0.02, 0.3, ("scale", "velocity", "centre", "linear")),
}


def softmax_xent(rng: Rng, batch: int, classes: int, scale: float, has_gradient: bool) -> Args:
    logits = normal(rng, batch, classes) * np.float32(scale)
    labels = rng.integers(0, classes, batch).astype(np.int32)
    dlogits = blank(batch, classes) if has_gradient else None
    totals = {"loss": np.array([2.5]), "correct": np.array([3], np.int64)}
    return {"logits": logits, "labels": labels, "dlogits": dlogits, **totals}


def loss_cases() -> Iterator[Case]:
    sizes = [(4, n) for n in WIDTHS] + [(n, 10) for n in (0, *WIDTHS)] + [(16, 62), (128, 100), (2, 1000)]
    for number, (batch, classes) in enumerate(dict.fromkeys(sizes)):
        scale, gradient = (1.0, 30.0, 0.0)[number % 3], number % 4 > 0
        label = f"{batch}x{classes}-scale{scale:g}{'' if gradient else '-loss_only'}"
        yield Case("softmax_xent", label, lambda rng, a=(batch, classes, scale, gradient): softmax_xent(rng, *a))

    for size in (0, *WIDTHS, 1000):
        yield Case("sum_squares", str(size), lambda rng, n=size: {"x": normal(rng, n), "total": np.array([0.5])})
    for total, norm in ((0.0, 1.0), (4.0, 1.0), (4.0, 100.0), (1e-12, 1e-3), (1e20, 5.0), (9.0, 0.0)):
        args = {"total": np.array([total]), "max_norm": norm}
        yield Case("clip_scale", f"{total:g}-{norm:g}", lambda rng, a=args: {**a, "scale": blank(1)})


def sgd_cases() -> Iterator[Case]:
    pairs = [("all", "all"), ("none", "all"), ("one", "odd"), ("but_one", "but_one"), ("every", "one"), ("odd", "none")]
    for number, shape in enumerate(BLOCKS):
        for variant, setting in SGD_VARIANTS.items():
            for pair in (pairs[0], pairs[1 + number % 5]):
                label = f"{variant}-{shape_label(*shape)}-{pair[0]}-{pair[1]}"
                yield Case("sgd", label, lambda rng, s=shape, v=setting, p=pair: sgd(rng, s, v, p))


def sgd(
    rng: Rng,
    shape: tuple[int, int, int],
    variant: SgdVariant,
    pair: tuple[str, str],
) -> Args:
    rows, cols = pick(pair[0], shape[0]), pick(pair[1], shape[1])
    block = (count(rows, shape[0]), count(cols, shape[1]), shape[2])
    extras: Args = {"scale": None, "velocity": None, "centre": None, "linear": None}
    for name in variant[4]:
        extras[name] = np.array([0.25], np.float32) if name == "scale" else normal(rng, *block)
    read = {"w": normal(rng, *shape), "grad": normal(rng, *block), "hyper": np.array(variant[:4], np.float32)}
    return {**read, "rows": rows, "cols": cols, **extras}


def parameter_cases() -> Iterator[Case]:
    for number, shape in enumerate(BLOCKS):
        for pair in (
            ("all", "all"),
            *((SELECTIONS[1 + (number + k) % 5], SELECTIONS[(number + 2 * k) % 6]) for k in (0, 1, 2)),
        ):
            label = f"{shape_label(*shape)}-{pair[0]}-{pair[1]}"
            for op in ("take_axes", "put_axes"):
                yield Case(op, label, lambda rng, s=shape, p=pair, o=op: axes(rng, s, p, o == "take_axes"))
    for size in (1, 8, 17, 100):
        for kind in SELECTIONS[1:]:
            for op in ("take_flat", "put_flat"):
                yield Case(op, f"{size}-{kind}", lambda rng, n=size, k=kind, o=op: flat(rng, n, k, o == "take_flat"))


def axes(rng: Rng, shape: tuple[int, int, int], pair: tuple[str, str], takes: bool) -> Args:
    rows, cols = pick(pair[0], shape[0]), pick(pair[1], shape[1])
    block = (count(rows, shape[0]), count(cols, shape[1]), shape[2])
    values = blank(*block) if takes else normal(rng, *block)
    return {"w": normal(rng, *shape), "rows": rows, "cols": cols, "values": values}


def flat(rng: Rng, size: int, kind: str, takes: bool) -> Args:
    chosen = pick(kind, size)
    assert chosen is not None
    values = blank(len(chosen)) if takes else normal(rng, len(chosen))
    return {"w": normal(rng, size), "ids": chosen.astype(np.uint32), "values": values}
