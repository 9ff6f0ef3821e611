"""Adversarial calls of smooth activations and PReLU. cases.py says what a case is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from edgefl.kernels.table import ACTIVATIONS

from .cases import EMPTY_PLANES, PLANES, SELECTIONS, Args, Case, Rng, blank, normal, pick, shape_label

IMAGE = (2, 6, 4, 5)
LARGE = (16, 24, 16, 18)
SETTINGS = ((1.0, 20.0), (2.0, 3.0), (0.5, 1.0))  # beta and threshold
ALPHAS = (1.0, 0.25, -0.5, 3.0)
EDGES = (0.0, -0.0, 1e-30, -1e-4, 0.59, 0.61, -0.6, 3.0, -3.0, 2.9, 8.0, -9.0, 20.5, 60.0, -60.0, 1e4, -1e4, -1e30)


def cases() -> Iterator[Case]:
    for number, shape in enumerate(PLANES + EMPTY_PLANES):
        label = shape_label(*shape)
        for kind in range(len(ACTIVATIONS)) if number % 4 == 0 else [number % len(ACTIVATIONS)]:
            named, selection = f"{ACTIVATIONS[kind]}-{label}", ("all", *SELECTIONS[1:])[(number + kind) % 6]
            yield Case("activation_forward", named, lambda rng, s=shape, k=kind: forward(rng, s, k))
            yield Case(
                "activation_backward",
                f"{named}-{selection}",
                lambda rng, s=shape, k=kind, c=selection: backward(rng, s, k, c),
            )
        selection, alpha = ("all", *SELECTIONS[1:])[number % 6], ALPHAS[number % len(ALPHAS)]
        yield Case("elu_forward", label, lambda rng, s=shape, a=alpha: elu_forward(rng, s, a))
        yield Case(
            "elu_backward",
            f"{label}-{selection}",
            lambda rng, s=shape, a=alpha, c=selection: elu_backward(rng, s, a, c),
        )
        for each in (False, True):
            named, selection = f"{label}-{'each' if each else 'one'}", ("all", *SELECTIONS[1:])[number % 6]
            yield Case("prelu_forward", named, lambda rng, s=shape, e=each: prelu_forward(rng, s, e))
            yield Case(
                "prelu_backward",
                f"{named}-{selection}",
                lambda rng, s=shape, e=each, c=selection: prelu_backward(rng, s, e, c),
            )
    for label, shape in (("ordinary", IMAGE), ("large", LARGE)):
        kind = ACTIVATIONS.index("gelu")
        yield Case("activation_forward", label, lambda rng, s=shape, k=kind: forward(rng, s, k))
        yield Case("activation_backward", label, lambda rng, s=shape, k=kind: backward(rng, s, k, "odd"))
        yield Case("elu_forward", label, lambda rng, s=shape: elu_forward(rng, s, 1.5))
        yield Case("elu_backward", label, lambda rng, s=shape: elu_backward(rng, s, 1.5, "odd"))
        yield Case("prelu_forward", label, lambda rng, s=shape: prelu_forward(rng, s, True))
        yield Case("prelu_backward", label, lambda rng, s=shape: prelu_backward(rng, s, True, "odd"))


def inputs(rng: Rng, shape: tuple[int, ...]) -> np.ndarray:
    """Values of ordinary size, and among them those where a formula changes."""
    x = 2 * normal(rng, *shape)
    flat = x.reshape(-1)
    positions = rng.permutation(flat.size)[: len(EDGES)]
    flat[positions] = np.float32(EDGES[: len(positions)])
    return x


def forward(rng: Rng, shape: tuple[int, ...], kind: int) -> Args:
    beta, threshold = SETTINGS[kind % len(SETTINGS)]
    return {"x": inputs(rng, shape), "kind": kind, "beta": beta, "threshold": threshold, "y": blank(*shape)}


def backward(rng: Rng, shape: tuple[int, ...], kind: int, selection: str) -> Args:
    beta, threshold = SETTINGS[kind % len(SETTINGS)]
    saved = inputs(rng, shape)
    if ACTIVATIONS[kind] in ("sigmoid", "tanh"):
        saved = np.tanh(saved).astype(np.float32) if ACTIVATIONS[kind] == "tanh" else np.abs(np.tanh(saved))
    return {
        "dy": normal(rng, *shape),
        "saved": saved,
        "kind": kind,
        "beta": beta,
        "threshold": threshold,
        "dx": blank(*shape),
        "channels": pick(selection, shape[1]),
    }


def elu_forward(rng: Rng, shape: tuple[int, ...], alpha: float) -> Args:
    return {"x": inputs(rng, shape), "alpha": alpha, "y": blank(*shape)}


def elu_backward(rng: Rng, shape: tuple[int, ...], alpha: float, selection: str) -> Args:
    channels = pick(selection, shape[1])
    return {
        "dy": normal(rng, *shape), "x": inputs(rng, shape), "alpha": alpha, "dx": blank(*shape), "channels": channels
    }  # fmt: skip


def prelu_forward(rng: Rng, shape: tuple[int, ...], each: bool) -> Args:
    x = inputs(rng, shape)
    return {"x": x, "weight": normal(rng, shape[1] if each else 1), "y": blank(*shape)}


def prelu_backward(rng: Rng, shape: tuple[int, ...], each: bool, selection: str) -> Args:
    weights = shape[1] if each else 1
    outs = pick(selection, weights) if each else None
    return {
        "dy": normal(rng, *shape),
        "x": inputs(rng, shape),
        "weight": normal(rng, weights),
        "dx": blank(*shape),
        "dweight": blank(weights if outs is None else len(outs)),
        "channels": pick(selection, shape[1]),
        "outs": outs,
    }
