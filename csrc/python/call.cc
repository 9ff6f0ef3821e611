// The checks declared in call.h.
#include "call.h"

#include <stdexcept>

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

namespace py = pybind11;

namespace efl {
namespace {

py::array array(const Args& args, const char* name, PyObject* value, Access access) {
    if (!py::isinstance<py::array>(value))
        args.refuse(name, "type " + std::string(Py_TYPE(value)->tp_name), "a numpy array");
    const py::array array = py::reinterpret_borrow<py::array>(value);
    if (!(array.flags() & py::array::c_style))
        args.refuse(name, "strides that are not C-contiguous", "a C-contiguous array");
    if (size_t(array.ndim()) > Shape::MOST)
        args.refuse(name, std::to_string(array.ndim()) + " dimensions", "at most " + std::to_string(Shape::MOST));
    if (access == Access::out && !array.writeable()) args.refuse(name, "the read-only flag", "a writeable array");
    return array;
}

View view_of(const char* name, const py::array& array) {
    return {.name = name,
            .shape = Shape(array.shape(), array.shape() + array.ndim()),
            .data = const_cast<void*>(array.data())};
}

template <class T>
bool holds(const py::array& array) {
    return py::isinstance<py::array_t<T, 0>>(array);
}

std::string dtype_of(const py::array& array) { return "dtype " + std::string(py::str(array.dtype())); }
std::string shown(py::handle value) { return "value " + std::string(py::repr(value)); }

}  // namespace

std::string text(const Shape& shape) { return listed(std::vector<efl_int64>(shape.begin(), shape.end())); }

std::string listed(const std::vector<efl_int64>& numbers) {
    std::string out = "(";
    for (size_t i = 0; i < numbers.size(); ++i) out += (i ? ", " : "") + std::to_string(numbers[i]);
    return out + (numbers.size() == 1 ? ",)" : ")");
}

efl_int64 product(const Shape& shape, size_t from) {
    efl_int64 n = 1;
    for (size_t i = from; i < shape.size(); ++i) n *= shape[i];
    return n;
}

Shape tailed(std::initializer_list<efl_int64> head, const Shape& whole, size_t from) {
    efl_int64 extents[2 * Shape::MOST];
    efl_int64* const end = std::copy(whole.begin() + from, whole.end(), std::copy(head.begin(), head.end(), extents));
    return Shape(extents, end);
}

Word::Word(const char* words) : text(words) {}
Word::Word(efl_int64 number) : text(std::to_string(number)) {}
Word::Word(double number) : text(std::to_string(number)) {}
Word::Word(const Shape& shape) : text(efl::text(shape)) {}

static std::string joined(Words words) {
    std::string all;
    for (const Word& word : words) all += word.text;
    return all;
}

void refuse_run(const char* op, const char* name, Words value, Words expected) {
    throw std::invalid_argument(std::string(op) + ": " + name + " has " + joined(value) + "; expected " +
                                joined(expected));
}

void Args::reject(const char* name, Words value, Words expected) const {
    refuse(name, joined(value), joined(expected));
}

void Args::expect_divisor(const char* name, efl_int64 value, efl_int64 of) const {
    if (value < 1 || of % value) reject(name, {"value ", value}, {"a divisor of ", of});
}

void Args::refuse(const std::string& name, const std::string& value, const std::string& expected) const {
    throw py::value_error(std::string(op_) + ": " + name + " has " + value + "; expected " + expected);
}

Args::Args(const char* op, PyObject* args, PyObject* named)
    : op_(op), args_(args), named_(named), positions_(size_t(PyTuple_GET_SIZE(args))),
      names_(named ? size_t(PyDict_GET_SIZE(named)) : 0) {}

PyObject* Args::take(const char* name) {
    const size_t at = at_++;
    if (at < positions_) return PyTuple_GET_ITEM(args_, py::ssize_t(at));
    if (!names_) return nullptr;
    PyObject* const value = PyDict_GetItemString(named_, name);
    named_read_ += value != nullptr;
    return value;
}

PyObject* Args::next(const char* name) {
    PyObject* const value = take(name);
    if (value && !left_out_) return value;
    throw py::value_error(std::string(op_) + ": " + std::to_string(positions_ + names_) + " arguments; expected also " +
                          (left_out_ ? left_out_ : name));
}

void Args::end() const {
    if (at_ < positions_)
        throw py::value_error(std::string(op_) + ": " + std::to_string(positions_) + " arguments; expected " +
                              std::to_string(at_));
    if (named_read_ < names_)
        throw py::value_error(std::string(op_) + ": arguments " +
                              std::string(py::repr(py::handle(named_).attr("keys")())) +
                              "; expected names of its signature that no position gives");
}

template <class T>
View Args::checked(const char* name, PyObject* value, Access access, const char* dtype) const {
    const py::array found = array(*this, name, value, access);
    if (!holds<T>(found)) refuse(name, dtype_of(found), dtype);
    return view_of(name, found);
}

template <class T>
View Args::typed(const char* name, Access access, const char* dtype) {
    return checked<T>(name, next(name), access, dtype);
}

template <class T>
View Args::typed_or_none(const char* name, Access access, const char* dtype) {
    PyObject* const value = take(name);
    if (value && value != Py_None) return checked<T>(name, value, access, dtype);
    if (!value && !left_out_) left_out_ = name;
    return {.name = name, .shape = {}, .data = nullptr};
}

template View Args::typed<float>(const char*, Access, const char*);
template View Args::typed<double>(const char*, Access, const char*);
template View Args::typed<efl_uint8>(const char*, Access, const char*);
template View Args::typed<efl_int32>(const char*, Access, const char*);
template View Args::typed<efl_uint32>(const char*, Access, const char*);
template View Args::typed<efl_int64>(const char*, Access, const char*);
template View Args::typed_or_none<float>(const char*, Access, const char*);
template View Args::typed_or_none<efl_uint8>(const char*, Access, const char*);
template View Args::typed_or_none<efl_uint32>(const char*, Access, const char*);

View Args::pixels(const char* name, bool* are_bytes) {
    const py::array found = array(*this, name, next(name), Access::in);
    *are_bytes = holds<efl_uint8>(found);
    if (!*are_bytes && !holds<float>(found)) refuse(name, dtype_of(found), "uint8 or float32");
    return view_of(name, found);
}

View Args::word(const char* name, Access access) {
    const py::array found = array(*this, name, next(name), access);
    if (found.itemsize() != 4) refuse(name, dtype_of(found), "a 4-byte type");
    return view_of(name, found);
}

View Args::memory(const char* name, Access access) {
    const py::array found = array(*this, name, next(name), access);
    return {.name = name, .shape = {efl_int64(found.nbytes())}, .data = const_cast<void*>(found.data())};
}

View Args::ids(const char* name, PyObject* value) {
    const View view = checked<efl_int32>(name, value, Access::in, "int32");
    expect_dims(view, 1, 1);
    ids_.push_back({.name = view.name, .first = view.as<efl_int32>(), .count = view.size()});
    return view;
}

efl_index Args::index(const char* name) {
    PyObject* const value = next(name);
    if (value == Py_None) return {.ids = nullptr, .count = 0};
    const View view = ids(name, value);
    return {.ids = view.as<efl_int32>(), .count = view.size()};
}

float Args::real(const char* name) {
    const py::handle value = next(name);
    try {
        return py::cast<float>(value);
    } catch (const py::cast_error&) {
        refuse(name, shown(value), "a number");
    }
}

efl_int64 Args::integer(const char* name) {
    const py::handle value = next(name);
    try {
        return py::cast<efl_int64>(value);
    } catch (const py::cast_error&) {
        refuse(name, shown(value), "an integer");
    }
}

void Args::pair(const char* name, efl_int64* first, efl_int64* second) {
    const py::handle value = next(name);
    try {
        const auto both = py::cast<std::pair<efl_int64, efl_int64>>(value);
        *first = both.first;
        *second = both.second;
    } catch (const py::cast_error&) {
        refuse(name, shown(value), "two integers");
    }
}

void Args::expect_dims(const View& view, size_t least, size_t most) const {
    const size_t dims = view.shape.size();
    if (dims >= least && dims <= most) return;
    refuse(view.name, "shape " + text(view.shape),
           std::to_string(least) + (least == most ? "" : " or more") + " dimensions");
}

void Args::expect_shape(const View& view, const Shape& shape) const {
    if (view.data && view.shape != shape) refuse(view.name, "shape " + text(view.shape), text(shape));
}

void Args::expect_size(const View& view, efl_int64 size) const {
    if (view.data && view.size() != size)
        refuse(view.name, "shape " + text(view.shape) + " with " + std::to_string(view.size()) + " elements",
               std::to_string(size));
}

void Args::expect_status(efl_status status, const std::string& what) const {
    if (status != EFL_OK) throw py::value_error(std::string(op_) + ": " + what + ": " + efl_status_text(status));
}

void Checked::raise_unless_ok(efl_status status) const {
    if (status == EFL_OK) return;
    std::string message = std::string(op) + ": " + efl_status_text(status);
    if (status == EFL_BAD_INDEX)
        for (const Ids& one : ids) {
            const efl_int64 shown = one.count < 8 ? one.count : 8;
            message +=
                "; " + one.name + " = " + text(Shape(one.first, one.first + shown)) + (shown < one.count ? "..." : "");
        }
    throw py::value_error(message);
}

}  // namespace efl
