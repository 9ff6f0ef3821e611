"""Calls of the operations that read a frozen weight in fewer bits, for the families that have them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .cases import WIDTHS, Args, Array, Case, Rng, blank, normal, pick, shape_label

KINDS = ("bfloat16", "rows", "cols", "both")
Layer = tuple[int, int, int, int]  # batch, ins, outs, positions
LAYERS: list[Layer] = [
    *((2, 3, outs, 5) for outs in WIDTHS),
    *((2, ins, 5, 6) for ins in (*WIDTHS, 449)),
    *((1, 2, 3, positions) for positions in (*WIDTHS, 257)),
    (0, 2, 3, 4),
    (2, 0, 3, 4),
    (2, 3, 0, 4),
    (2, 3, 4, 0),
]
ORDINARY, LARGE = (2, 6, 5, 7), [(2, 460, 530, 20), (3, 70, 530, 300)]
SELECTIONS = [("all", "all"), ("odd", "but_one"), ("none", "one"), ("but_one", "odd"), ("one", "all"), ("all", "none")]


def stored(rng: Rng, kind: str, rows: int, cols: int) -> dict[str, Array | None]:
    """Return the codes and scales of a weight of finite values."""
    scales = {"row_scale": normal(rng, rows) / 64, "col_scale": normal(rng, cols) / 64}
    given = {"bfloat16": (), "rows": ("row_scale",), "cols": ("col_scale",), "both": ("row_scale", "col_scale")}[kind]
    codes = rng.integers(0, 256, (rows, cols, 1), np.uint8)
    if kind == "bfloat16":
        codes = np.ascontiguousarray(normal(rng, rows, cols)[..., None].view(np.uint8)[..., 2:])
    return {"codes": codes, **{name: scale if name in given else None for name, scale in scales.items()}}


def widened() -> Iterator[Case]:
    shapes = [(rows, 3) for rows in (0, 1, 5)] + [(3, cols) for cols in (0, *WIDTHS, 33)]
    for kind in KINDS:
        for shape in shapes:
            yield Case("widen_weight", f"{shape_label(*shape)}-{kind}", lambda rng, s=shape, k=kind: widen(rng, k, *s))
        yield Case("widen_weight", f"large-{kind}", lambda rng, k=kind: widen(rng, k, 300, 700))
    yield Case("widen_weight", "ordinary", lambda rng: widen(rng, "both", 4, 6))


def products() -> Iterator[Case]:
    for number, layer in enumerate(LAYERS):
        kind, tag = KINDS[number % 4], f"{shape_label(*layer)}-{KINDS[number % 4]}"
        yield Case("pointwise_forward", tag, lambda rng, s=layer, k=kind, n=number: forward(rng, k, s, n % 3 > 0))
        chosen = SELECTIONS[number % len(SELECTIONS)]
        tag = f"{tag}-{'-'.join(chosen)}"
        yield Case("pointwise_grad_input", tag, lambda rng, s=layer, k=kind, c=chosen: grad_input(rng, k, s, *c))
    for kind in KINDS:  # several passes over the inputs, and no inputs
        for layer in ((1, 449, 3, 5), (2, 0, 3, 2)):
            tag = f"{shape_label(*layer)}-{kind}-bias"
            yield Case("pointwise_forward", tag, lambda rng, s=layer, k=kind: forward(rng, k, s, True))
    yield Case("pointwise_forward", "ordinary", lambda rng: forward(rng, "rows", ORDINARY, True))
    yield Case("pointwise_grad_input", "ordinary", lambda rng: grad_input(rng, "rows", ORDINARY, "odd", "but_one"))
    for layer in LARGE:
        for kind in ("bfloat16", "both"):
            label = f"large-{shape_label(*layer)}-{kind}"
            yield Case("pointwise_forward", label, lambda rng, s=layer, k=kind: forward(rng, k, s, True))
            yield Case("pointwise_grad_input", label, lambda rng, s=layer, k=kind: grad_input(rng, k, s, "all", "odd"))


def looked_up() -> Iterator[Case]:
    shapes = [(2, features, 5) for features in (0, *WIDTHS, 257)] + [(1, 3, n) for n in (0, *WIDTHS)] + [(0, 2, 3)]
    for number, shape in enumerate(shapes):
        kind = KINDS[number % 4]
        tag = f"{shape_label(*shape)}-{kind}"
        yield Case("embedding_stored", tag, lambda rng, s=shape, k=kind: look_up(rng, k, s, 5))
    yield Case("embedding_stored", "ordinary", lambda rng: look_up(rng, "rows", (2, 7, 6), 4))
    yield Case("embedding_stored", "large", lambda rng: look_up(rng, "bfloat16", (16, 60, 70), 300))


def widen(rng: Rng, kind: str, rows: int, cols: int) -> Args:
    return {**stored(rng, kind, rows, cols), "x": blank(rows, cols)}


def forward(rng: Rng, kind: str, layer: Layer, has_bias: bool) -> Args:
    batch, ins, outs, positions = layer
    bias = normal(rng, outs) if has_bias else None
    x = normal(rng, batch, ins, positions)
    return {"x": x, **stored(rng, kind, outs, ins), "bias": bias, "y": blank(batch, outs, positions)}


def grad_input(rng: Rng, kind: str, layer: Layer, rows: str, cols: str) -> Args:
    batch, ins, outs, positions = layer
    chosen = {"outs": pick(rows, outs), "ins": pick(cols, ins)}
    dy = normal(rng, batch, outs, positions)
    return {"dy": dy, **stored(rng, kind, outs, ins), "dx": blank(batch, ins, positions), **chosen}


def look_up(rng: Rng, kind: str, shape: tuple[int, int, int], rows: int) -> Args:
    batch, features, length = shape
    ids = rng.integers(0, rows, (batch, length)).astype(np.float32)
    return {"ids": ids, **stored(rng, kind, rows, features), "y": blank(batch, features, length)}
