"""RNN, GRU and LSTM over all steps of sequences, and the way from sequences to steps and back, in plain numpy.

The products of inputs with a layer's weight are made before, and the products of gradients after. Both are Linear
layers over all steps at once. Gates lie as in torch: r, z, n in a GRU, and i, f, g, o in an LSTM. The state before the
first step is 0.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Array, Index


def to_steps(x: Array, y: Array) -> None:
    """Set y[t, b, c] to x[b, c, t]."""
    y[...] = x.transpose(2, 0, 1)


def from_steps(y: Array, x: Array) -> None:
    """Set x[b, c, t] to y[t, b, c] of the last T steps of y."""
    x[...] = y[len(y) - x.shape[2] :].transpose(1, 2, 0)


def rnn_forward(gates: Array, weight: Array, bias: Array | None, relu: bool, states: Array) -> None:
    """Compute states[t + 1] = tanh(gates[t] + weight states[t] + bias), or its rectifier. gates become states[1:]."""
    states[0] = 0
    for step, gate in enumerate(gates):
        gate += _product(states[step], weight, bias)
        gate[...] = np.maximum(gate, 0) if relu else np.tanh(gate)
        states[step + 1] = gate


def rnn_backward(dy: Array, gates: Array, weight: Array, relu: bool, units: Index) -> None:
    """Turn gates into the gradients of the sums that they were computed from. units are as in gru_backward."""
    frozen = _others(units, weight.shape[1])
    carry = np.zeros_like(dy[0]) if len(dy) else 0
    for step in reversed(range(len(dy))):
        state = gates[step]
        gates[step] = (dy[step] + carry) * (state > 0 if relu else 1 - state * state)
        gates[step][:, frozen] = 0
        carry = gates[step] @ weight


def gru_forward(gates: Array, weight: Array, bias: Array | None, hidden: Array | None, states: Array) -> None:
    """Compute states[t + 1] = (1 - z) n + z states[t], with n = tanh(gates_n + r a_n) and a = weight states[t] + bias.

    gates   the input's part of each gate, which becomes r, z and n
    hidden  a_n of all steps
    """
    units = weight.shape[1]
    states[0] = 0
    for step, gate in enumerate(gates):
        state = states[step]
        product = _product(state, weight, bias)
        gate[:, : 2 * units] = _sigmoid(gate[:, : 2 * units] + product[:, : 2 * units])
        r, z, n = _parts(gate, 3)
        n[...] = np.tanh(n + r * product[:, 2 * units :])
        states[step + 1] = n + z * (state - n)
        if hidden is not None:
            hidden[step] = product[:, 2 * units :]


def gru_backward(
    dy: Array, gates: Array, hidden: Array, states: Array, weight: Array, dhidden: Array, units: Index
) -> None:
    """Turn gates into the gradients of the input's part of each gate, and dhidden into the gradients of a.

    units  the units whose gates pass a gradient on. The gradients of other units are 0
    """
    frozen, carry = _others(units, weight.shape[1]), np.zeros_like(dy[0]) if len(dy) else 0
    for step in reversed(range(len(dy))):
        (r, z, n), output_grad = _parts(gates[step], 3), dy[step] + carry
        da = output_grad * (1 - z) * (1 - n * n)
        dz = output_grad * (states[step] - n) * z * (1 - z)
        carry = output_grad * z
        dr = da * hidden[step] * r * (1 - r)
        dhidden[step] = _joined(frozen, dr, dz, da * r)
        gates[step] = _joined(frozen, dr, dz, da)
        carry = carry + dhidden[step] @ weight


def lstm_forward(gates: Array, weight: Array, bias: Array | None, cells: Array, states: Array) -> None:
    """Compute states[t + 1] = o tanh(cells[t + 1]), with cells[t + 1] = f cells[t] + i g.

    weight states[t] + bias is added to gates, and gates become i, f, g and o.
    """
    states[0] = cells[0] = 0
    for step, gate in enumerate(gates):
        gate += _product(states[step], weight, bias)
        i, f, g, o = _parts(gate, 4)
        for one in (i, f, o):
            one[...] = _sigmoid(one)
        g[...] = np.tanh(g)
        cells[step + 1] = f * cells[step] + i * g
        states[step + 1] = o * np.tanh(cells[step + 1])


def lstm_backward(dy: Array, gates: Array, cells: Array, weight: Array, units: Index) -> None:
    """Turn gates into the gradients of the sums that they were computed from. units are as in gru_backward."""
    frozen = _others(units, weight.shape[1])
    carry = cell_carry = np.zeros_like(dy[0]) if len(dy) else 0
    for step in reversed(range(len(dy))):
        (i, f, g, o), output_grad = _parts(gates[step], 4), dy[step] + carry
        curve = np.tanh(cells[step + 1])
        dcell = output_grad * o * (1 - curve * curve) + cell_carry
        cell_carry = dcell * f
        slopes = dcell * g * i * (1 - i), dcell * cells[step] * f * (1 - f), dcell * i * (1 - g * g)
        gates[step] = _joined(frozen, *slopes, output_grad * curve * o * (1 - o))
        carry = gates[step] @ weight


def _product(state: Array, weight: Array, bias: Array | None) -> Array:
    product: Array = state @ weight.T
    return product if bias is None else product + bias


def _sigmoid(x: Array) -> Array:
    """Compute 1 / (1 + e^-x) from e^-|x|, which does not overflow."""
    e = np.exp(-np.abs(x))
    found: Array = np.where(x >= 0, 1, e) / (1 + e)
    return found


def _parts(step: Array, gates: int) -> list[Array]:
    """Return views of the gates of a step."""
    return np.split(step, gates, axis=1)


def _others(units: Index, size: int) -> Array:
    """Return the units that are not listed."""
    return np.setdiff1d(np.arange(size), np.arange(size) if units is None else units)


def _joined(frozen: Array, *parts: Array) -> Array:
    for part in parts:
        part[:, frozen] = 0
    return np.concatenate(parts, axis=1)
