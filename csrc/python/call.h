// Reading a kernel's arguments from Python: dtype, layout and shape are checked once, and what remains is a Call that holds
// raw pointers only and runs without the interpreter. Every refusal is a ValueError: operation, argument, value, expectation.
#pragma once
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <functional>
#include <string>
#include <vector>

#include "../core/check.h"

namespace efl {
namespace py = pybind11;

using Call = std::function<efl_status()>;
using Shape = std::vector<efl_int64>;

std::string text(const Shape& shape);
efl_int64 product(const Shape& shape, size_t from = 0);
inline efl_int64 count(efl_index index, efl_int64 all) { return index.ids ? index.count : all; }

// An array's memory and shape; data is NULL where None was passed.
struct View {
    std::string name;
    Shape shape;
    void* data = nullptr;

    efl_int64 size() const { return product(shape); }
    efl_int64 inner() const { return product(shape, 2); }  // of [batch, channels, ...]
    const float* in() const { return static_cast<const float*>(data); }
    float* out() const { return static_cast<float*>(data); }
    template <class T>
    T* as() const { return static_cast<T*>(data); }
};

// Ids that a call reads when it runs, kept to be shown if it refuses them.
struct Ids {
    std::string name;
    const efl_int32* first;
    efl_int64 count;
};

enum class Access { in, out };

// The arguments of one call, taken in order.
class Args {
public:
    Args(const char* op, const py::args& args) : op_(op), args_(args) {}

    View f32(const char* name, Access access = Access::in) { return typed<float>(name, access, "float32"); }
    View f32_or_none(const char* name, Access access = Access::in) { return none() ? skip(name) : f32(name, access); }
    template <class T>
    View typed(const char* name, Access access, const char* dtype) {
        const py::array array = any(name, access);
        if (!py::isinstance<py::array_t<T, 0>>(array)) refuse(name, "dtype " + dtype_of(array), dtype);
        return view(name, array);
    }
    template <class T>
    View typed_or_none(const char* name, Access access, const char* dtype) {
        return none() ? skip(name) : typed<T>(name, access, dtype);
    }
    py::array any(const char* name, Access access);
    View view(const char* name, const py::array& array) const;
    static std::string dtype_of(const py::array& array) { return std::string(py::str(array.dtype())); }

    View ids(const char* name);  // int32, one dimension
    efl_index index(const char* name);
    float real(const char* name);
    efl_int64 integer(const char* name);
    void pair(const char* name, efl_int64* first, efl_int64* second);

    // Refusals.
    [[noreturn]] void refuse(const std::string& name, const std::string& value, const std::string& expected) const;
    void expect_dims(const View& view, size_t least, size_t most) const;
    void expect_shape(const View& view, const Shape& shape) const;  // a View of None passes
    void expect_size(const View& view, efl_int64 size) const;       // a View of None passes
    void expect_status(efl_status status, const std::string& what) const;
    void end() const;
    const std::vector<Ids>& ids_read() const { return ids_; }

private:
    py::handle next(const char* name);
    bool none() const { return at_ < args_.size() && args_[at_].is_none(); }
    View skip(const char* name) { ++at_; return View{name, {}, nullptr}; }

    const char* op_;
    const py::args& args_;
    size_t at_ = 0;
    std::vector<Ids> ids_;
};

// A call that has been checked, and what to say if it still fails: the operation, and the ids where those are the reason.
struct Checked {
    const char* op;
    Call call;
    std::vector<Ids> ids;

    void raise_unless_ok(efl_status status) const;
};

struct Op {
    const char* name;
    Call (*make)(Args&);
};

// The operations, by theme.
extern const std::vector<Op> layer_ops, norm_ops, elementwise_ops, parameter_ops;

}  // namespace efl
