"""Adversarial convolutions: every kernel size, stride, padding, dilation and grouping that a kernel could get wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from . import stored_weights
from .cases import WIDTHS, Args, Case, Rng, blank, count, normal, pick

Pair = tuple[int, int]


class Geometry(NamedTuple):
    """A convolution of [batch, ins, *size] to `outs` channels."""

    batch: int
    ins: int
    outs: int
    size: Pair
    kernel: Pair = (3, 3)
    stride: Pair = (1, 1)
    padding: Pair = (1, 1)
    dilation: Pair = (1, 1)
    groups: int = 1

    @property
    def result(self) -> Pair:
        axes = zip(self.size, self.kernel, self.stride, self.padding, self.dilation, strict=True)
        height, width = ((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in axes)
        return height, width

    @property
    def settings(self) -> Args:
        return {"stride": self.stride, "padding": self.padding, "dilation": self.dilation, "groups": self.groups}

    def __str__(self) -> str:
        (h, w), (kh, kw), (sh, sw), (ph, pw), (dh, dw) = (
            self.size,
            self.kernel,
            self.stride,
            self.padding,
            self.dilation,
        )
        plain = f"{self.batch}x{self.ins}to{self.outs}x{h}x{w}-k{kh}x{kw}-s{sh}x{sw}-p{ph}x{pw}"
        return plain + f"-d{dh}x{dw}" * (self.dilation != (1, 1)) + f"-g{self.groups}" * (self.groups > 1)


GEOMETRIES = list(
    dict.fromkeys(
        [
            *(Geometry(2, 3, outs, (5, 6)) for outs in WIDTHS),
            *(Geometry(2, ins, 5, (5, 6)) for ins in WIDTHS),
            *(Geometry(1, 2, 3, (3, width)) for width in (*WIDTHS, 31, 33)),
            *(Geometry(2, 3, 9, (2, width), (1, 1), padding=(0, 0)) for width in (1, 4, 8, 9, 17)),
            *(Geometry(batch, 3, 4, (4, 4)) for batch in (0, 1, 3, 17)),
            *(
                Geometry(2, 3, 5, (7, 6), kernel, padding=(0, 0))
                for kernel in ((1, 3), (3, 1), (2, 2), (4, 4), (5, 5), (7, 1))
            ),
            Geometry(2, 5, 6, (1, 1), (1, 1), padding=(0, 0)),
            Geometry(2, 5, 6, (1, 1)),
            Geometry(1, 1, 1, (1, 1), (1, 1), padding=(0, 0)),
            Geometry(2, 3, 5, (8, 9), (2, 2), (3, 3), (0, 0)),
            Geometry(2, 3, 5, (8, 9), (1, 1), (2, 2), (0, 0)),
            Geometry(2, 3, 5, (8, 9), (3, 3), (1, 2)),
            Geometry(2, 3, 5, (9, 8), (3, 3), (3, 1)),
            Geometry(2, 3, 5, (9, 17), (3, 3), (2, 2)),
            Geometry(2, 3, 5, (6, 5), (3, 2), padding=(0, 2)),
            Geometry(2, 3, 5, (6, 5), (2, 3), padding=(2, 0)),
            Geometry(2, 1, 7, (9, 9), (2, 2), (2, 2), (2, 2)),
            Geometry(11, 3, 4, (16, 16)),
            Geometry(3, 3, 5, (9, 8), (2, 2), (2, 2)),
            Geometry(2, 20, 3, (7, 35), (1, 2), (2, 2), (0, 1)),
            Geometry(5, 3, 5, (6, 9), (2, 3), (3, 4), (1, 2)),
            Geometry(2, 3, 4, (3, 3), (1, 1), padding=(1, 1)),
            Geometry(2, 3, 5, (9, 8), dilation=(2, 1)),
            Geometry(2, 3, 5, (8, 12), dilation=(1, 3), padding=(0, 2)),
            Geometry(2, 3, 5, (9, 9), (3, 2), (2, 1), (2, 1), (2, 2)),
            Geometry(2, 4, 6, (5, 7), groups=2),
            Geometry(2, 9, 3, (5, 4), (2, 2), (2, 1), (0, 1), groups=3),
            Geometry(2, 4, 34, (4, 4), groups=2),
            Geometry(2, 5, 5, (6, 7), groups=5),
            Geometry(2, 17, 17, (5, 9), (3, 3), (2, 2), groups=17),
            Geometry(2, 5, 10, (6, 5), groups=5),
            Geometry(1, 3, 9, (7, 8), (5, 5), padding=(2, 2), dilation=(1, 2), groups=3),
            Geometry(0, 4, 4, (4, 4), groups=4),
            Geometry(2, 8, 8, (4, 4), groups=8),
            Geometry(3, 33, 33, (7, 6), (5, 5), padding=(2, 2), groups=33),
            Geometry(2, 16, 16, (9, 7), (3, 2), (2, 3), (0, 1), (1, 2), groups=16),
            Geometry(2, 18, 18, (9, 8), (2, 2), (3, 4), (0, 0), groups=18),
            Geometry(1, 18, 18, (30, 25), stride=(2, 2), groups=18),
            Geometry(5, 16, 16, (17, 16), groups=16),
            Geometry(3, 20, 20, (14, 14)),
            Geometry(3, 6, 16, (16, 16)),
            Geometry(2, 83, 85, (6, 6)),
            Geometry(2, 70, 12, (4, 4)),
            *(Geometry(2, 41, 40, size) for size in ((7, 9), (6, 18), (33, 5))),
            *(Geometry(2, 40, 42, (7, 8), padding=padding) for padding in ((0, 0), (2, 2), (0, 1))),
            Geometry(16, 40, 41, (2, 2)),
            Geometry(17, 43, 40, (3, 2)),
            Geometry(4, 70, 34, (12, 12)),
            Geometry(2, 70, 34, (20, 20)),
            Geometry(2, 260, 259, (6, 7)),
            *(Geometry(9, 24, 20, size) for size in ((9, 21), (31, 15), (5, 14))),
            Geometry(3, 1, 20, (28, 28)),
            Geometry(2, 1, 50, (32, 32), (2, 2), (2, 2), (2, 2)),
            Geometry(2, 50, 12, (9, 9), (2, 2), (2, 2), (2, 2)),
            *(Geometry(2, ins, 50, (width, width), (5, 5), padding=(0, 0)) for ins, width in ((6, 14), (20, 12))),
            *(Geometry(17, ins, 6, (5, 5), (2, 2)) for ins in (8, 16)),  # images in chunks
            Geometry(2, 3, 40, (11, 10), (3, 2), (2, 1)),
            Geometry(2, 3, 40, (10, 12), (2, 3), (1, 2), dilation=(2, 1)),
            Geometry(2, 70, 66, (9, 9), (1, 1), (2, 2), (0, 0)),
            Geometry(2, 460, 37, (3, 7), (1, 1), padding=(0, 0)),  # blocks of windows of one cell, in two passes
            Geometry(1, 5, 70, (2, 2)),  # from here on few positions, for which panels are packed one by one
            Geometry(2, 60, 67, (3, 2), (2, 2), padding=(1, 0)),
            Geometry(1, 67, 70, (2, 2), (2, 2)),
            Geometry(1, 70, 8, (4, 4), stride=(2, 2)),
        ]
    )
)
MOSTLY_ZEROS = [  # of dy, whose few other values are terms of their own
    Geometry(9, 6, 16, (14, 14), (5, 5), padding=(0, 0)),
    Geometry(17, 3, 8, (8, 9), (5, 5), padding=(2, 2)),
    Geometry(3, 33, 20, (9, 10)),
    Geometry(2, 70, 34, (20, 17)),
    Geometry(2, 40, 9, (7, 19), (3, 4), padding=(2, 0), dilation=(2, 1)),
    Geometry(9, 20, 12, (9, 9), stride=(2, 1)),
    Geometry(3, 64, 5, (6, 5), (2, 2)),
    Geometry(2, 17, 40, (8, 33), (6, 6), padding=(3, 5)),
]
EVERY_SELECTION = {
    Geometry(2, 3, 9, (5, 6)),
    Geometry(3, 6, 16, (16, 16)),
    Geometry(2, 17, 5, (5, 6)),
    Geometry(2, 83, 85, (6, 6)),
    Geometry(2, 460, 37, (3, 7), (1, 1), padding=(0, 0)),
    Geometry(1, 67, 70, (2, 2), (2, 2)),
}
PAIRS = [
    ("all", "all"),
    ("none", "odd"),
    ("odd", "none"),
    ("one", "but_one"),
    ("but_one", "one"),
    ("every", "odd"),
    ("odd", "every"),
]


def cases() -> Iterator[Case]:
    for number, geometry in enumerate(GEOMETRIES):
        label = str(geometry)
        yield Case("conv2d_forward", label, lambda rng, g=geometry, b=number % 3 > 0: forward(rng, g, b))
        pairs = PAIRS if geometry in EVERY_SELECTION else [PAIRS[0], PAIRS[1 + number % 6]]
        for rows, cols in pairs:
            tag = f"{label}-{rows}-{cols}"
            yield Case("conv2d_grad_input", tag, lambda rng, g=geometry, r=rows, c=cols: grad_input(rng, g, r, c))
            if geometry.groups == 1:
                yield Case("conv2d_grad_weight", tag, lambda rng, g=geometry, r=rows, c=cols: grad_weight(rng, g, r, c))
        if geometry.groups > 1:
            yield from grouped_weight_cases(geometry)
    for kind in ("none", "one", "but_one", "every"):
        geometry = Geometry(2, 9, 5, (5, 6))
        yield Case(
            "conv2d_grad_weight", f"{geometry}-saved_{kind}", lambda rng, g=geometry, k=kind: saved_planes(rng, g, k)
        )
    for geometry in MOSTLY_ZEROS:
        for rows, cols in (PAIRS[0], ("odd", "but_one")):
            tag = f"{geometry}-{rows}-{cols}-zeros"
            for made in (grad_input, grad_weight):
                yield Case(
                    f"conv2d_{made.__name__}",
                    tag,
                    lambda rng, m=made, g=geometry, r=rows, c=cols: few(rng, m(rng, g, r, c)),
                )
    yield from ordinary_and_large()
    yield from stored_weights.products()


def ordinary_and_large() -> Iterator[Case]:
    layer = Geometry(2, 6, 5, (5, 6))
    yield Case("conv2d_forward", "ordinary", lambda rng: forward(rng, layer, True))
    yield Case("conv2d_grad_input", "ordinary", lambda rng: grad_input(rng, layer, "odd", "but_one"))
    yield Case("conv2d_grad_weight", "ordinary", lambda rng: grad_weight(rng, layer, "odd", "but_one"))
    wide, deep = Geometry(16, 20, 24, (15, 17)), Geometry(2, 260, 259, (6, 7))
    grouped, five = Geometry(16, 24, 48, (15, 17), groups=24), Geometry(3, 40, 36, (16, 16), (5, 5), padding=(2, 2))
    for geometry, has_bias in ((wide, True), (deep, True), (grouped, False), (five, True)):
        yield Case("conv2d_forward", f"large-{geometry}", lambda rng, g=geometry, b=has_bias: forward(rng, g, b))
    chosen = [(wide, "all", "all"), (wide, "odd", "but_one"), (deep, "all", "but_one"), (five, "but_one", "but_one")]
    for geometry, *kinds in [*chosen, (grouped, "all", "odd")]:
        label = f"large-{geometry}-{kinds[0]}-{kinds[1]}"
        yield Case("conv2d_grad_input", label, lambda rng, g=geometry, k=kinds: grad_input(rng, g, *k))
    for geometry, *kinds in [*chosen, (grouped, "but_one", "all")]:
        label = f"large-{geometry}-{kinds[0]}-{kinds[1]}"
        yield Case("conv2d_grad_weight", label, lambda rng, g=geometry, k=kinds: grad_weight(rng, g, *k))


def grouped_weight_cases(geometry: Geometry) -> Iterator[Case]:
    for kind in ("all", "none", "one", "but_one", "odd"):
        tag = f"{geometry}-{kind}"
        yield Case("conv2d_grad_weight", tag, lambda rng, g=geometry, k=kind: grad_weight(rng, g, k, "all"))
        if geometry.ins == geometry.groups:
            yield Case("conv2d_grad_weight", f"{tag}-saved", lambda rng, g=geometry, k=kind: saved_groups(rng, g, k))


def _weight(rng: Rng, g: Geometry) -> np.ndarray:
    return normal(rng, g.outs, g.ins // g.groups, *g.kernel)


def forward(rng: Rng, g: Geometry, has_bias: bool) -> Args:
    bias = normal(rng, g.outs) if has_bias else None
    x, y = normal(rng, g.batch, g.ins, *g.size), blank(g.batch, g.outs, *g.result)
    return {"x": x, "weight": _weight(rng, g), "bias": bias, "y": y, **g.settings}


def grad_input(rng: Rng, g: Geometry, rows: str, cols: str) -> Args:
    dy, dx = normal(rng, g.batch, g.outs, *g.result), blank(g.batch, g.ins, *g.size)
    return {
        "dy": dy,
        "weight": _weight(rng, g),
        "dx": dx,
        **g.settings,
        "outs": pick(rows, g.outs),
        "ins": pick(cols, g.ins),
    }


def grad_weight(rng: Rng, g: Geometry, rows: str, cols: str) -> Args:
    outs, ins = pick(rows, g.outs), pick(cols, g.ins)
    dw = blank(count(outs, g.outs), count(ins, g.ins // g.groups), *g.kernel)
    x, dy = normal(rng, g.batch, g.ins, *g.size), normal(rng, g.batch, g.outs, *g.result)
    return {"x": x, "dy": dy, "dw": dw, **g.settings, "outs": outs, "ins": ins, "in_channels": g.ins}


def few(rng: Rng, args: Args) -> Args:
    """Most values of dy are 0, and all of its last image and of the first image's last channel."""
    dy = args["dy"] * (rng.random(args["dy"].shape) < 0.2)
    dy[-1], dy[0, -1] = 0, -0.0
    return {**args, "dy": np.ascontiguousarray(dy, np.float32)}


def saved_planes(rng: Rng, g: Geometry, kind: str) -> Args:
    """x holds only the active planes, all of which count."""
    args = grad_weight(rng, g, "odd", kind)
    return {**args, "x": np.ascontiguousarray(args["x"][:, args["ins"]]), "ins": None}


def saved_groups(rng: Rng, g: Geometry, kind: str) -> Args:
    """Depthwise: x holds only the planes of the groups of outs, in their order."""
    args = grad_weight(rng, g, kind, "all")
    outs = np.arange(g.outs) if args["outs"] is None else args["outs"]
    return {**args, "x": np.ascontiguousarray(args["x"][:, np.unique(outs // (g.outs // g.groups))])}
