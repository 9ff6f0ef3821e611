"""Adversarial normalisations alone. Normalisations with ReLU and pooling come from cases_norm_relu.py, and are yielded,
too.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from . import cases_norm_relu as norm_relu
from .cases import EMPTY_PLANES, PLANES, SELECTIONS, WIDTHS, Args, Case, Rng, blank, count, normal, pick, shape_label

IMAGE = (2, 6, 4, 5)
LARGE = (16, 24, 16, 18)


def cases() -> Iterator[Case]:
    for number, shape in enumerate(PLANES + EMPTY_PLANES[1:2]):
        label = shape_label(*shape)
        spread = (1.0, 0.0, 100.0)[number % 3]  # ordinary, constant channels, a mean far from 0
        yield Case("batchnorm_forward", label, lambda rng, s=shape, a=spread: batchnorm_forward(rng, s, a))
        yield Case("batchnorm_eval", label, lambda rng, s=shape: batchnorm_eval(rng, s))
        for kinds in (("all", "all"), ("all", "odd"), ("but_one", "but_one"), ("odd", "none"), ("one", "one")):
            tag = f"{label}-{kinds[0]}-{kinds[1]}"
            yield Case("batchnorm_backward", tag, lambda rng, s=shape, k=kinds: batchnorm_backward(rng, s, *k))
    for number, shape in enumerate([(2, 4, 5), (1, 6, 3, 3), (3, 8, 16), (2, 3, 17), (5, 12), (0, 4, 3), (2, 1, 9)]):
        for groups in [g for g in (1, 2, 3, shape[1]) if shape[1] % g == 0]:
            label, keep = f"{shape_label(*shape)}-g{groups}", number % 2 == 0
            yield Case(
                "groupnorm_forward", label, lambda rng, s=shape, g=groups, k=keep: groupnorm_forward(rng, s, g, k)
            )
            for kind in ("all", "none", "one", "but_one"):
                tag = f"{label}-{kind}"
                yield Case(
                    "groupnorm_backward", tag, lambda rng, s=shape, g=groups, k=kind: groupnorm_backward(rng, s, g, k)
                )

    for number, inner in enumerate((*WIDTHS, 31, 70)):
        for channels in (1, 3, 17):
            shape, keep, kind = (2, channels, inner), number % 2 == 0, SELECTIONS[(number + channels) % len(SELECTIONS)]
            label, tag = shape_label(*shape), f"{shape_label(*shape)}-{kind}"
            yield Case("layernorm_forward", label, lambda rng, s=shape, k=keep: layernorm_forward(rng, s, k))
            yield Case("layernorm_backward", tag, lambda rng, s=shape, k=kind: layernorm_backward(rng, s, k))
    yield from norm_relu.cases()
    yield from ordinary_and_large()


def ordinary_and_large() -> Iterator[Case]:
    yield Case("batchnorm_forward", "ordinary", lambda rng: batchnorm_forward(rng, IMAGE, 1.0))
    yield Case("batchnorm_forward", "large", lambda rng: batchnorm_forward(rng, LARGE, 1.0))
    yield Case("batchnorm_eval", "ordinary", lambda rng: batchnorm_eval(rng, IMAGE))
    yield Case("batchnorm_eval", "large", lambda rng: batchnorm_eval(rng, LARGE))
    yield Case("batchnorm_backward", "ordinary", lambda rng: batchnorm_backward(rng, IMAGE, "every", "odd"))
    yield Case("batchnorm_backward", "large", lambda rng: batchnorm_backward(rng, LARGE, "but_one", "but_one"))
    yield Case("groupnorm_forward", "ordinary", lambda rng: groupnorm_forward(rng, IMAGE, 3, True))
    yield Case("groupnorm_forward", "large", lambda rng: groupnorm_forward(rng, LARGE, 2, True))
    yield Case("groupnorm_backward", "ordinary", lambda rng: groupnorm_backward(rng, IMAGE, 3, "but_one"))
    yield Case("groupnorm_backward", "large", lambda rng: groupnorm_backward(rng, LARGE, 4, "but_one"))

    for label, shape in (("ordinary", (2, 6, 9)), ("large", (16, 24, 300))):
        yield Case("layernorm_forward", label, lambda rng, s=shape: layernorm_forward(rng, s, True))
        yield Case("layernorm_backward", label, lambda rng, s=shape: layernorm_backward(rng, s, "odd"))


def _affine(rng: Rng, channels: int) -> Args:
    return {"weight": normal(rng, channels), "bias": normal(rng, channels)}


def batchnorm_forward(rng: Rng, shape: tuple[int, ...], spread: float) -> Args:
    x = normal(rng, *shape) + np.float32(100 if spread == 100 else 0)
    x = np.full_like(x, 3) if spread == 0 else x
    channels = shape[1]
    running = {"running_mean": normal(rng, channels), "running_var": np.abs(normal(rng, channels))}
    written = {"y": blank(*shape), "xhat": blank(*shape), "inv_std": blank(channels)}
    return {"x": x, **_affine(rng, channels), **running, **written, "eps": 1e-5, "momentum": 0.1}


def batchnorm_eval(rng: Rng, shape: tuple[int, ...]) -> Args:
    running = {"running_mean": normal(rng, shape[1]), "running_var": np.abs(normal(rng, shape[1]))}
    return {"x": normal(rng, *shape), **_affine(rng, shape[1]), **running, "y": blank(*shape), "eps": 1e-3}


def batchnorm_backward(rng: Rng, shape: tuple[int, ...], needed: str, active: str) -> Args:
    channels, outs = pick(needed, shape[1]), pick(active, shape[1])
    rows = count(outs, shape[1])
    read = {"dy": normal(rng, *shape), "xhat": normal(rng, *shape), "weight": normal(rng, shape[1])}
    written = {"dx": blank(*shape), "dweight": blank(rows), "dbias": blank(rows)}
    return {**read, "inv_std": np.abs(normal(rng, shape[1])), **written, "channels": channels, "outs": outs}


def groupnorm_forward(rng: Rng, shape: tuple[int, ...], groups: int, keeps_xhat: bool) -> Args:
    written = {"y": blank(*shape), "xhat": blank(*shape) if keeps_xhat else None, "inv_std": blank(shape[0], groups)}
    return {"x": normal(rng, *shape), **_affine(rng, shape[1]), **written, "groups": groups, "eps": 1e-5}


def groupnorm_backward(rng: Rng, shape: tuple[int, ...], groups: int, kind: str) -> Args:
    needed, members = pick(kind, groups), shape[1] // groups
    outs = None if needed is None else np.array([g * members for g in needed], np.int32)
    rows = count(outs, shape[1])
    read = {"dy": normal(rng, *shape), "xhat": normal(rng, *shape), "weight": normal(rng, shape[1])}
    written = {"dx": blank(*shape), "dweight": blank(rows), "dbias": blank(rows)}
    inv_std = np.abs(normal(rng, shape[0], groups))
    return {**read, "inv_std": inv_std, **written, "groups": groups, "groups_needed": needed, "outs": outs}


def layernorm_forward(rng: Rng, shape: tuple[int, ...], keeps_xhat: bool) -> Args:
    batch, channels, inner = shape
    written = {"y": blank(*shape), "xhat": blank(*shape) if keeps_xhat else None, "inv_std": blank(batch, inner)}
    x = normal(rng, *shape) + np.float32(0 if inner % 2 else 30)
    return {"x": x, **_affine(rng, channels), **written, "eps": 1e-5}


def layernorm_backward(rng: Rng, shape: tuple[int, ...], kind: str) -> Args:
    batch, channels, inner = shape
    outs = pick(kind, channels)
    rows = count(outs, channels)
    read = {"dy": normal(rng, *shape), "xhat": normal(rng, *shape), "weight": normal(rng, channels)}
    written = {"dx": blank(*shape), "dweight": blank(rows), "dbias": blank(rows)}
    return {**read, "inv_std": np.abs(normal(rng, batch, inner)), **written, "outs": outs}
