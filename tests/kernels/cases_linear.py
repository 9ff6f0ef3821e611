"""Adversarial linear layers and bias gradients. cases.py says what a case is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .cases import EMPTY_PLANES, PLANES, SELECTIONS, WIDTHS, Args, Case, Rng, blank, count, normal, pick, shape_label


def cases() -> Iterator[Case]:
    shapes = [(2, n, 5) for n in (0, *WIDTHS)] + [(2, 5, n) for n in (0, *WIDTHS)] + [(n, 6, 5) for n in (0, *WIDTHS)]
    shapes += [(16, 120, 84), (5, 33, 31), (17, 450, 35), (1, 257, 129), (33, 7, 200)]
    shapes += [(64, 0, 70), (64, 1, 64), (65, 130, 66), (71, 257, 129), (130, 201, 65)]
    pairs = [("all", "all"), ("none", "odd"), ("odd", "none"), ("one", "but_one"), ("but_one", "one"), ("every", "odd")]
    for number, (batch, ins, outs) in enumerate(dict.fromkeys(shapes)):
        size, label = (batch, ins, outs), shape_label(batch, ins, outs)
        yield Case("linear_forward", label, lambda rng, s=size, b=number % 2: linear_forward(rng, *s, bool(b)))
        chosen = pairs if batch * ins * outs > 9000 else [pairs[0], pairs[1 + number % 5]]
        for pair in chosen:
            tag = f"{label}-{pair[0]}-{pair[1]}"
            yield Case("linear_grad_input", tag, lambda rng, s=size, p=pair: linear_grad_input(rng, *s, *p))
            yield Case("linear_grad_weight", tag, lambda rng, s=size, p=pair: linear_grad_weight(rng, *s, *p))
            compact = number % 2 == 1
            yield Case("linear_update", tag, lambda rng, s=size, p=pair, c=compact: linear_update(rng, *s, *p, c))

    yield from channel_sum_cases()
    yield from ordinary_and_large()


def ordinary_and_large() -> Iterator[Case]:
    size, big = (4, 5, 6), (67, 450, 131)
    yield Case("linear_forward", "ordinary", lambda rng: linear_forward(rng, *size, True))
    yield Case("linear_forward", "large", lambda rng: linear_forward(rng, *big, True))
    yield Case("linear_grad_input", "ordinary", lambda rng: linear_grad_input(rng, *size, "odd", "but_one"))
    yield Case("linear_grad_input", "large", lambda rng: linear_grad_input(rng, *big, "all", "all"))
    yield Case("linear_grad_input", "large-chosen", lambda rng: linear_grad_input(rng, *big, "odd", "but_one"))
    yield Case("linear_grad_weight", "ordinary", lambda rng: linear_grad_weight(rng, *size, "odd", "but_one"))
    yield Case("linear_grad_weight", "large", lambda rng: linear_grad_weight(rng, *big, "odd", "but_one"))
    yield Case("linear_update", "ordinary", lambda rng: linear_update(rng, *size, "odd", "but_one", False))
    yield Case("linear_update", "large", lambda rng: linear_update(rng, *big, "odd", "but_one", True))
    yield Case("channel_sum", "ordinary", lambda rng: channel_sum(rng, (2, 6, 4, 5), "odd"))
    yield Case("channel_sum", "large", lambda rng: channel_sum(rng, (16, 24, 16, 18), "all"))


def linear_forward(rng: Rng, batch: int, ins: int, outs: int, has_bias: bool) -> Args:
    bias = normal(rng, outs) if has_bias else None
    return {"x": normal(rng, batch, ins), "weight": normal(rng, outs, ins), "bias": bias, "y": blank(batch, outs)}


def linear_grad_input(rng: Rng, batch: int, ins: int, outs: int, rows: str, cols: str) -> Args:
    args = {"dy": normal(rng, batch, outs), "weight": normal(rng, outs, ins), "dx": blank(batch, ins)}
    return {**args, "outs": pick(rows, outs), "ins": pick(cols, ins)}


def linear_grad_weight(rng: Rng, batch: int, ins: int, outs: int, rows: str, cols: str) -> Args:
    chosen = pick(rows, outs), pick(cols, ins)
    dw = blank(count(chosen[0], outs), count(chosen[1], ins))
    return {"x": normal(rng, batch, ins), "dy": normal(rng, batch, outs), "dw": dw, "outs": chosen[0], "ins": chosen[1]}


def linear_update(rng: Rng, batch: int, ins: int, outs: int, rows: str, cols: str, is_compact: bool) -> Args:
    """is_compact: x holds the chosen columns only."""
    chosen = pick(rows, outs), pick(cols, ins)
    x = normal(rng, batch, count(chosen[1], ins) if is_compact else ins)
    read = {"x": x, "dy": normal(rng, batch, outs), "w": normal(rng, outs, ins)}
    hyper = np.array([0.1, 0, 0.01, 0], np.float32)
    return {**read, "hyper": hyper, "outs": chosen[0], "ins": None if is_compact else chosen[1], "cols": chosen[1]}


def channel_sum_cases() -> Iterator[Case]:
    for number, shape in enumerate(PLANES + EMPTY_PLANES):
        for kind in ("all", SELECTIONS[1 + number % 5]):
            yield Case(
                "channel_sum", f"{shape_label(*shape)}-{kind}", lambda rng, s=shape, k=kind: channel_sum(rng, s, k)
            )


def channel_sum(rng: Rng, shape: tuple[int, ...], kind: str) -> Args:
    outs = pick(kind, shape[1])
    return {"dy": normal(rng, *shape), "out": blank(count(outs, shape[1])), "outs": outs}
