"""Adversarial steps of SGD, and of the norm that clips them; see cases.py for what a case is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .cases import BLOCKS, WIDTHS, Args, Case, Rng, blank, count, normal, pick, shape_label

SgdVariant = tuple[float, float, float, float, tuple[str, ...]]

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


def cases() -> Iterator[Case]:
    yield from sgd_cases()
    for size in (0, *WIDTHS, 1000):
        yield Case("sum_squares", str(size), lambda rng, n=size: {"x": normal(rng, n), "total": np.array([0.5])})
    for total, norm in ((0.0, 1.0), (4.0, 1.0), (4.0, 100.0), (1e-12, 1e-3), (1e20, 5.0), (9.0, 0.0)):
        args = {"total": np.array([total]), "max_norm": norm}
        yield Case("clip_scale", f"{total:g}-{norm:g}", lambda rng, a=args: {**a, "scale": blank(1)})
    big, everything, momentum = (64, 48, 25), SGD_VARIANTS["everything"], SGD_VARIANTS["momentum"]
    yield Case("sum_squares", "ordinary", lambda rng: {"x": normal(rng, 9), "total": np.zeros(1)})
    yield Case("sum_squares", "large", lambda rng: {"x": normal(rng, 200_001), "total": np.zeros(1)})
    for label in ("ordinary", "large"):
        yield Case("clip_scale", label, lambda rng: {"total": np.array([7.0]), "max_norm": 1.0, "scale": blank(1)})
    yield Case("sgd", "ordinary", lambda rng: sgd(rng, (6, 4, 3), everything, ("odd", "but_one")))
    yield Case("sgd", "large", lambda rng: sgd(rng, big, everything, ("all", "all")))
    yield Case("sgd", "large-chosen", lambda rng: sgd(rng, big, momentum, ("odd", "but_one")))


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
