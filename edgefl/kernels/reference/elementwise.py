"""Rectifiers, addition, multiplication and zeroing in plain numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..arrays import Array, Index, all_or
from ..expression_steps import STEPS


def relu_forward(x: Array, y: Array, bits: Array | None = None) -> None:
    """Compute y = x where x > 0, else 0. NaN stays NaN. y may alias x.

    Bit j % 8 of byte j // 8 of a plane is set where x > 0 at cell j.
    """
    _keep_bits(x > 0, bits)
    y[:] = np.where(x <= 0, 0, x)


def relu6_forward(x: Array, y: Array, bits: Array | None = None) -> None:
    """Compute y = min(max(x, 0), 6). NaN stays NaN. y may alias x. A bit is set where 0 < x < 6."""
    _keep_bits((x > 0) & (x < 6), bits)
    y[:] = np.where(x <= 0, 0, np.where(x >= 6, 6, x))


def relu_backward(dy: Array, bits: Array, dx: Array, channels: Index) -> None:
    """Set dx[:, channels] to dy where the bit is set, else to 0. Other channels are left alone. dx may alias dy."""
    chosen = all_or(channels, dy.shape[1])
    dx[:, chosen] = np.where(_signs(bits, dy), dy, 0)[:, chosen]


def leaky_relu_forward(x: Array, negative_slope: float, y: Array, bits: Array | None = None) -> None:
    """Compute y = x where x > 0, else negative_slope * x. NaN stays NaN. y may alias x. bits are as in relu_forward."""
    _keep_bits(x > 0, bits)
    y[:] = np.where(x > 0, x, x * x.dtype.type(negative_slope))


def leaky_relu_backward(dy: Array, bits: Array, negative_slope: float, dx: Array, channels: Index) -> None:
    """Set dx[:, channels] to dy where the bit is set, else to negative_slope * dy. Aliases are as in relu_backward."""
    chosen = all_or(channels, dy.shape[1])
    dx[:, chosen] = np.where(_signs(bits, dy), dy, dy * dy.dtype.type(negative_slope))[:, chosen]


def _keep_bits(are_set: Array, bits: Array | None) -> None:
    if bits is not None:
        planes = are_set.reshape(*are_set.shape[:2], int(np.prod(are_set.shape[2:])))
        bits[...] = np.packbits(planes, axis=2, bitorder="little").reshape(bits.shape)


def _signs(bits: Array, dy: Array) -> Array:
    """Unpack one bit for each element of dy."""
    inner = int(np.prod(dy.shape[2:]))
    packed = bits.reshape(*dy.shape[:2], (inner + 7) // 8)
    return np.unpackbits(packed, axis=2, count=inner, bitorder="little").reshape(dy.shape)


def add(a: Array, b: Array, y: Array) -> None:
    """Compute y = a + b. y may alias a or b."""
    np.add(a, b, out=y)


def mul(a: Array, b: Array, y: Array) -> None:
    """Compute y = a b. y may alias a or b."""
    np.multiply(a, b, out=y)


def add_channels(y: Array, offset: Array) -> None:
    """Add offset[c] to y[:, c]."""
    y += offset.reshape(1, len(offset), *(1 for _ in y.shape[2:]))


def scale_channels(x: Array, scale: Array, y: Array) -> None:
    """Compute y[b, c] = scale[b, c] x[b, c]. y may alias x."""
    y[...] = x * scale.reshape(*scale.shape, *(1 for _ in x.shape[2:]))


def channel_dot(a: Array, b: Array, out: Array) -> None:
    """Set out[b, c] to the sum of a[b, c] b[b, c]."""
    out[...] = (a * b).reshape(*out.shape, -1).sum(axis=2) if a.size else 0


def scale_places(x: Array, scale: Array, y: Array) -> None:
    """Set y[b, c] to scale[b] x[b, c], with a number for each place of an example. y may alias x."""
    np.multiply(x, scale[:, None], out=y)


def place_dot(a: Array, b: Array, out: Array) -> None:
    """Set out[b] to the sum of a[b, c] b[b, c] over the channels c."""
    out[...] = (a * b).sum(axis=1)


def fill_zero(x: Array) -> None:
    """Set x to 0."""
    x[...] = 0


def evaluate(
    a: Array, b: Array | None, c: Array | None, d: Array | None, e: Array | None, program: Array, constants: Array,
    y: Array,
) -> None:  # fmt: skip
    """Compute y, the value of the last step of an expression of the inputs. y may alias inputs.

    Values 0 to 4 are the inputs, and value 5 + k is the result of step k, which has the number of an
    operation of STEPS and the numbers of the values that it reads.
    """
    values: list[Array | None] = [a, b, c, d, e]
    operands, functions = tuple(STEPS.values()), tuple(FUNCTIONS.values())
    with np.errstate(all="ignore"):
        for operation, *read in program.tolist():
            if operation == 0:
                values.append(np.full(a.shape, constants[read[0]], a.dtype))
            else:
                inputs = (values[number] for number in read[: operands[operation]])
                values.append(functions[operation - 1](*inputs).astype(a.dtype))
    y[...] = values[-1]


def _choice(test: Array, one: Array, other: Array) -> Array:
    found: Array = np.where(test != 0, one, other)
    return found


FUNCTIONS: dict[str, Callable[..., Array]] = {
    "sum": np.add, "difference": np.subtract, "product": np.multiply, "quotient": np.divide, "larger": np.maximum,
    "smaller": np.minimum, "power": np.power, "less": np.less, "less_equal": np.less_equal, "equal": np.equal,
    "choice": _choice, "exp": np.exp, "log": np.log,
    "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "magnitude": np.abs,
}  # fmt: skip
"""The functions of the steps but the first, in the order of their numbers."""


def expand(x: Array, y: Array) -> None:
    """Compute y[r, c] = x[r], each row as often as y has copies of it."""
    y[...] = x[:, None]


def reduce(x: Array, kind: int, scale: float, y: Array) -> None:
    """Compute y[r], the sum of x[r] times scale (kind 0), the largest value (1) or the smallest value (2)."""
    if kind == 0:
        y[...] = x.sum(axis=1, dtype=np.float64) * scale
    else:
        y[...] = (np.max if kind == 1 else np.min)(x, axis=1)
