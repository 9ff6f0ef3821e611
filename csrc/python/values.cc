// The functions of values.h.
#include "values.h"

#include <new>
#include <stdexcept>
#include <utility>

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

namespace efl {
namespace {

namespace py = pybind11;

template <class T>
bool holds_type(PyObject* array) {
    return py::isinstance<py::array_t<T, 0>>(array);
}

template <class T>
bool read_as(PyObject* value, T* found) {
    py::detail::make_caster<T> caster;
    if (!caster.load(value, true)) return false;
    *found = py::detail::cast_op<T>(caster);
    return true;
}

}  // namespace

bool read_array(PyObject* value, Array* found) {
    if (!py::isinstance<py::array>(value)) return false;
    const auto array = py::reinterpret_borrow<py::array>(value);
    found->data = const_cast<void*>(array.data());
    found->extents = array.shape();
    found->dims = std::size_t(array.ndim());
    found->is_contiguous = array.flags() & py::array::c_style;
    found->is_writeable = array.writeable();
    return true;
}

bool holds(PyObject* array, Type type) {
    switch (type) {
        case Type::float32: return holds_type<float>(array);
        case Type::float64: return holds_type<double>(array);
        case Type::uint8: return holds_type<efl_uint8>(array);
        case Type::int32: return holds_type<efl_int32>(array);
        case Type::uint32: return holds_type<efl_uint32>(array);
        case Type::int64: return holds_type<efl_int64>(array);
    }
    return false;
}

efl_int64 item_bytes(PyObject* array) { return py::reinterpret_borrow<py::array>(array).itemsize(); }

bool read_real(PyObject* value, float* found) { return read_as(value, found); }

bool read_integer(PyObject* value, efl_int64* found) { return read_as(value, found); }

bool read_pair(PyObject* value, efl_int64* first, efl_int64* second) {
    std::pair<efl_int64, efl_int64> both;
    if (!read_as(value, &both)) return false;
    *first = both.first;
    *second = both.second;
    return true;
}

std::string dtype_of(PyObject* array) {
    return "dtype " + std::string(py::str(py::reinterpret_borrow<py::array>(array).dtype()));
}

std::string shown(PyObject* value) { return "value " + std::string(py::repr(value)); }

std::string shown_keys(PyObject* dictionary) { return std::string(py::repr(py::handle(dictionary).attr("keys")())); }

void set_error() {
    try {
        throw;
    } catch (py::error_already_set& error) {
        error.restore();
    } catch (const py::builtin_exception& error) {
        error.set_error();
    } catch (const std::invalid_argument& error) {
        PyErr_SetString(PyExc_ValueError, error.what());
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
    } catch (const std::exception& error) {
        PyErr_SetString(PyExc_RuntimeError, error.what());
    }
}

}  // namespace efl
