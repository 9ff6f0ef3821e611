// The checks declared in call.h.
#include "call.h"

#include <Python.h>

#include <cstring>
#include <stdexcept>

namespace efl {
namespace {

View view_of(const char* name, const Array& array) {
    return {.name = name, .shape = Shape(array.extents, array.extents + array.dims), .data = array.data};
}

const char* name_of(Type type) {
    switch (type) {
        case Type::float32: return "float32";
        case Type::float64: return "float64";
        case Type::uint8: return "uint8";
        case Type::int32: return "int32";
        case Type::uint32: return "uint32";
        case Type::int64: return "int64";
    }
    return "";
}

}  // namespace

Call::Call(const void* closure, size_t bytes, Run* run) : held_(new unsigned char[bytes]), run_(run) {
    std::memcpy(held_.get(), closure, bytes);
}

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

std::string Word::text() const {
    switch (kind) {
        case Kind::words: return words;
        case Kind::integer: return std::to_string(integer);
        case Kind::real: return std::to_string(real);
        case Kind::shape: return efl::text(*shape);
    }
    return "";
}

static std::string joined(Words words) {
    std::string all;
    for (const Word& word : words) all += word.text();
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
    throw std::invalid_argument(std::string(op_) + ": " + name + " has " + value + "; expected " + expected);
}

Args::Args(const char* op, PyObject* args, PyObject* named)
    : op_(op), args_(args), named_(named), positions_(size_t(PyTuple_GET_SIZE(args))),
      names_(named ? size_t(PyDict_GET_SIZE(named)) : 0) {}

PyObject* Args::take(const char* name) {
    const size_t at = at_++;
    if (at < positions_) return PyTuple_GET_ITEM(args_, Py_ssize_t(at));
    if (!names_) return nullptr;
    PyObject* const value = PyDict_GetItemString(named_, name);
    named_read_ += value != nullptr;
    return value;
}

PyObject* Args::next(const char* name) {
    PyObject* const value = take(name);
    if (value && !left_out_) return value;
    throw std::invalid_argument(std::string(op_) + ": " + std::to_string(positions_ + names_) +
                                " arguments; expected also " + (left_out_ ? left_out_ : name));
}

void Args::end() const {
    if (at_ < positions_)
        throw std::invalid_argument(std::string(op_) + ": " + std::to_string(positions_) + " arguments; expected " +
                                    std::to_string(at_));
    if (named_read_ < names_)
        throw std::invalid_argument(std::string(op_) + ": arguments " + shown_keys(named_) +
                                    "; expected names of its signature that no position gives");
}

Array Args::array(const char* name, PyObject* value, Access access) const {
    Array found;
    if (!read_array(value, &found)) refuse(name, "type " + std::string(Py_TYPE(value)->tp_name), "a numpy array");
    if (!found.is_contiguous) refuse(name, "strides that are not C-contiguous", "a C-contiguous array");
    if (found.dims > Shape::MOST)
        refuse(name, std::to_string(found.dims) + " dimensions", "at most " + std::to_string(Shape::MOST));
    if (access == Access::out && !found.is_writeable) refuse(name, "the read-only flag", "a writeable array");
    return found;
}

View Args::checked(const char* name, PyObject* value, Access access, Type type) const {
    const Array found = array(name, value, access);
    if (!holds(value, type)) refuse(name, dtype_of(value), name_of(type));
    return view_of(name, found);
}

View Args::typed(const char* name, Access access, Type type) { return checked(name, next(name), access, type); }

View Args::typed_or_none(const char* name, Access access, Type type) {
    PyObject* const value = take(name);
    if (value && value != Py_None) return checked(name, value, access, type);
    if (!value && !left_out_) left_out_ = name;
    return {.name = name, .shape = {}, .data = nullptr};
}

View Args::pixels(const char* name, bool* are_bytes) {
    PyObject* const value = next(name);
    const Array found = array(name, value, Access::in);
    *are_bytes = holds(value, Type::uint8);
    if (!*are_bytes && !holds(value, Type::float32)) refuse(name, dtype_of(value), "uint8 or float32");
    return view_of(name, found);
}

View Args::word(const char* name, Access access) {
    PyObject* const value = next(name);
    const Array found = array(name, value, access);
    if (item_bytes(value) != 4) refuse(name, dtype_of(value), "a 4-byte type");
    return view_of(name, found);
}

View Args::memory(const char* name, Access access) {
    PyObject* const value = next(name);
    View view = view_of(name, array(name, value, access));
    view.shape = {view.size() * item_bytes(value)};
    return view;
}

View Args::ids(const char* name, PyObject* value) {
    const View view = checked(name, value, Access::in, Type::int32);
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
    PyObject* const value = next(name);
    float found;
    if (!read_real(value, &found)) refuse(name, shown(value), "a number");
    return found;
}

efl_int64 Args::integer(const char* name) {
    PyObject* const value = next(name);
    efl_int64 found;
    if (!read_integer(value, &found)) refuse(name, shown(value), "an integer");
    return found;
}

void Args::pair(const char* name, efl_int64* first, efl_int64* second) {
    PyObject* const value = next(name);
    if (!read_pair(value, first, second)) refuse(name, shown(value), "two integers");
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
    if (status != EFL_OK) throw std::invalid_argument(std::string(op_) + ": " + what + ": " + efl_status_text(status));
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
    throw std::invalid_argument(message);
}

}  // namespace efl
