"""Wrong arguments from Python: each is a ValueError that names the operation, the argument, value and expectation."""

import numpy as np
import pytest

native = pytest.importorskip("edgefl.kernels.native", reason="the native extension was not built (no C++ compiler)")


def f32(*shape):
    return np.zeros(shape, np.float32)


def i32(*ids):
    return np.array(ids, np.int32)


def read_only(array):
    array.flags.writeable = False
    return array


UNIT = ((1, 1), (0, 0), (1, 1), 1)
PAIR = ((2, 2), (2, 2), (0, 0))

CASES = {
    "dtype": ("add", (f32(2), np.zeros(2), f32(2)), "add: b has dtype float64; expected float32"),
    "type": ("add", (f32(2), [1.0, 2.0], f32(2)), "add: b has type list; expected a numpy array"),
    "shape": ("add", (f32(2), f32(3), f32(2)), r"add: b has shape \(3,\); expected \(2,\)"),
    "strides": ("add", (f32(4)[::2], f32(2), f32(2)), "add: a has strides that are not C-contiguous"),
    "read-only": (
        "add",
        (f32(2), f32(2), read_only(f32(2))),
        "add: y has the read-only flag; expected a writeable array",
    ),
    "many dimensions": ("add", (f32(*[1] * 9),) * 3, "add: a has 9 dimensions; expected at most 8"),
    "dimensions": ("softmax_xent", (f32(2), i32(0), None, np.zeros(1), np.zeros(1, np.int64)), "logits has shape"),
    "labels": (
        "softmax_xent",
        (f32(2, 3), i32(0), None, np.zeros(1), np.zeros(1, np.int64)),
        r"softmax_xent: labels has shape \(1,\); expected \(2,\)",
    ),
    "weight of another input": (
        "conv2d_forward",
        (f32(1, 3, 4, 4), f32(2, 4, 1, 1), None, f32(1, 2, 4, 4), *UNIT),
        r"conv2d_forward: weight has shape \(2, 4, 1, 1\); expected \(2, 3, 1, 1\)",
    ),
    "output of another stride": (
        "conv2d_forward",
        (f32(1, 3, 4, 4), f32(2, 3, 1, 1), None, f32(1, 2, 4, 4), (2, 2), *UNIT[1:]),
        r"conv2d_forward: y has shape \(1, 2, 4, 4\); expected \(1, 2, 2, 2\)",
    ),
    "stride 0": (
        "conv2d_forward",
        (f32(1, 3, 4, 4), f32(2, 3, 1, 1), None, f32(1, 2, 4, 4), (0, 1), *UNIT[1:]),
        r"conv2d_forward: .*\(4, 4, 1, 1, 0, 1, 0, 0, 1, 1, 1\)",
    ),
    "stride of one number": (
        "conv2d_forward",
        (f32(1, 3, 4, 4), f32(2, 3, 1, 1), None, f32(1, 2, 4, 4), 1, *UNIT[1:]),
        "conv2d_forward: stride has value 1; expected two integers",
    ),
    "groups that do not divide": (
        "conv2d_grad_weight",
        (f32(1, 3, 4, 4), f32(1, 2, 4, 4), f32(2, 1, 1, 1), *UNIT[:3], 2, None, None, 3),
        r"conv2d_grad_weight: \(in_channels, out_channels, groups\) = \(3, 2, 2\)",
    ),
    "compact dw": (
        "conv2d_grad_weight",
        (f32(1, 3, 4, 4), f32(1, 2, 4, 4), f32(2, 3, 1, 1), *UNIT, i32(1), None, 3),
        r"conv2d_grad_weight: dw has shape \(2, 3, 1, 1\); expected \(1, 3, 1, 1\)",
    ),
    "ids dtype": (
        "channel_sum",
        (f32(1, 3), f32(1), np.array([1])),
        "channel_sum: outs has dtype int64; expected int32",
    ),
    "ids range": (
        "channel_sum",
        (f32(1, 3), f32(1), i32(3)),
        "channel_sum: ids are not sorted, not unique, or out of range",
    ),
    "ids order": ("take_axes", (f32(3, 1, 1), i32(2, 0), None, f32(2, 1, 1)), "take_axes: ids are not sorted"),
    "flat ids": ("put_flat", (f32(3), np.array([1, 1], np.uint32), f32(2)), "put_flat: ids are not sorted"),
    "values": (
        "take_axes",
        (f32(3, 1, 1), None, None, f32(2)),
        r"take_axes: values has shape \(2,\) with 2 elements; expected 3",
    ),
    "pool padding": (
        "maxpool_forward",
        (f32(1, 1, 4, 4), f32(1, 1, 4, 4), None, (2, 2), (1, 1), (2, 0)),
        r"maxpool_forward: .* = \(4, 4, 2, 2, 1, 1, 2, 0\)",
    ),
    "pool bytes": (
        "maxpool_backward",
        (f32(1, 1, 2, 2), np.zeros(3, np.uint8), f32(1, 1, 4, 4), *PAIR, None),
        r"maxpool_backward: codes has shape \(3,\) with 3 elements; expected 4",
    ),
    "batch norm of one value": (
        "batchnorm_forward",
        (f32(1, 2), *(f32(2) for _ in range(4)), f32(1, 2), f32(1, 2), f32(2), 1e-5, 0.1),
        r"batchnorm_forward: x has shape \(1, 2\); expected at least 2 values per channel",
    ),
    "momentum without velocity": (
        "sgd",
        (f32(1, 1, 1), f32(1), np.array([0.1, 0.9, 0, 0], np.float32), None, None, None, None, None, None),
        "sgd: velocity has value None; expected an array, because momentum is 0.9",
    ),
    "groups of a norm": (
        "groupnorm_forward",
        (f32(1, 3), f32(3), f32(3), f32(1, 3), None, f32(1, 2), 2, 1e-5),
        "groupnorm_forward: groups has value 2; expected a divisor of 3",
    ),
    "negative norm": (
        "clip_scale",
        (np.zeros(1), -1.0, f32(1)),
        "clip_scale: max_norm has value -1.*; expected a number >= 0",
    ),
    "number": ("clip_scale", (np.zeros(1), "much", f32(1)), "clip_scale: max_norm has value 'much'; expected a number"),
}


@pytest.mark.parametrize(("op", "args", "message"), CASES.values(), ids=CASES.keys())
def test_refused_when_called(op, args, message):
    with pytest.raises(ValueError, match=message):
        getattr(native, op)(*args)


RUN_TIME = {"ids range", "ids order", "flat ids", "momentum without velocity"}


@pytest.mark.parametrize(("name", "case"), CASES.items(), ids=CASES.keys())
def test_refused_when_recorded_or_when_run(name, case):
    """Types and shapes are checked when a call is recorded, ids and values, which may change between runs, when it is
    run.
    """
    op, args, message = case
    program = native.Program()
    if name in RUN_TIME:
        program.append(op, *args)
        with pytest.raises(ValueError, match=message):
            program.run()
    else:
        with pytest.raises(ValueError, match=message):
            program.append(op, *args)
        assert len(program) == 0


def test_wrong_number_of_arguments():
    program = native.Program()
    with pytest.raises(ValueError, match="add: 2 arguments; expected also y"):
        program.append("add", f32(1), f32(1))
    with pytest.raises(ValueError, match="add: 4 arguments; expected 3"):
        program.append("add", f32(1), f32(1), f32(1), f32(1))


def test_unknown_operation():
    with pytest.raises(ValueError, match="operation 'subtract'"):
        native.Program().append("subtract", f32(1))


def test_program_keeps_arrays_given_by_name_alive():
    program, y = native.Program(), f32(3)
    program.append("add", np.ones(3, np.float32), y=y, b=np.full(3, 2, np.float32))
    program.run()
    assert y.tolist() == [3, 3, 3]
    with pytest.raises(ValueError, match="add: 2 arguments; expected also b"):
        program.append("add", y, y=y)


def test_program_keeps_its_arrays_alive():
    program, y = native.Program(), f32(3)
    program.append("add", np.ones(3, np.float32), np.full(3, 2, np.float32), y)
    program.run()
    assert y.tolist() == [3, 3, 3]


def test_run_batches_copies_each_row_then_runs_all_calls():
    program, index, out, total = native.Program(), np.zeros(2, np.int32), f32(2, 1), np.zeros(1)
    program.append("gather_rows", np.array([[1], [2], [4], [8]], np.uint8), index, 1.0, 0.0, out)
    program.append("sum_squares", out, total)
    program.run_batches(index, np.array([[0, 1], [3, 3]], np.int32))
    assert total[0] == 1 + 4 + 64 + 64
    assert out.tolist() == [[8], [8]]


def test_run_batches_of_another_size_is_refused():
    with pytest.raises(ValueError, match=r"run_batches: index_buffer has shape \(2,\); expected \(3,\)"):
        native.Program().run_batches(np.zeros(2, np.int32), np.zeros((1, 3), np.int32))


def test_a_failing_batch_stops_the_program_and_names_the_call():
    program, index, out = native.Program(), np.zeros(1, np.int32), f32(1, 1)
    program.append("gather_rows", np.array([[5]], np.uint8), index, 1.0, 0.0, out)
    with pytest.raises(ValueError, match=r"gather_rows: .* out of range; index = \(1,\)"):
        program.run_batches(index, np.array([[0], [1], [0]], np.int32))
    assert index[0] == 1
