"""Adversarial calls of operations that move channels, planes and cells. cases.py says what a case is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from . import stored_weights
from .cases import SELECTIONS, WIDTHS, Args, Case, Rng, blank, count, normal, pick, shape_label

PARTS = [(2, 3, 5, 0), (3, 1, 4, 3), (1, 4, 4, 0), (2, 2, 9, 4), (0, 2, 3, 1), (2, 0, 3, 3)]
"""Batch, channels of the part and of all, and where the part begins."""

ROOMS = [(0, 0, 0, 0), (1, 2, 0, 3), (0, 1, 2, 0), (2, 0, 1, 1)]
"""Rows above and below, columns before and after."""


RESAMPLED = [
    *((mode, (2, 3), result, (0, 0)) for mode in (0, 1) for result in ((4, 6), (3, 4), (1, 2), (2, 3))),
    *((mode, (1, 8), result, (0, 0)) for mode in (0, 1) for result in ((1, 17), (5, 3))),
    (2, (3, 4), (6, 8), (1, 2)),
    (2, (1, 9), (1, 20), (0, 8)),
    (3, (2, 3), (8, 9), (4, 0)),
    (3, (1, 9), (1, 12), (0, 1)),
    (4, (3, 4), (8, 9), (3, 1)),
    (4, (1, 1), (2, 3), (0, 1)),
    (5, (3, 4), (3, 4), (0, 0)),
    (5, (1, 17), (1, 17), (0, 0)),
]
"""The number in RESAMPLINGS, rows and columns before and after, and the corner of what lies inside."""


def cases() -> Iterator[Case]:
    for mode, size, result, corner in RESAMPLED:
        for planes in ((2, 3), (0, 1)):
            label, shapes = f"{mode}-{size}to{result}x{planes[0]}", ((*planes, *size), (*planes, *result))
            yield Case("resample_forward", label, lambda rng, s=shapes, m=(mode, *corner): resampled(rng, *s, m))
            yield Case("resample_backward", label, lambda rng, s=shapes, m=(mode, *corner): spread(rng, *s, m))
    for number, (batch, part, whole, first) in enumerate(PARTS):
        for inner in ((), (1,), (WIDTHS[number % len(WIDTHS)], 3)):
            label = f"{batch}x{part}of{whole}from{first}x{len(inner)}"
            shapes = (batch, part, *inner), (batch, whole, *inner)
            yield Case("put_channels", label, lambda rng, s=shapes, f=first: put(rng, *s, f))
            yield Case("get_channels", label, lambda rng, s=shapes, f=first: get(rng, *s, f))
    for number, room in enumerate(ROOMS):
        for width in WIDTHS:
            shape, label = (2, 1 + number, 1 + number, width), f"{room}x{width}"
            yield Case("pad_planes", label, lambda rng, s=shape, r=room: padded(rng, s, r))
            yield Case("crop_planes", label, lambda rng, s=shape, r=room: cropped(rng, s, r))
    for scale in ((1, 1), (2, 2), (3, 1), (1, 4)):
        for width in WIDTHS[:4]:
            shape, label = (2, 3, 2, width), f"{scale}x{width}"
            yield Case("upsample_forward", label, lambda rng, s=shape, k=scale: up(rng, s, k))
            yield Case("upsample_backward", label, lambda rng, s=shape, k=scale: down(rng, s, k))
    sides = [(1, 1), (0, 3), (3, 0), *zip(WIDTHS, WIDTHS[::-1], strict=True)]
    for number, (rows, cols) in enumerate(sides):
        for inner in ((), (WIDTHS[number % len(WIDTHS)],)):
            shape = (2, rows, cols, *inner)
            yield Case("transpose", shape_label(*shape), lambda rng, s=shape: transposed(rng, s))
    for number, length in enumerate((0, *WIDTHS)):
        for features in (1, WIDTHS[number % len(WIDTHS)], WIDTHS[-1]):
            shape, kind = (2, length, features), SELECTIONS[(number + features) % len(SELECTIONS)]
            yield Case("embedding_forward", shape_label(*shape), lambda rng, s=shape: looked_up(rng, s, 5))
            tag, padding = f"{shape_label(*shape)}-{kind}", number % 6 - 1
            yield Case("embedding_backward", tag, lambda rng, s=shape, p=padding, k=kind: summed_up(rng, s, 5, p, k))
    for label, shape, rows in (("ordinary", (2, 7, 6), 4), ("large", (16, 60, 70), 300)):
        yield Case("transpose", label, lambda rng, s=shape: transposed(rng, s))
        yield Case("embedding_forward", label, lambda rng, s=shape, r=rows: looked_up(rng, s, r))
        yield Case("embedding_backward", label, lambda rng, s=shape, r=rows: summed_up(rng, s, r, 1, "odd"))
    yield from stored_weights.looked_up()
    for label, shape in (("ordinary", (2, 3, 4, 5)), ("large", (16, 12, 20, 22))):
        batch, channels, *plane = shape
        whole = (batch, channels + 4, *plane)
        yield Case("put_channels", label, lambda rng, s=shape, w=whole: put(rng, s, w, 2))
        yield Case("get_channels", label, lambda rng, s=shape, w=whole: get(rng, s, w, 2))
        yield Case("pad_planes", label, lambda rng, s=shape: padded(rng, s, (1, 0, 2, 1)))
        yield Case("crop_planes", label, lambda rng, s=shape: cropped(rng, s, (1, 0, 2, 1)))
        yield Case("upsample_forward", label, lambda rng, s=shape: up(rng, s, (2, 3)))
        yield Case("upsample_backward", label, lambda rng, s=shape: down(rng, s, (2, 3)))
        bordered = _larger(shape, (1, 2, 2, 1))
        yield Case("resample_forward", label, lambda rng, s=(shape, bordered): resampled(rng, *s, (2, 1, 2)))
        yield Case("resample_backward", label, lambda rng, s=(shape, bordered): spread(rng, *s, (0, 0, 0)))


def put(rng: Rng, part: tuple[int, ...], whole: tuple[int, ...], first: int) -> Args:
    return {"x": normal(rng, *part), "first": first, "y": normal(rng, *whole)}


def get(rng: Rng, part: tuple[int, ...], whole: tuple[int, ...], first: int) -> Args:
    return {"y": normal(rng, *whole), "first": first, "x": blank(*part)}


def _larger(shape: tuple[int, ...], room: tuple[int, int, int, int]) -> tuple[int, ...]:
    above, below, before, after = room
    return (*shape[:2], shape[2] + above + below, shape[3] + before + after)


def padded(rng: Rng, shape: tuple[int, ...], room: tuple[int, int, int, int]) -> Args:
    return {"x": normal(rng, *shape), "top": room[0], "left": room[2], "y": blank(*_larger(shape, room))}


def cropped(rng: Rng, shape: tuple[int, ...], room: tuple[int, int, int, int]) -> Args:
    return {"y": normal(rng, *_larger(shape, room)), "top": room[0], "left": room[2], "x": blank(*shape)}


def _scaled(shape: tuple[int, ...], scale: tuple[int, int]) -> tuple[int, ...]:
    return (*shape[:2], shape[2] * scale[0], shape[3] * scale[1])


def up(rng: Rng, shape: tuple[int, ...], scale: tuple[int, int]) -> Args:
    return {"x": normal(rng, *shape), "scale": scale, "y": blank(*_scaled(shape, scale))}


def down(rng: Rng, shape: tuple[int, ...], scale: tuple[int, int]) -> Args:
    return {"dy": normal(rng, *_scaled(shape, scale)), "scale": scale, "dx": blank(*shape)}


def resampled(rng: Rng, size: tuple[int, ...], result: tuple[int, ...], settings: tuple[int, int, int]) -> Args:
    mode, top, left = settings
    return {"x": normal(rng, *size), "mode": mode, "top": top, "left": left, "y": blank(*result)}


def spread(rng: Rng, size: tuple[int, ...], result: tuple[int, ...], settings: tuple[int, int, int]) -> Args:
    mode, top, left = settings
    return {"dy": normal(rng, *result), "mode": mode, "top": top, "left": left, "dx": blank(*size)}


def transposed(rng: Rng, shape: tuple[int, ...]) -> Args:
    batch, rows, cols, *inner = shape
    return {"x": normal(rng, *shape), "y": blank(batch, cols, rows, *inner)}


def drawn_ids(rng: Rng, batch: int, length: int, rows: int) -> Args:
    """Some of them again and again."""
    return {"ids": (rng.integers(0, rows, (batch, length)) % max(rows - 1, 1)).astype(np.float32)}


def looked_up(rng: Rng, shape: tuple[int, ...], rows: int) -> Args:
    batch, length, features = shape
    weight = normal(rng, rows, features)
    return {**drawn_ids(rng, batch, length, rows), "weight": weight, "y": blank(batch, features, length)}


def summed_up(rng: Rng, shape: tuple[int, ...], rows: int, padding: int, kind: str) -> Args:
    batch, length, features = shape
    cols, ids = pick(kind, features), drawn_ids(rng, batch, length, rows)
    dy, dweight = normal(rng, batch, features, length), blank(rows, count(cols, features))
    return {"dy": dy, **ids, "dweight": dweight, "padding": padding, "cols": cols}
