"""Adversarial pools. cases.py says what a case is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from edgefl.kernels import reference
from edgefl.kernels.window import Window

from .cases import SELECTIONS, Args, Case, Rng, blank, blank_bytes, normal, pick, shape_label

IMAGE = (2, 6, 4, 5)
LARGE = (16, 24, 16, 18)

POOLS: list[tuple[tuple[int, int, int, int], tuple[int, int], tuple[int, int], tuple[int, int]]] = [
    *(((2, 3, 4, width), (2, 2), (2, 2), (0, 0)) for width in (2, 3, 6, 7, 8, 9, 14, 16, 18, 30, 32, 34, 35)),
    *(((1, 2, 5, width), (3, 3), (2, 2), (1, 1)) for width in (1, 3, 8, 15, 17)),
    *(((2, 3, 1 + width % 2, width), (1, 2), (1, 2), (0, 0)) for width in (2, 3, 8, 15, 16, 18, 31, 34, 65)),
    ((2, 3, 1, 1), (1, 1), (1, 1), (0, 0)),
    ((2, 3, 9, 9), (3, 3), (1, 1), (1, 1)),
    ((1, 5, 7, 8), (2, 3), (3, 1), (1, 0)),
    ((1, 5, 8, 7), (1, 2), (2, 5), (0, 1)),
    ((3, 1, 4, 4), (4, 4), (4, 4), (0, 0)),
    ((2, 2, 17, 15), (17, 15), (1, 1), (0, 0)),
    ((0, 3, 4, 4), (2, 2), (2, 2), (0, 0)),
    ((2, 7, 6, 10), (3, 2), (1, 2), (1, 1)),
    ((1, 2, 19, 150), (3, 3), (2, 2), (1, 1)),
    ((2, 1, 21, 129), (16, 5), (1, 1), (8, 2)),
    ((1, 2, 35, 131), (3, 16), (5, 2), (1, 8)),
    ((1, 2, 1, 130), (1, 4), (1, 1), (0, 2)),
    ((1, 2, 18, 20), (17, 2), (1, 2), (0, 0)),
    ((1, 2, 3, 2), (3, 16), (1, 2), (1, 8)),
]

CUT: list[tuple[tuple[int, int, int, int], tuple[int, int], tuple[int, int], tuple[int, int]]] = [
    ((2, 3, 5, 7), (2, 2), (2, 2), (0, 0)),
    ((2, 3, 6, 19), (2, 2), (2, 2), (0, 0)),
    ((1, 5, 8, 8), (3, 3), (2, 2), (0, 0)),
    ((1, 5, 7, 8), (3, 2), (3, 3), (1, 1)),
    ((2, 2, 2, 2), (3, 3), (2, 2), (0, 0)),
    ((2, 3, 1, 33), (1, 2), (1, 2), (0, 0)),
    ((2, 1, 9, 10), (2, 2), (3, 3), (1, 1)),
    ((2, 2, 6, 8), (3, 2), (2, 3), (0, 1)),
    ((1, 2, 10, 134), (3, 3), (2, 2), (1, 1)),
]
ADAPTIVE = [
    ((2, 6, 7, 5), (3, 2)),
    ((16, 24, 16, 18), (7, 7)),
    ((2, 3, 1, 1), (1, 1)),
    ((1, 5, 4, 9), (4, 9)),
    ((2, 3, 3, 2), (5, 4)),
    ((0, 3, 4, 4), (3, 3)),
    ((1, 7, 17, 16), (1, 5)),
]


def cases() -> Iterator[Case]:
    for number, (shape, kernel, stride, padding) in enumerate(POOLS):
        window = {"kernel": kernel, "stride": stride, "padding": padding}
        label = f"{shape_label(*shape)}-k{shape_label(*kernel)}-s{shape_label(*stride)}-p{shape_label(*padding)}"
        yield Case(
            "maxpool_forward", label, lambda rng, s=shape, w=window, n=number: maxpool_forward(rng, s, w, n % 4 > 0)
        )
        for include in (True, False) if any(padding) else (True,):
            tag = f"{label}-{'all' if include else 'inside'}"
            yield Case("avgpool_forward", tag, lambda rng, s=shape, w=window, i=include: avgpool_forward(rng, s, w, i))
        for kind in ("all", SELECTIONS[1 + number % 5]):
            tag, include = f"{label}-{kind}", bool(number % 2)
            yield Case("maxpool_backward", tag, lambda rng, s=shape, w=window, k=kind: maxpool_backward(rng, s, w, k))
            make = lambda rng, s=shape, w=window, i=include, k=kind: avgpool_backward(rng, s, w, i, k)  # noqa: E731
            yield Case("avgpool_backward", tag, make)
    yield from cut_cases()
    yield from adaptive_cases()
    yield from large_window_cases()
    yield from side_by_side_cases()

    yield from ordinary_and_large()


def cut_cases() -> Iterator[Case]:
    """Windows that are cut at the end of the plane: torch's ceil_mode."""
    for number, (shape, kernel, stride, padding) in enumerate(CUT):
        window = {"kernel": kernel, "stride": stride, "padding": padding, "is_ceiled": True}
        label = f"{shape_label(*shape)}-k{shape_label(*kernel)}-s{shape_label(*stride)}-ceil"
        selection, include = SELECTIONS[1 + number % 5], bool(number % 2)
        makes = {
            "maxpool_forward": lambda rng, s=shape, w=window: maxpool_forward(rng, s, w, True),
            "maxpool_backward": lambda rng, s=shape, w=window, k=selection: maxpool_backward(rng, s, w, k),
            "avgpool_forward": lambda rng, s=shape, w=window, i=include: avgpool_forward(rng, s, w, i),
            "avgpool_backward": lambda rng, s=shape, w=window, i=include, k=selection: avgpool_backward(
                rng, s, w, i, k
            ),
            "maxpool_lanes_forward": lambda rng, s=shape, w=window: maxpool_forward(rng, (*s, 9), w, True),
            "maxpool_lanes_backward": lambda rng, s=shape, w=window: lanes_backward(rng, (*s, 9), w),
        }
        yield from (Case(op, label, make) for op, make in makes.items())


def adaptive_cases() -> Iterator[Case]:
    for number, (shape, parts) in enumerate(ADAPTIVE):
        label, result = f"{shape_label(*shape)}-to-{shape_label(*parts)}", (*shape[:2], *parts)
        for tag in ("ordinary",) if number == 0 else ("large",) if number == 1 else (label,):
            yield Case(
                "adaptive_avgpool_forward", tag, lambda rng, s=shape, r=result: {"x": normal(rng, *s), "y": blank(*r)}
            )
            kind = "odd" if number < 2 else SELECTIONS[number % len(SELECTIONS)]
            yield Case(
                "adaptive_avgpool_backward",
                tag,
                lambda rng, s=shape, r=result, k=kind: {
                    "dy": normal(rng, *r),
                    "dx": blank(*s),
                    "channels": pick(k, s[1]),
                },
            )


def large_window_cases() -> Iterator[Case]:
    """Global average pooling of maps whose cells one byte cannot number."""
    shape, window = (2, 3, 17, 16), {"kernel": (17, 16), "stride": (1, 1), "padding": (0, 0)}
    yield Case("avgpool_forward", "global", lambda rng: avgpool_forward(rng, shape, window, True))
    yield Case("avgpool_backward", "global", lambda rng: avgpool_backward(rng, shape, window, True, "odd"))


def side_by_side_cases() -> Iterator[Case]:
    for number, (shape, kernel, stride, padding) in enumerate(POOLS):
        window = {"kernel": kernel, "stride": stride, "padding": padding}
        for lanes in ((1, 16), (3, 8), (17,), (4, 32))[number % 4]:
            label = f"{shape_label(*shape, lanes)}-k{shape_label(*kernel)}-s{shape_label(*stride)}"
            beside, keeps = (*shape, lanes), number % 3 > 0
            make = lambda rng, s=beside, w=window, k=keeps: maxpool_forward(rng, s, w, k)  # noqa: E731
            yield Case("maxpool_lanes_forward", label, make)
            yield Case("maxpool_lanes_backward", label, lambda rng, s=beside, w=window: lanes_backward(rng, s, w))
    padded: Args = {"kernel": (2, 2), "stride": (2, 2), "padding": (1, 1)}
    for label, shape, settings in (
        ("ordinary", (*IMAGE, 3), padded),
        ("large", (*LARGE, 16), {**padded, "padding": (0, 0)}),
    ):
        yield Case("maxpool_lanes_forward", label, lambda rng, s=shape, w=settings: maxpool_forward(rng, s, w, True))
        yield Case("maxpool_lanes_backward", label, lambda rng, s=shape, w=settings: lanes_backward(rng, s, w))


def ordinary_and_large() -> Iterator[Case]:
    window: Args = {"kernel": (2, 2), "stride": (2, 2), "padding": (1, 1)}
    wide: Args = {**window, "padding": (0, 0)}
    for label, shape, settings in (("ordinary", IMAGE, window), ("large", LARGE, wide)):
        yield Case("maxpool_forward", label, lambda rng, s=shape, w=settings: maxpool_forward(rng, s, w, True))
        yield Case("maxpool_backward", label, lambda rng, s=shape, w=settings: maxpool_backward(rng, s, w, "odd"))
        yield Case("avgpool_forward", label, lambda rng, s=shape, w=settings: avgpool_forward(rng, s, w, True))
        yield Case("avgpool_backward", label, lambda rng, s=shape, w=settings: avgpool_backward(rng, s, w, True, "odd"))


def pooled(shape: tuple[int, ...], window: Args) -> tuple[int, ...]:
    """The shape of the pool's output."""
    settings = (window["kernel"], window["stride"], window["padding"], (1, 1))
    found = Window.of(*settings, shape[2:4])
    return *shape[:2], *(found.ceiled if window.get("is_ceiled") else found).result, *shape[4:]


def settings_of(window: Args) -> Args:
    """Return the settings as the kernels take them. The shape of y says whether windows are cut."""
    return {name: value for name, value in window.items() if name != "is_ceiled"}


def maxpool_forward(rng: Rng, shape: tuple[int, ...], window: Args, keeps_codes: bool) -> Args:
    x = np.round(normal(rng, *shape) * 2)  # many equal cells: the first must win
    result = pooled(shape, window)
    return {"x": x, "y": blank(*result), "codes": blank_bytes(*result) if keeps_codes else None, **settings_of(window)}


def maxpool_backward(rng: Rng, shape: tuple[int, ...], window: Args, kind: str) -> Args:
    forward = maxpool_forward(rng, shape, window, True)
    reference.maxpool_forward(**forward)
    dy = normal(rng, *pooled(shape, window))
    return {
        "dy": dy,
        "codes": forward["codes"],
        "dx": blank(*shape),
        **settings_of(window),
        "channels": pick(kind, shape[1]),
    }


def lanes_backward(rng: Rng, shape: tuple[int, ...], window: Args) -> Args:
    forward = maxpool_forward(rng, shape, window, True)
    reference.maxpool_lanes_forward(**forward)
    return {
        "dy": normal(rng, *forward["y"].shape),
        "codes": forward["codes"],
        "dx": blank(*shape),
        **settings_of(window),
    }


def avgpool_forward(rng: Rng, shape: tuple[int, ...], window: Args, include: bool) -> Args:
    return {
        "x": normal(rng, *shape),
        "y": blank(*pooled(shape, window)),
        **settings_of(window),
        "count_include_pad": include,
    }


def avgpool_backward(rng: Rng, shape: tuple[int, ...], window: Args, include: bool, kind: str) -> Args:
    gradients = {"dy": normal(rng, *pooled(shape, window)), "dx": blank(*shape)}
    return {**gradients, **settings_of(window), "count_include_pad": include, "channels": pick(kind, shape[1])}
