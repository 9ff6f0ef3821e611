"""Adversarial gathers and scatters of parameters. cases.py says what a case is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .cases import BLOCKS, SELECTIONS, Args, Case, Rng, blank, count, normal, pick, shape_label


def cases() -> Iterator[Case]:
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

    for label, size in (("none", 0), ("one", 1), ("some", 17), ("ordinary", 11), ("large", 100_000)):
        yield Case("permute", label, lambda rng, n=size: permuted(rng, n))

    for op in ("take_axes", "put_axes"):
        pair, takes = ("odd", "but_one"), op == "take_axes"
        yield Case(op, "ordinary", lambda rng, p=pair, t=takes: axes(rng, (6, 4, 3), p, t))
        yield Case(op, "large", lambda rng, p=pair, t=takes: axes(rng, (64, 48, 25), p, t))
    for op in ("take_flat", "put_flat"):
        yield Case(op, "ordinary", lambda rng, o=op: flat(rng, 12, "odd", o == "take_flat"))
        yield Case(op, "large", lambda rng, o=op: flat(rng, 200_001, "odd", o == "take_flat"))


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


def permuted(rng: Rng, size: int) -> Args:
    order = rng.permutation(size).astype(np.uint32)
    return {"values": normal(rng, size), "order": order, "permuted": blank(size)}
