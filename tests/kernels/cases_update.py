"""Adversarial steps of SGD and Adam, and of the norm that clips them. cases.py says what a case is."""

from __future__ import annotations

import itertools
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
        for kind in ("none", "copy"):
            yield Case("sum_squared_changes", f"{size}-{kind}", lambda rng, n=size, k=kind: changes(rng, n, k))
        for others in ("", "second", "third fourth", "second third fourth"):
            label = f"{size}-{others.replace(' ', '-') or 'x'}"
            yield Case("add_scaled", label, lambda rng, n=size, o=others: scaled(rng, n, o))
    for total, norm in ((0.0, 1.0), (4.0, 1.0), (4.0, 100.0), (1e-12, 1e-3), (1e20, 5.0), (9.0, 0.0)):
        args = {"total": np.array([total]), "max_norm": norm}
        yield Case("clip_scale", f"{total:g}-{norm:g}", lambda rng, a=args: {**a, "scale": blank(1)})
    big, everything, momentum = (64, 48, 25), SGD_VARIANTS["everything"], SGD_VARIANTS["momentum"]
    yield Case("sum_squares", "ordinary", lambda rng: {"x": normal(rng, 9), "total": np.zeros(1)})
    yield Case("sum_squares", "large", lambda rng: {"x": normal(rng, 200_001), "total": np.zeros(1)})
    for label, size in {"ordinary": 9, "large": 200_001}.items():
        yield Case("sum_squared_changes", label, lambda rng, n=size: changes(rng, n, "copy"))
        yield Case("add_scaled", label, lambda rng, n=size: scaled(rng, n, "second third fourth"))
    for label in ("ordinary", "large"):
        yield Case("clip_scale", label, lambda rng: {"total": np.array([7.0]), "max_norm": 1.0, "scale": blank(1)})
    yield from nesterov_cases()
    yield from adam_cases()
    yield Case("sgd", "ordinary", lambda rng: sgd(rng, (6, 4, 3), everything, ("odd", "but_one")))
    yield Case("sgd", "large", lambda rng: sgd(rng, big, everything, ("all", "all")))
    yield Case("sgd", "large-chosen", lambda rng: sgd(rng, big, momentum, ("odd", "but_one")))


def changes(rng: Rng, size: int, kind: str) -> Args:
    copy = blank(size) if kind == "copy" else None
    return {"x": normal(rng, size), "before": normal(rng, size), "total": np.array([0.5]), "copy": copy}


def scaled(rng: Rng, size: int, others: str) -> Args:
    given = {name: normal(rng, size) if name in others.split() else None for name in ("second", "third", "fourth")}
    factors = np.array([0.1, 0.7, -2.3, 1 / 3])
    return {"total": rng.standard_normal(size), "x": normal(rng, size), "factors": factors, **given}


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


ADAM_EXTRAS: dict[str, tuple[str, ...]] = {
    "plain": (),
    "decay": ("scale",),
    "decoupled": (),
    "everything": ("scale", "centre", "linear"),
}
PAIRS = [("all", "all"), ("none", "all"), ("one", "odd"), ("but_one", "but_one"), ("every", "one"), ("odd", "none")]


def nesterov_cases() -> Iterator[Case]:
    variants = {name: SGD_VARIANTS[name] for name in ("momentum", "everything")}
    for number, (shape, (variant, setting)) in enumerate(itertools.product(BLOCKS, variants.items())):
        label, pair = f"{variant}-{shape_label(*shape)}-{number}", PAIRS[number % 6]
        yield Case("nesterov", label, lambda rng, s=shape, v=setting, p=pair: nesterov(rng, s, v, p))
    everything, momentum = SGD_VARIANTS["everything"], SGD_VARIANTS["momentum"]
    yield Case("nesterov", "ordinary", lambda rng: nesterov(rng, (6, 4, 3), everything, ("odd", "but_one")))
    yield Case("nesterov", "large", lambda rng: nesterov(rng, (64, 48, 25), momentum, ("all", "all")))


def nesterov(rng: Rng, shape: tuple[int, int, int], variant: SgdVariant, pair: tuple[str, str]) -> Args:
    args = sgd(rng, shape, variant, pair)
    return {
        name: args[name] for name in ("w", "grad", "hyper", "rows", "cols", "velocity", "scale", "centre", "linear")
    }


def adam_cases() -> Iterator[Case]:
    for begun, (label, decoupled) in itertools.product((0, 1, 9, 100_000), {"adam": 0.0, "adamw": 1.0}.items()):
        settings = np.array([0.01, 0.9, 0.999, 1e-8, 0.1, decoupled, 0.5])
        args = {"settings": settings, "steps": np.array([begun], np.int64)}
        yield Case("begin_adam", f"{label}-{begun}", lambda rng, a=args: {**copied(a), "rates": blank(9)})
    for label in ("ordinary", "large"):
        yield Case("begin_adam", label, lambda rng: {**copied(args), "rates": blank(9)})
    for number, (shape, variant) in enumerate(itertools.product(BLOCKS, ADAM_EXTRAS)):
        label, pair = f"{variant}-{shape_label(*shape)}-{number}", PAIRS[(number + number // 4) % 6]
        yield Case("adam", label, lambda rng, s=shape, v=variant, p=pair: adam(rng, s, v, p))
    yield Case("adam", "ordinary", lambda rng: adam(rng, (6, 4, 3), "everything", ("odd", "but_one")))
    yield Case("adam", "large", lambda rng: adam(rng, (64, 48, 25), "decay", ("all", "all")))
    yield Case("adam", "large-chosen", lambda rng: adam(rng, (64, 48, 25), "decoupled", ("odd", "but_one")))


def copied(args: Args) -> Args:
    return {name: value.copy() for name, value in args.items()}


def adam(rng: Rng, shape: tuple[int, int, int], variant: str, pair: tuple[str, str]) -> Args:
    rows, cols = pick(pair[0], shape[0]), pick(pair[1], shape[1])
    block = (count(rows, shape[0]), count(cols, shape[1]), shape[2])
    decay, kept = {"decay": (0.1, 1.0), "decoupled": (0.0, 0.99)}.get(variant, (0.02, 0.98))
    pull = 0.3 if variant == "everything" else 0.0
    rates = np.array([0.1, 0.99, 0.01, 0.02, 0.3, 1e-8, decay, kept, pull], np.float32)
    states = {"mean": normal(rng, *block), "square": np.abs(normal(rng, *block))}
    extras: Args = {"scale": None, "centre": None, "linear": None}
    for name in ADAM_EXTRAS[variant]:
        extras[name] = np.array([0.25], np.float32) if name == "scale" else normal(rng, *block)
    read = {"w": normal(rng, *shape), "grad": normal(rng, *block), "rates": rates, "rows": rows, "cols": cols}
    return {**read, **states, **extras}
