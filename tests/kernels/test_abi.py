"""The C ABI by itself: cffi parses csrc/edgefl.h, opens libedgefl.so, and calls it as a C program would."""

import re

import numpy as np
import pytest

from edgefl.kernels.table import TABLE

from .abi import LIBRARY, header, load

pytest.importorskip("cffi", reason="cffi is in the test extra")

pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason="libedgefl.so was not built (no C++ compiler)")


@pytest.fixture(scope="module")
def loaded():
    return load()


@pytest.fixture(scope="module")
def ffi(loaded):
    return loaded[0]


@pytest.fixture(scope="module")
def lib(loaded):
    return loaded[1]


@pytest.fixture
def pointer(ffi):
    """A C pointer to a numpy array's memory, typed by its dtype."""
    names = {"float32": "float *", "float64": "double *", "int32": "efl_int32 *", "uint8": "efl_uint8 *"}
    return lambda array: ffi.cast(names[array.dtype.name], array.ctypes.data)


def test_every_function_of_the_header_is_exported(lib):
    functions = re.findall(r"\b(efl_\w+)\(", header())
    assert len(functions) == len(set(functions)) > len(TABLE)  # test_table.py says which kernels
    assert all(getattr(lib, name) for name in functions)


def test_library_needs_no_python():
    assert b"PyObject" not in LIBRARY.read_bytes()


def test_linear_forward_by_hand(ffi, lib, pointer):
    x = np.array([[1, 2, 3]], np.float32)
    weight = np.array([[1, 0, 0], [0, 1, 1]], np.float32)
    bias = np.array([10, 20], np.float32)
    y = np.empty((1, 2), np.float32)
    status = lib.efl_linear_forward_f32(pointer(x), pointer(weight), pointer(bias), 1, 3, 2, pointer(y))
    assert status == lib.EFL_OK
    assert y.tolist() == [[11, 25]]


def test_conv_with_one_output_is_a_dot_product(ffi, lib, pointer):
    x, weight, y = np.arange(4, dtype=np.float32), np.array([1, 10, 100, 1000], np.float32), np.empty(1, np.float32)
    conv = ffi.new("efl_conv2d *", [1, 1, 2, 2, 1, 2, 2, 1, 1, 0, 0, 1, 1, 1])
    assert lib.efl_conv2d_forward_f32(conv, pointer(x), pointer(weight), ffi.NULL, pointer(y)) == lib.EFL_OK
    assert y[0] == 0 + 10 + 200 + 3000


def test_sgd_moves_the_selected_block_only(ffi, lib, pointer):
    w = np.ones((3, 2), np.float32)
    grad = np.array([[1], [2]], np.float32)
    rows, cols = np.array([0, 2], np.int32), np.array([1], np.int32)
    sgd = ffi.new("efl_sgd *", [0.5, 0, 0, 0])
    index = {
        "rows": ffi.new("efl_index *", [pointer(rows), 2])[0],
        "cols": ffi.new("efl_index *", [pointer(cols), 1])[0],
    }
    null = ffi.NULL
    status = lib.efl_sgd_f32(
        pointer(w), 3, 2, 1, index["rows"], index["cols"], pointer(grad), sgd, null, null, null, null
    )
    assert status == lib.EFL_OK
    assert w.tolist() == [[1, 0.5], [1, 1], [1, 0]]


def test_negative_extent_is_a_bad_shape(ffi, lib, pointer):
    x = np.zeros(4, np.float32)
    assert lib.efl_add_f32(pointer(x), pointer(x), -1, pointer(x)) == lib.EFL_BAD_SHAPE


def test_null_pointer_is_a_bad_argument(ffi, lib, pointer):
    x = np.zeros(4, np.float32)
    assert lib.efl_add_f32(pointer(x), ffi.NULL, 4, pointer(x)) == lib.EFL_BAD_ARGUMENT


@pytest.mark.parametrize(
    "ids", [[1, 0], [1, 1], [-1, 0], [0, 3]], ids=["unsorted", "repeated", "negative", "too large"]
)
def test_bad_ids_are_refused_and_nothing_is_written(ffi, lib, pointer, ids):
    x, y, ids = np.zeros((1, 3, 2), np.float32), np.full((1, 2, 2), 7, np.float32), np.array(ids, np.int32)
    index = ffi.new("efl_index *", [pointer(ids), 2])[0]
    assert lib.efl_take_channels_f32(pointer(x), 1, 3, 2, index, pointer(y)) == lib.EFL_BAD_INDEX
    assert (y == 7).all()


def test_kernel_larger_than_its_plane_is_a_bad_shape(ffi, lib, pointer):
    x = np.zeros(64, np.float32)
    conv = ffi.new("efl_conv2d *", [1, 1, 2, 2, 1, 5, 5, 1, 1, 0, 0, 1, 1, 1])
    assert lib.efl_conv2d_forward_f32(conv, pointer(x), pointer(x), ffi.NULL, pointer(x)) == lib.EFL_BAD_SHAPE


def test_max_pool_window_over_255_cells_is_a_bad_argument(ffi, lib, pointer):
    x = np.zeros(400, np.float32)
    pool = ffi.new("efl_pool2d *", [1, 20, 20, 16, 16, 1, 1, 0, 0, 0])
    assert lib.efl_maxpool_forward_f32(pool, pointer(x), pointer(x), ffi.NULL) == lib.EFL_BAD_ARGUMENT


def test_label_outside_the_classes_is_a_bad_index(ffi, lib, pointer):
    logits, labels, loss = np.zeros((2, 3), np.float32), np.array([0, 3], np.int32), np.zeros(1)
    correct = ffi.new("efl_int64 *", 0)
    status = lib.efl_softmax_xent_f32(pointer(logits), pointer(labels), 2, 3, ffi.NULL, pointer(loss), correct)
    assert status == lib.EFL_BAD_INDEX
    assert loss[0] == 0 and correct[0] == 0


def test_dweight_outside_the_needed_channels_is_a_bad_index(ffi, lib, pointer):
    x, out = np.zeros((1, 3, 4), np.float32), np.zeros(3, np.float32)
    needed, outs = np.array([0, 2], np.int32), np.array([1], np.int32)
    index = [ffi.new("efl_index *", [pointer(ids), len(ids)])[0] for ids in (needed, outs)]
    tensors = [pointer(array) for array in (x, x, out, out)]
    status = lib.efl_batchnorm_backward_f32(*tensors, 1, 3, 4, *index, pointer(x), pointer(out), pointer(out))
    assert status == lib.EFL_BAD_INDEX


def test_unknown_isa_is_refused_and_changes_nothing(ffi, lib):
    before = ffi.string(lib.efl_isa())
    assert lib.efl_cap_isa(b"avx3") == lib.EFL_BAD_ISA
    assert lib.efl_has_isa(b"avx3") == 0
    assert ffi.string(lib.efl_isa()) == before


def test_every_status_has_a_text(ffi, lib):
    texts = {ffi.string(lib.efl_status_text(status)) for status in range(7)}
    assert len(texts) == 7
    assert b"unknown status" not in texts
