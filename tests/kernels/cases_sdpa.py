"""Adversarial calls of attention with shared keys, a bias, a window and dropout. cases.py says what a case is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from edgefl.kernels import reference

from .cases import SELECTIONS, WIDTHS, Args, Case, Rng, blank, normal, pick


class Heads(NamedTuple):
    """The extents and settings of a call. `masks` is 0 for a call without a bias."""

    batch: int = 2
    heads: int = 2
    kv_heads: int = 1
    size: int = 3
    places: int = 5
    masks: int = 0
    causal: bool = False
    window: int = 0
    threshold: int = 0

    @property
    def label(self) -> str:
        return "-".join(f"{name}{int(value)}" for name, value in self._asdict().items())


THIRD = 1 << 30
CALLS = [
    *(Heads(places=places, causal=bool(places % 2)) for places in WIDTHS),
    Heads(1, 1, 1, 1, 1),
    Heads(3, 4, 2, 5, 70, masks=2, causal=True, window=9, threshold=THIRD),
    Heads(1, 2, 2, 4, 130, masks=1, threshold=THIRD),
    Heads(2, 6, 2, 8, 33, masks=6, window=3),
    Heads(1, 2, 1, 17, 65, causal=True, window=64),
    Heads(0, 2, 1, 3, 4, masks=1),
    Heads(2, 2, 1, 3, 0),
]
ORDINARY, LARGE = Heads(places=6, threshold=THIRD), Heads(4, 6, 3, 8, 96, causal=True, threshold=THIRD)


def cases() -> Iterator[Case]:
    for number, call in enumerate(CALLS):
        selection = SELECTIONS[number % len(SELECTIONS)]
        yield Case("sdpa_forward", call.label, lambda rng, c=call, k=bool(number % 2): forward(rng, c, k))
        yield Case("sdpa_backward", f"{call.label}-{selection}", lambda rng, c=call, n=selection: backward(rng, c, n))
    for label, call in (("ordinary", ORDINARY), ("large", LARGE)):
        yield Case("sdpa_forward", label, lambda rng, c=call: forward(rng, c, True))
        yield Case("sdpa_backward", label, lambda rng, c=call: backward(rng, c, "all"))


def forward(rng: Rng, call: Heads, keeps: bool) -> Args:
    rows = (call.heads + 2 * call.kv_heads) * call.size
    return {
        "qkv": normal(rng, call.batch, rows, call.places),
        "bias": normal(rng, call.masks, call.places, call.places) if call.masks else None,
        "state": np.array((-1, 3, 2), np.int64) if call.threshold else None,
        **_settings(call),
        "y": blank(call.batch, call.heads * call.size, call.places),
        "lse": blank(call.batch, call.heads, call.places) if keeps else None,
    }


def _settings(call: Heads) -> dict[str, Any]:
    return {
        "heads": call.heads,
        "kv_heads": call.kv_heads,
        "masks": max(call.masks, 1),
        "causal": call.causal,
        "window": call.window,
        "scale": 0.5,
        "node": 7,
        "threshold": call.threshold,
        "keep_scale": 4 / 3,
    }


def backward(rng: Rng, call: Heads, selection: str) -> Args:
    """Make the arguments with the logarithms that belong to qkv."""
    made = forward(rng, call, True)
    wide = {n: v.astype(np.float64) if getattr(v, "dtype", None) == np.float32 else v for n, v in made.items()}
    reference.sdpa_forward(**wide)
    return {
        "dy": normal(rng, call.batch, call.heads * call.size, call.places),
        "qkv": made["qkv"],
        "bias": made["bias"],
        "state": made["state"],
        "lse": wide["lse"].astype(np.float32),
        **_settings(call),
        "dqkv": blank(*made["qkv"].shape),
        "dbias": blank(call.masks, call.places, call.places) if call.masks else None,
        "kv_needed": pick("all" if call.masks else selection, call.kv_heads),
    }
