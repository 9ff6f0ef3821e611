"""Adversarial masked linear layers. cases.py says what a case is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from edgefl.kernels import reference
from edgefl.kernels import weight_structure as structures

from .cases import SENTINEL, WIDTHS, Args, Array, Case, Rng, blank, normal, shape_label

DENSITIES = (0.0, 0.05, 0.2, 0.5, 0.9, 1.0)
BATCHES = (1, 7, 16, 33, 128)
OPERATIONS = ("build", "forward", "grad_input", "grad_weight")


def cases() -> Iterator[Case]:
    """Yield widths at the edges of vectors, and panels of 128 rows and blocks of 48 to 384 columns, with one more and
    less.
    """
    shapes = [(n, 5, 6) for n in (0, *WIDTHS)] + [(3, n, 5) for n in (0, *WIDTHS)] + [(3, 5, n) for n in (0, *WIDTHS)]
    shapes += [(b, 70, 40) for b in BATCHES] + [(64, n, 9) for n in (47, 48, 49, 97)] + [(9, 385, 5), (65, 129, 7)]
    shapes += [(2, 11, n) for n in (127, 128, 129, 257)] + [(130, 131, 33)]
    for number, shape in enumerate(dict.fromkeys(shapes)):
        chosen = DENSITIES if shape[1] == 70 else (DENSITIES[number % 6], DENSITIES[(number + 2) % 6])
        for density in chosen:
            yield from of_layer(f"{shape_label(*shape)}-{density}", shape, density, bool(number % 2))
    yield from of_layer("ordinary", (4, 5, 6), 0.5, True)
    yield from of_layer("large", (67, 450, 261), 0.3, True)
    yield Case("sparse_linear_grad_input", "large-turned", lambda rng: grad_input(rng, (67, 261, 450), 0.3, True))


def of_layer(label: str, shape: tuple[int, int, int], density: float, flag: bool) -> Iterator[Case]:
    """Yield one call of each operation on a layer, and two calls of an input's gradient."""
    for name in OPERATIONS:
        make = globals()[name]
        yield Case(f"sparse_linear_{name}", label, lambda rng, m=make: m(rng, shape, density, flag))
    if label not in ("ordinary", "large"):
        turned = f"{label}-turned"
        yield Case("sparse_linear_grad_input", turned, lambda rng: grad_input(rng, shape, density, not flag))


def draw_mask(rng: Rng, outs: int, ins: int, density: float) -> Array:
    """A mask, of whose rows the first has all and the second none of its weights."""
    mask = (rng.random((outs, ins)) < density).astype(np.uint8)
    if 0 < density < 1:
        mask[:1], mask[1:2] = 1, 0
    return mask


def build(rng: Rng, shape: tuple[int, int, int], density: float, is_both: bool) -> Args:
    batch, ins, outs = shape
    mask = draw_mask(rng, outs, ins, density) * np.uint8(1 + is_both)
    count = np.count_nonzero(mask)
    words = [structures.plan(*extents, count, batch).words for extents in (mask.shape, mask.shape[::-1])]
    first, second, order, order_t = (np.full(n, 0xA5A5A5A5, np.uint32) for n in (*words, count, count))
    if not is_both:
        second = order_t = None
    args = {"mask": mask, "structure": first, "order": order, "structure_t": second, "order_t": order_t}
    return args | {"batch": batch}


def built(rng: Rng, shape: tuple[int, int, int], density: float) -> Args:
    args = build(rng, shape, density, True)
    reference.sparse_linear_build(**args)
    return args


def forward(rng: Rng, shape: tuple[int, int, int], density: float, has_bias: bool) -> Args:
    batch, ins, outs = shape
    made = built(rng, shape, density)
    values, bias = normal(rng, len(made["order"])), normal(rng, outs) if has_bias else None
    x, y = normal(rng, batch, ins), blank(batch, outs)
    return {"x": x, "structure": made["structure"], "values": values, "bias": bias, "y": y}


def grad_input(rng: Rng, shape: tuple[int, int, int], density: float, is_turned: bool) -> Args:
    batch, ins, outs = shape
    made = built(rng, shape, density)
    structure, values = made["structure_t" if is_turned else "structure"], normal(rng, len(made["order"]))
    return {"dy": normal(rng, batch, outs), "structure": structure, "values": values, "dx": blank(batch, ins)}


def grad_weight(rng: Rng, shape: tuple[int, int, int], density: float, flag: bool) -> Args:
    batch, ins, outs = shape
    made = built(rng, shape, density)
    sent, seen = normal(rng, batch, outs), normal(rng, batch, ins)
    return {"x": seen, "dy": sent, "structure": made["structure"], "gradients": np.full(len(made["order"]), SENTINEL)}
