"""The promises of edgefl.h beyond the numbers: aliasing, NaN and infinity, ties, sums that are added to."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from edgefl.kernels.table import TABLE

from .calls import each, run
from .cases import Args, Case, adversarial, ordinary, rectifiers, settings

NAN, INF = np.float32(np.nan), np.float32(np.inf)
ALIASES = [
    (row.name, read, argument.name) for row in TABLE.values() for argument in row.arguments for read in argument.aliases
]


def same_bits(first: Any, second: Any) -> bool:
    if not isinstance(first, np.ndarray):
        return first is second or first == second
    return first.tobytes() == second.tobytes()


@pytest.mark.parametrize(("op", "read", "written"), ALIASES)
def test_output_may_be_the_input(backend: ModuleType, op: str, read: str, written: str) -> None:
    def check(case: Case) -> None:
        apart, together = case.args(), case.args()
        apart[written] = apart[read].copy()
        together[written] = together[read]
        run(backend, op, apart)
        run(backend, op, together)
        for name in set(apart) - {read}:
            assert same_bits(apart[name], together[name]), name

    each((case, lambda case=case: check(case)) for case in adversarial(op) if has_one_shape(case.args(), read, written))


def has_one_shape(args: Args, read: str, written: str) -> bool:
    one, other = args[written], args[read]
    return one is not None and other is not None and one.shape == other.shape


def blank_like(array: np.ndarray) -> np.ndarray:
    return np.full_like(array, 99)


@pytest.mark.parametrize("name", rectifiers())
@pytest.mark.parametrize("width", [1, 3, 8, 16, 21])
def test_rectifier_keeps_nan_and_clears_its_bit(backend: ModuleType, name: str, width: int) -> None:
    op = f"{name}_forward"
    for position in range(width):
        x = np.full((1, 1, width), 2, np.float32)
        x[0, 0, position] = NAN
        y, bits = blank_like(x), np.zeros((1, 1, (width + 7) // 8), np.uint8)
        getattr(backend, op)(x=x, y=y, bits=bits, **settings(ordinary(op)))
        assert np.isnan(y[0, 0]).tolist() == [p == position for p in range(width)]
        is_on = np.unpackbits(bits[0, 0], bitorder="little", count=width)
        assert is_on.tolist() == [p != position for p in range(width)]


def test_relu_of_infinities_and_zeros(backend: ModuleType) -> None:
    x = np.array([[[-INF, INF, 0, -0.0, 1e-45, -1e-45, -3]]], np.float32)
    y, bits = blank_like(x), np.zeros((1, 1, 1), np.uint8)
    backend.relu_forward(x, y, bits)
    assert y[0, 0].tolist() == [0, INF, 0, 0, x[0, 0, 4], 0, 0]
    assert bits[0, 0, 0] == 0b10010


def test_relu_backward_passes_nan_only_where_the_bit_is_set(backend: ModuleType) -> None:
    dy, dx = np.full((1, 2, 9), NAN, np.float32), np.zeros((1, 2, 9), np.float32)
    backend.relu_backward(dy, np.array([[[1, 0], [0, 1]]], np.uint8), dx, None)
    assert np.argwhere(np.isnan(dx)).tolist() == [[0, 0, 0], [0, 1, 8]]
    assert np.nansum(np.abs(dx)) == 0


def pooled(backend: ModuleType, x: np.ndarray, kernel: Any, stride: Any, padding: Any) -> tuple[np.ndarray, np.ndarray]:
    shape = [(n + 2 * p - k) // s + 1 for n, k, s, p in zip(x.shape[2:], kernel, stride, padding)]
    y, codes = np.empty((*x.shape[:2], *shape), np.float32), np.empty((*x.shape[:2], *shape), np.uint8)
    backend.maxpool_forward(x, y, codes, kernel, stride, padding)
    return y, codes


@pytest.mark.parametrize("kernel", [(2, 2), (3, 3), (1, 2), (2, 3)])
def test_nan_wins_every_pool_window(backend: ModuleType, kernel: tuple[int, int]) -> None:
    cells = kernel[0] * kernel[1]
    for cell in range(cells):
        x = np.tile(np.arange(cells, dtype=np.float32).reshape(kernel), (1, 2, 1, 9))
        x[:, :, cell // kernel[1], cell % kernel[1] :: kernel[1]] = NAN
        y, codes = pooled(backend, x, kernel, kernel, (0, 0))
        assert np.isnan(y).all()
        assert (codes == cell).all()


def test_first_of_equal_pool_cells_wins(backend: ModuleType) -> None:
    _, codes = pooled(backend, np.zeros((1, 1, 4, 34), np.float32), (2, 2), (2, 2), (0, 0))
    assert (codes == 0).all()


def test_pool_window_of_minus_infinity_yields_its_first_cell_inside(backend: ModuleType) -> None:
    y, codes = pooled(backend, np.full((1, 1, 3, 3), -INF, np.float32), (3, 3), (2, 2), (1, 1))
    assert (y == -INF).all()
    assert codes[0, 0].tolist() == [[4, 3], [1, 0]]  # the corner windows begin in the padding


def xent(backend: ModuleType, logits: Any, labels: Any) -> tuple[np.ndarray, float, int]:
    logits = np.array(logits, np.float32)
    args: Args = {"logits": logits, "labels": np.array(labels, np.int32), "dlogits": blank_like(logits)}
    loss, correct = np.zeros(1), np.zeros(1, np.int64)
    run(backend, "softmax_xent", {**args, "loss": loss, "correct": correct})
    return args["dlogits"], float(loss[0]), int(correct[0])


def test_nan_logit_makes_the_loss_and_its_row_nan(backend: ModuleType) -> None:
    for column in range(5):
        logits = np.zeros((2, 5), np.float32)
        logits[1, column] = NAN
        dlogits, loss, _ = xent(backend, logits, [0, 1])
        assert np.isnan(loss)
        assert np.isnan(dlogits[1]).all()
        assert np.allclose(dlogits[0], [-0.4, 0.1, 0.1, 0.1, 0.1])


def test_logit_of_minus_infinity_has_probability_zero(backend: ModuleType) -> None:
    dlogits, loss, correct = xent(backend, [[0, -INF, 0]], [0])
    assert dlogits.tolist() == [[-0.5, 0, 0.5]]
    assert loss == pytest.approx(np.log(2))
    assert correct == 1


def test_huge_logits_do_not_overflow(backend: ModuleType) -> None:
    dlogits, loss, correct = xent(backend, [[1e38, -1e38], [1000, 0]], [0, 1])
    assert np.allclose(dlogits, [[0, 0], [0.5, -0.5]])
    assert loss == pytest.approx(1000)
    assert correct == 1


def test_first_of_equal_logits_is_the_prediction(backend: ModuleType) -> None:
    assert [xent(backend, [[1, 4, 4, 0]], [label])[2] for label in range(4)] == [0, 1, 0, 0]


@pytest.mark.parametrize("classes", [1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100])
def test_the_prediction_is_the_first_largest_logit_or_the_first_nan(backend: ModuleType, classes: int) -> None:
    rng = np.random.default_rng(classes)
    for values in ([0.0, 1.0], [-3.0, -1.0, -INF], [-INF], [2.0, NAN], [-1.0, INF, NAN], list(range(-50, 0))):
        logits = rng.choice(np.float32(values), (20, classes))
        first = logits.argmax(axis=1)  # numpy's: of NaNs the first one
        with np.errstate(all="ignore"):
            assert xent(backend, logits, first)[2] == 20
            assert classes == 1 or xent(backend, logits, (first + 1) % classes)[2] == 0


def test_nan_gradient_norm_gives_nan_scale(backend: ModuleType) -> None:
    scale = np.zeros(1, np.float32)
    backend.clip_scale(np.array([np.nan]), 1.0, scale)
    assert np.isnan(scale[0])


def test_unselected_nan_does_not_leak(backend: ModuleType) -> None:
    ids = np.array([0, 2], np.int32)
    dy, weight = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
    dy[:, 1], weight[1] = NAN, INF
    dx = np.zeros((2, 4), np.float32)
    backend.linear_grad_input(dy, weight, dx, ids, None)
    assert (dx == 2).all()
    maps, kernels = dy.reshape(2, 3, 1, 1), weight.reshape(3, 4, 1, 1)
    image = np.zeros((2, 4, 1, 1), np.float32)
    backend.conv2d_grad_input(maps, kernels, image, (1, 1), (0, 0), (1, 1), 1, ids, None)
    assert (image == 2).all()


def test_calls_with_nothing_selected_write_nothing(backend: ModuleType) -> None:
    none = np.array([], np.int32)
    dx = np.full((2, 4), 7, np.float32)
    backend.linear_grad_input(np.ones((2, 3), np.float32), np.ones((3, 4), np.float32), dx, None, none)
    assert (dx == 7).all()
    backend.linear_grad_input(np.ones((2, 3), np.float32), np.ones((3, 4), np.float32), dx, none, None)
    assert (dx == 0).all()


def recorded(backend: ModuleType) -> tuple[Any, np.ndarray, np.ndarray]:
    """A program that gathers labels and adds their bytes as float to a sum: index buffer and sum."""
    index, picked, total = np.zeros(2, np.int32), np.zeros((2, 1), np.float32), np.zeros((2, 1), np.float32)
    program = backend.Program()
    program.append("gather_rows", np.array([[1], [10], [100]], np.float32), index, 1.0, 0.0, picked)
    program.append("add", total, picked, total)
    return program, index, total


def test_program_runs_its_calls_in_order(backend: ModuleType) -> None:
    program, index, total = recorded(backend)
    index[:] = [2, 0]
    program.run()
    program.run()
    assert total.ravel().tolist() == [200, 2]


def test_program_runs_once_per_batch(backend: ModuleType) -> None:
    program, index, total = recorded(backend)
    program.run_batches(index, np.array([[0, 1], [1, 2], [2, 2]], np.int32))
    assert total.ravel().tolist() == [111, 210]
    assert index.tolist() == [2, 2]


def test_program_takes_arguments_by_name_and_replaces_a_call(backend: ModuleType) -> None:
    program, y = backend.Program(), np.zeros(2, np.float32)
    program.append("add", np.ones(2, np.float32), y=y, b=np.full(2, 2, np.float32))
    program.append("add", y, y, y)
    program.replace(1, "add", a=np.full(2, 4, np.float32), b=y, y=y)
    program.run()
    assert len(program) == 2
    assert y.tolist() == [7, 7]
    with pytest.raises(ValueError, match=r"position"):
        program.replace(2, "fill_zero", y)


def test_program_refuses_an_unknown_operation(backend: ModuleType) -> None:
    with pytest.raises(ValueError, match="no_such_op"):
        backend.Program().append("no_such_op", 1)


def test_program_refuses_wrong_arguments_when_it_records_or_runs(backend: ModuleType) -> None:
    program, y = backend.Program(), np.full((1, 2, 4), 7, np.float32)

    def record_and_run() -> None:
        program.append("relu_forward", np.ones((1, 2, 3), np.float32), y, None)
        program.run()

    with pytest.raises(ValueError, match="y"):
        record_and_run()
    assert (y == 7).all()


def test_case_arguments_are_the_same_every_time() -> None:
    case = adversarial("relu_forward")[0]
    assert all(same_bits(first, second) for first, second in zip(case.args().values(), case.args().values()))
