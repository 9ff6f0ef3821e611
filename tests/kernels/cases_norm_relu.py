"""Adversarial calls of the normalisations with ReLU and pooling. cases.py says what a case is.

There are odd and even planes around SIMD vectors, one example, equal cells (whose first must win), and weights of both
signs and 0.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .cases import Args, Array, Case, Rng, blank, count, normal, pick, shape_label

PLANES = [
    *((2, 3, 4, width) for width in (2, 3, 6, 7, 8, 9, 14, 16, 17, 18, 28, 33)),
    *((1, 2, height, 5) for height in (2, 3, 7)),
    *((1, 2, 6, 8), (2, 2, 7, 4), (1, 2, 10, 17)),  # an odd number of rows of windows, in pairs where they are narrow
    (17, 4, 2, 2),
    (1, 6, 9, 34),
    *((19, 3, 6, 6), (6, 2, 19, 19), (33, 2, 7, 9), (3, 2, 8, 8)),  # windows across rows and planes, some planes left
]
ROWS = [(2, 3, 1, 7), (1, 2, 1, 1), (5, 4), (2, 6, 33), (3, 2, 40)]  # no window fits, or no two axes of pixels
FEATURES = [(9, 19), (140, 33)]
NEEDS = (("all", "all"), ("all", "odd"), ("but_one", "but_one"), ("odd", "none"), ("one", "one"))


def cases() -> Iterator[Case]:
    shapes = [(shape, is_halved) for shape in PLANES for is_halved in (True, False)] + [
        (shape, False) for shape in ROWS + FEATURES
    ]
    for number, (shape, is_halved) in enumerate(shapes):
        label, relu6 = shape_label(*shape) + ("-halved" if is_halved else ""), number % 4 > 1
        if shape[0] * int(np.prod(shape[2:])) > 1:
            make = lambda rng, s=shape, h=is_halved, r=relu6: batchnorm_forward(rng, s, h, r)  # noqa: E731
            yield Case("batchnorm_relu_forward", label, make)
        make = lambda rng, s=shape, h=is_halved, r=relu6: batchnorm_eval(rng, s, h, r)  # noqa: E731
        yield Case("batchnorm_relu_eval", label, make)
        for kinds in (NEEDS[0], NEEDS[1 + number % 4]):
            tag = f"{label}-{kinds[0]}-{kinds[1]}"
            make = lambda rng, s=shape, h=is_halved, k=kinds, r=relu6: batchnorm_backward(rng, s, h, *k, r)  # noqa: E731
            yield Case("batchnorm_relu_backward", tag, make)
        for groups in {1, 2, shape[1]} & {n for n in range(1, 9) if shape[1] % n == 0}:
            tag = f"{label}-g{groups}"
            yield Case(
                "groupnorm_relu_forward",
                tag,
                lambda rng, s=shape, h=is_halved, g=groups: groupnorm_forward(rng, s, h, g),
            )
            for kind in ("all", ("none", "one", "but_one")[number % 3]):
                make = lambda rng, s=shape, h=is_halved, g=groups, k=kind: groupnorm_backward(rng, s, h, g, k)  # noqa: E731
                yield Case("groupnorm_relu_backward", f"{tag}-{kind}", make)
    yield from side_by_side_cases()
    yield from ordinary_and_large()


def side_by_side_cases() -> Iterator[Case]:
    shapes = [(1, 6, cells, lanes) for cells in (1, 3, 4, 5, 9) for lanes in (1, 4, 7, 8, 16, 17)]
    for number, shape in enumerate([*shapes, (0, 2, 3, 4), (3, 4, 36, 16), (2, 8, 64, 8), (2, 3, 2, 33)]):
        for groups in {1, 2, shape[1]} & {n for n in range(1, 9) if shape[1] % n == 0}:
            label, relu = f"{shape_label(*shape)}-g{groups}", (number + groups) % 2 > 0
            make = lambda rng, s=shape, g=groups, r=relu: lanes_forward(rng, s, g, r)  # noqa: E731
            yield Case("groupnorm_lanes_forward", label, make)
            trained = number % 3 > 0
            make = lambda rng, s=shape, g=groups, r=relu, t=trained: lanes_backward(rng, s, g, r, t)  # noqa: E731
            yield Case("groupnorm_lanes_backward", label, make)
    for label, shape, groups in (("ordinary", (2, 6, 5, 4), 3), ("large", (2, 24, 288, 16), 4)):
        yield Case("groupnorm_lanes_forward", label, lambda rng, s=shape, g=groups: lanes_forward(rng, s, g, True))
        make = lambda rng, s=shape, g=groups: lanes_backward(rng, s, g, True, True)  # noqa: E731
        yield Case("groupnorm_lanes_backward", label, make)


def ordinary_and_large() -> Iterator[Case]:
    image, big = (2, 6, 4, 5), (16, 24, 16, 18)
    yield Case("batchnorm_relu_forward", "ordinary", lambda rng: batchnorm_forward(rng, image, True))
    yield Case("batchnorm_relu_forward", "large", lambda rng: batchnorm_forward(rng, big, True))
    yield Case("batchnorm_relu_eval", "ordinary", lambda rng: batchnorm_eval(rng, image, True))
    yield Case("batchnorm_relu_eval", "large", lambda rng: batchnorm_eval(rng, big, True))
    yield Case("batchnorm_relu_backward", "ordinary", lambda rng: batchnorm_backward(rng, image, True, "every", "odd"))
    needs = ("but_one", "but_one")
    yield Case("batchnorm_relu_backward", "large", lambda rng: batchnorm_backward(rng, big, True, *needs))
    yield Case("groupnorm_relu_forward", "ordinary", lambda rng: groupnorm_forward(rng, image, True, 3))
    yield Case("groupnorm_relu_forward", "large", lambda rng: groupnorm_forward(rng, big, False, 2))
    yield Case("groupnorm_relu_backward", "ordinary", lambda rng: groupnorm_backward(rng, image, True, 3, "but_one"))
    yield Case("groupnorm_relu_backward", "large", lambda rng: groupnorm_backward(rng, big, True, 4, "but_one"))


def result_shape(shape: tuple[int, ...], is_halved: bool) -> tuple[int, ...]:
    return (*shape[:2], shape[2] // 2, shape[3] // 2) if is_halved else shape


def _affine(rng: Rng, channels: int) -> Args:
    """Return weights of both signs.

    The last weight is 0, so that its bias alone decides whether the channel is alive.
    """
    weight, bias = normal(rng, channels), normal(rng, channels)
    weight[-1] = 0
    return {"weight": weight, "bias": bias}


def _steep(rng: Rng, channels: int, relu6: bool) -> Args:
    """Return weights that are so large with ReLU6 that some results are above 6."""
    found = _affine(rng, channels)
    return found | {"weight": found["weight"] * np.float32(6)} if relu6 else found


def _coarse(rng: Rng, shape: tuple[int, ...]) -> Array:
    """Values with many equal neighbours."""
    return np.round(normal(rng, *shape) * 2) / 2 + np.float32(0.25)


def batchnorm_forward(rng: Rng, shape: tuple[int, ...], is_halved: bool, relu6: bool = False) -> Args:
    channels = shape[1]
    running = {"running_mean": normal(rng, channels), "running_var": np.abs(normal(rng, channels))}
    written = {"y": blank(*result_shape(shape, is_halved)), "mean": blank(channels), "inv_std": blank(channels)}
    settings = {"eps": 1e-5, "momentum": 0.1, "relu6": relu6}
    return {"x": normal(rng, *shape), **_steep(rng, channels, relu6), **running, **written, **settings}


def batchnorm_eval(rng: Rng, shape: tuple[int, ...], is_halved: bool, relu6: bool = False) -> Args:
    channels = shape[1]
    running = {"running_mean": normal(rng, channels), "running_var": np.abs(normal(rng, channels))}
    written = {"y": blank(*result_shape(shape, is_halved))}
    return {"x": _coarse(rng, shape), **_steep(rng, channels, relu6), **running, **written, "eps": 1e-3, "relu6": relu6}


def batchnorm_backward(
    rng: Rng, shape: tuple[int, ...], is_halved: bool, needed: str, active: str, relu6: bool = False
) -> Args:
    channels, outs = pick(needed, shape[1]), pick(active, shape[1])
    rows = count(outs, shape[1])
    output_grad = normal(rng, *result_shape(shape, is_halved))
    read = {"dy": output_grad, "x": _coarse(rng, shape), **_steep(rng, shape[1], relu6)}
    statistics = {"mean": normal(rng, shape[1]) / 4, "inv_std": 1 + np.abs(normal(rng, shape[1]))}
    written = {"dx": blank(*shape), "dweight": blank(rows), "dbias": blank(rows)}
    return {**read, **statistics, **written, "channels": channels, "outs": outs, "relu6": relu6}


def groupnorm_forward(rng: Rng, shape: tuple[int, ...], is_halved: bool, groups: int) -> Args:
    statistics = {"mean": blank(shape[0], groups), "inv_std": blank(shape[0], groups)}
    written = {"y": blank(*result_shape(shape, is_halved)), **statistics}
    return {"x": normal(rng, *shape), **_affine(rng, shape[1]), **written, "groups": groups, "eps": 1e-5}


def lanes_forward(rng: Rng, shape: tuple[int, ...], groups: int, relu: bool) -> Args:
    statistics = {name: blank(shape[0], groups, shape[3]) for name in ("mean", "inv_std")}
    written = {"y": blank(*shape), **statistics}
    return {"x": normal(rng, *shape), **_affine(rng, shape[1]), **written, "groups": groups, "relu": relu, "eps": 1e-5}


def lanes_backward(rng: Rng, shape: tuple[int, ...], groups: int, relu: bool, is_trained: bool) -> Args:
    read = {"dy": normal(rng, *shape), "x": _coarse(rng, shape), **_affine(rng, shape[1])}
    statistics = normal(rng, shape[0], groups, shape[3]) / 4, 1 + np.abs(normal(rng, shape[0], groups, shape[3]))
    gradients = {name: blank(shape[1]) if is_trained else None for name in ("dweight", "dbias")}
    known = {"mean": statistics[0], "inv_std": statistics[1], "dx": blank(*shape)}
    return {**read, **known, **gradients, "groups": groups, "relu": relu}


def groupnorm_backward(rng: Rng, shape: tuple[int, ...], is_halved: bool, groups: int, kind: str) -> Args:
    needed, members = pick(kind, groups), shape[1] // groups
    outs = None if needed is None else np.array([g * members for g in needed], np.int32)
    rows = count(outs, shape[1])
    read = {"dy": normal(rng, *result_shape(shape, is_halved)), "x": _coarse(rng, shape), **_affine(rng, shape[1])}
    inv_std = 1 + np.abs(normal(rng, shape[0], groups))
    statistics = {"mean": normal(rng, shape[0], groups) / 4, "inv_std": inv_std}
    written = {"dx": blank(*shape), "dweight": blank(rows), "dbias": blank(rows)}
    return {**read, **statistics, **written, "groups": groups, "groups_needed": needed, "outs": outs}
