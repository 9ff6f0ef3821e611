"""Edges of the vector paths of the native kernels, on every instruction set of this CPU."""

import numpy as np
import pytest

from edgefl.kernels import ISAS, reference

native = pytest.importorskip("edgefl.kernels.native", reason="the native extension was not built (no C++ compiler)")

SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 49)  # around every word length


@pytest.fixture(params=ISAS, autouse=True)
def isa(request):
    if not native.has_isa(request.param):
        pytest.skip(f"this CPU has no {request.param}")
    before = native.isa()
    native.cap_isa(request.param)
    yield request.param
    native.cap_isa(before)


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def pool(backend, x, dtype):
    """Return output, codes and gradient of 2 x 2 max pooling. The gradient is 9 outside `channels`."""
    shape = (*x.shape[:2], x.shape[2] // 2, x.shape[3] // 2)
    y, codes, dx = np.empty(shape, dtype), np.empty(shape, np.uint8), np.full(x.shape, 9, dtype)
    window, channels = ((2, 2), (2, 2), (0, 0)), np.array([0, 2], np.int32)
    backend.maxpool_forward(x.astype(dtype), y, codes, *window)
    backend.maxpool_backward(np.arange(y.size, dtype=dtype).reshape(shape) + 1, codes, dx, *window, channels)
    return y, codes, dx


@pytest.mark.parametrize("width", [2, 3, 4, 6, 7, 14, 15, 16, 17, 28, 30, 32, 33, 64])
@pytest.mark.parametrize("height", [2, 3, 8])
def test_halving_pool_equals_the_reference(rng, height, width):
    x = rng.integers(-3, 3, (2, 3, height, width)).astype(np.float32)  # many ties
    for ours, expected in zip(pool(native, x, np.float32), pool(reference, x, np.float64)):
        assert np.array_equal(ours, expected)


def winner(window, cells):
    """Return the code of the first largest of the cells inside the plane, in order, or of the last NaN."""
    best, code = -np.inf, int(cells[0])
    for value, cell in zip(window, cells):
        if value > best or np.isnan(value):
            best, code = value, int(cell)
    return best, code


@pytest.mark.parametrize(
    ("kernel", "stride", "padding"),
    [((3, 3), (2, 2), (1, 1)), ((3, 3), (1, 1), (1, 1)), ((2, 5), (3, 2), (1, 2)), ((2, 4), (1, 1), (0, 2))],
)
@pytest.mark.parametrize("width", [5, 16, 70, 134])
def test_overlapping_pool_takes_the_last_nan_and_the_first_of_equals(rng, kernel, stride, padding, width):
    x = rng.choice(np.float32([-np.inf, np.nan, 0, 1, 2, np.inf]), (1, 2, 9, width), p=[0.55, 0.05, 0.1, 0.1, 0.1, 0.1])
    positions = np.pad(np.arange(9 * width).reshape(9, width), [(p, p) for p in padding], constant_values=-1)
    seen = np.lib.stride_tricks.sliding_window_view(positions, kernel)[:: stride[0], :: stride[1]]
    y = np.empty((1, 2, *seen.shape[:2]), np.float32)
    codes = np.empty(y.shape, np.uint8)
    native.maxpool_forward(x, y, codes, kernel, stride, padding)
    for c, h, w in np.ndindex(*y.shape[1:]):
        cells = np.flatnonzero(seen[h, w].ravel() >= 0)
        best, code = winner(x[0, c].ravel()[seen[h, w].ravel()[cells]], cells)
        assert (codes[0, c, h, w], str(y[0, c, h, w])) == (code, str(np.float32(best))), (c, h, w)


def test_halving_pool_takes_the_last_nan_and_the_first_of_equals():
    nan, inf = np.nan, np.inf
    windows = [
        [1, 1, 1, 1],
        [0, 2, 2, 1],
        [nan, 5, 6, 7],
        [5, nan, 6, nan],
        [-inf, -inf, -inf, -inf],
        [-inf, 1, inf, inf],
    ]
    x = np.array(windows, np.float32).reshape(6, 2, 2).transpose(1, 0, 2).reshape(1, 1, 2, 12)
    y, codes = np.empty((1, 1, 1, 6), np.float32), np.empty((1, 1, 1, 6), np.uint8)
    native.maxpool_forward(np.ascontiguousarray(x), y, codes, (2, 2), (2, 2), (0, 0))
    assert np.array_equal(y.ravel(), np.float32([1, 2, nan, nan, -inf, inf]), equal_nan=True)
    assert codes.ravel().tolist() == [0, 1, 0, 3, 0, 2]


def test_pool_writes_nothing_outside_its_arrays(rng):
    x = rng.standard_normal((1, 3, 6, 6), np.float32)
    guarded = np.full(3 + 9 * 3 + 40, 5, np.float32)
    y = guarded[3:30].reshape(1, 3, 3, 3)
    codes = np.full(27 + 40, 77, np.uint8)
    native.maxpool_forward(x, y, codes[:27].reshape(1, 3, 3, 3), (2, 2), (2, 2), (0, 0))
    assert (guarded[:3] == 5).all() and (guarded[30:] == 5).all()
    assert (codes[27:] == 77).all()


@pytest.mark.parametrize("inner", SIZES)
def test_relu_bits_and_gradient(rng, inner):
    x = rng.standard_normal((2, 3, inner), np.float32)
    x[0, 0, 0] = np.nan
    y, bits, dx = np.empty_like(x), np.full((2, 3, (inner + 7) // 8), 255, np.uint8), np.full_like(x, 9)
    native.relu_forward(x, y, bits)
    assert np.array_equal(y, np.where(x <= 0, 0, x), equal_nan=True)
    unpacked = np.unpackbits(bits, axis=2, bitorder="little")
    assert np.array_equal(unpacked[..., :inner], x > 0)
    assert not unpacked[..., inner:].any()
    native.relu_backward(np.ones_like(x), bits, dx, np.array([1], np.int32))
    assert np.array_equal(dx[:, 1], (x > 0)[:, 1])
    assert (dx[:, [0, 2]] == 9).all()


def xent(logits, labels):
    dlogits, loss, correct = np.empty_like(logits), np.zeros(1), np.zeros(1, np.int64)
    native.softmax_xent(logits, np.array(labels, np.int32), dlogits, loss, correct)
    return dlogits, loss[0], correct[0]


@pytest.mark.parametrize("classes", SIZES)
def test_softmax_equals_float64(rng, classes):
    logits, labels = rng.standard_normal((5, classes), np.float32) * 8, rng.integers(0, classes, 5)
    dlogits, loss, correct = xent(logits, labels)
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    softmax = np.exp(shifted) / np.exp(shifted).sum(axis=1, keepdims=True)
    expected = (softmax - np.eye(classes)[labels]) / 5
    # logit - largest is rounded to float32 first: |difference| * 2^-24 relative in e^difference, at most 3.6e-6 here
    assert np.abs(shifted).max() < 60
    assert np.allclose(dlogits, expected, rtol=5e-6, atol=2.0**-24)
    assert loss == pytest.approx(-np.log(softmax[np.arange(5), labels]).sum(), rel=1e-6, abs=1e-6)
    assert correct == (logits.argmax(axis=1) == labels).sum()


def test_exp_is_within_two_ulp():
    """e^v, read off the gradient of two logits (v, 0) for label 1: softmax / batch * total = e^v."""
    v = np.linspace(-87.0, -20.0, 4001, dtype=np.float32)  # below -20 the sum of terms is exactly 1 in float32
    logits = np.stack([v, np.zeros_like(v)], axis=1)
    exact = np.exp(v.astype(np.float64)) / len(v)
    dlogits, _, _ = xent(logits, np.ones(len(v), np.int32))
    relative = np.abs(dlogits[:, 0] - exact)[exact > 1e-34] / exact[exact > 1e-34]
    assert relative.max() < 2.5 * 2.0**-23  # 2 ulp, and the division by the batch


def test_softmax_far_below_the_largest_is_zero_and_nan_spreads():
    logits = np.array([[0, -200, -np.inf, -104], [0, np.nan, 0, 0], [np.inf, 0, 0, 0]], np.float32)
    dlogits, loss, correct = xent(logits, [0, 0, 0])
    assert dlogits[0].tolist() == [0, 0, 0, 0]
    assert np.isnan(dlogits[1:]).all()
    assert np.isnan(loss)
    assert correct == 2


def test_softmax_may_write_over_the_logits(rng):
    logits = rng.standard_normal((4, 13), np.float32)
    expected, _, _ = xent(logits, [0, 1, 2, 12])
    loss, correct = np.zeros(1), np.zeros(1, np.int64)
    native.softmax_xent(logits, np.array([0, 1, 2, 12], np.int32), logits, loss, correct)
    assert np.array_equal(logits, expected)


@pytest.mark.parametrize("inner", SIZES)
def test_norm_of_a_large_offset_keeps_its_digits(rng, inner):
    """Values 1000 +- 1: a variance from the mean of squares would lose all its digits."""
    x = (1000 + rng.standard_normal((6, 2, inner))).astype(np.float32)
    y, xhat, inv_std = np.empty_like(x), np.empty_like(x), np.empty(2, np.float32)
    ones, mean, var = np.ones(2, np.float32), np.zeros(2, np.float32), np.zeros(2, np.float32)
    native.batchnorm_forward(x, ones, ones, mean, var, y, xhat, inv_std, 1e-5, 1.0)
    exact = x.astype(np.float64)
    assert np.allclose(mean, exact.mean(axis=(0, 2)), rtol=1e-7)
    assert np.allclose(var, exact.var(axis=(0, 2), ddof=1), rtol=2e-6)


def test_norm_survives_a_first_plane_far_from_the_others(rng):
    """The worst case of the shifted sums: sample 0 is constant 0, the others lie around 1000."""
    x = (1000 + rng.standard_normal((16, 1, 64))).astype(np.float32)
    x[0] = 0
    y, xhat, inv_std, one = np.empty_like(x), np.empty_like(x), np.empty(1, np.float32), np.ones(1, np.float32)
    native.batchnorm_forward(x, one, np.zeros(1, np.float32), one.copy(), one.copy(), y, xhat, inv_std, 1e-5, 0.1)
    exact = x.astype(np.float64)
    assert np.allclose(inv_std, 1 / exact.std(), rtol=2e-6)
    assert np.allclose(xhat, (exact - exact.mean()) / exact.std(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("columns", [[0, 1, 2, 3], [1, 4, 9], [0, 1, 2, 6, 7, 8, 12], list(range(40)), [3]])
@pytest.mark.parametrize("inner", [1, 2, 9])
def test_sgd_gives_the_same_bits_everywhere(rng, inner, columns):
    """Multiply, then add: numpy's float32 arithmetic, whatever the ISA and however the columns lie."""
    rows, cols = np.array([0, 2, 3], np.int32), np.array(columns, np.int32)
    w = rng.standard_normal((5, 40, inner), np.float32)
    compact = [rng.standard_normal((3, len(cols), inner), np.float32) for _ in range(4)]
    grad, velocity, centre, linear = compact
    lr, momentum, decay, pull = hyper = np.array([0.1, 0.9, 0.01, 0.3], np.float32)
    scale = np.array([0.7], np.float32)
    block = w[np.ix_(rows, cols)]
    g = scale * grad + decay * block + pull * (block - centre) + linear
    moved = momentum * velocity + g
    expected = w.copy()
    expected[np.ix_(rows, cols)] = block - lr * moved
    native.sgd(w, grad, hyper, rows, cols, scale, velocity, centre, linear)
    assert np.array_equal(w, expected)
    assert np.array_equal(velocity, moved)


@pytest.mark.parametrize("columns", [None, [0], [1, 2, 3, 4, 5], [0, 7, 19], [0, 1, 8, 9, 18]])
@pytest.mark.parametrize("inner", [1, 3])
def test_put_undoes_take(rng, inner, columns):
    rows, cols = np.array([1, 3], np.int32), None if columns is None else np.array(columns, np.int32)
    w = rng.integers(0, 1000, (4, 20, inner), dtype=np.int32)
    chosen = w[rows] if cols is None else w[np.ix_(rows, cols)]
    values = np.empty_like(chosen)
    native.take_axes(w, rows, cols, values)
    assert np.array_equal(values, chosen)
    blank = np.zeros_like(w)
    native.put_axes(blank, rows, cols, values)
    expected = np.zeros_like(w)
    expected[rows if cols is None else np.ix_(rows, cols)] = chosen
    assert np.array_equal(blank, expected)
