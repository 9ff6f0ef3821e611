// Reading a kernel's arguments from Python: dtype, layout and shape are checked once, and what remains is a Call that
// holds raw pointers only and runs without the interpreter. Every refusal is a ValueError: operation, argument, value,
// expectation.
// Families include this file, and with it nothing of Python.
#pragma once
#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "../core/check.h"
#include "values.h"

namespace efl {

// A closure over pointers and numbers. A compiler makes one function for each closure. std::function takes several.
class Call {
public:
    template <class Closure>
    Call(const Closure& closure) : Call(&closure, sizeof closure, &run<Closure>) {
        static_assert(std::is_trivially_copyable<Closure>::value, "a call holds pointers and numbers only");
    }
    efl_status operator()() const { return run_(held_.get()); }

private:
    using Run = efl_status(const void* held);

    Call(const void* closure, size_t bytes, Run* run);
    template <class Closure>
    static efl_status run(const void* held) {
        return (*static_cast<const Closure*>(held))();
    }

    std::unique_ptr<unsigned char[]> held_;  // new aligns it for every type
    Run* run_;
};

// The extents of an array, in place: a Call copies them without allocating.
class Shape {
public:
    static constexpr size_t MOST = 8;  // dimensions

    Shape() = default;
    Shape(std::initializer_list<efl_int64> extents) : Shape(extents.begin(), extents.end()) {}
    template <class It>
    Shape(It first, It last) : size_(size_t(last - first)) {  // at most MOST
        std::copy(first, last, extents_);
    }

    size_t size() const { return size_; }
    efl_int64 operator[](size_t i) const { return extents_[i]; }
    efl_int64& operator[](size_t i) { return extents_[i]; }
    const efl_int64* begin() const { return extents_; }
    const efl_int64* end() const { return extents_ + size_; }
    bool operator==(const Shape& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }
    bool operator!=(const Shape& other) const { return !(*this == other); }

private:
    efl_int64 extents_[MOST] = {};
    size_t size_ = 0;
};

std::string text(const Shape& shape);
std::string listed(const std::vector<efl_int64>& numbers);
efl_int64 product(const Shape& shape, size_t from = 0);
// These extents, then those of another shape from `from` on.
Shape tailed(std::initializer_list<efl_int64> head, const Shape& whole, size_t from);

// An array's memory and shape; data is NULL where None was passed.
struct View {
    const char* name;  // a literal
    Shape shape;
    void* data = nullptr;

    efl_int64 size() const { return product(shape); }
    efl_int64 inner() const { return product(shape, 2); }  // of [batch, channels, ...]
    const float* in() const { return static_cast<const float*>(data); }
    float* out() const { return static_cast<float*>(data); }
    template <class T>
    T* as() const {
        return static_cast<T*>(data);
    }
};

// Ids that a call reads when it runs, kept to be shown if it refuses them.
struct Ids {
    std::string name;
    const efl_int32* first;
    efl_int64 count;
};

// A part of a message: words, a number or a shape. It points at the shape, so that it costs no destructor.
struct Word {
    Word(const char* words_) : kind(Kind::words), words(words_) {}
    Word(efl_int64 number) : kind(Kind::integer), integer(number) {}
    Word(efl_int32 number) : kind(Kind::integer), integer(number) {}
    Word(double number) : kind(Kind::real), real(number) {}
    Word(const Shape& shape_) : kind(Kind::shape), shape(&shape_) {}

    std::string text() const;

    enum class Kind { words, integer, real, shape } kind;
    union {
        const char* words;
        efl_int64 integer;
        double real;
        const Shape* shape;
    };
};
using Words = std::initializer_list<Word>;

// A refusal by a call that runs, of contents that may change between runs.
[[noreturn]] void refuse_run(const char* op, const char* name, Words value, Words expected);

enum class Access { in, out };

// The arguments of one call, taken in order: by position, then by name.
class Args {
public:
    // args: a tuple; named: a dictionary or null
    Args(const char* op, _object* args, _object* named);

    View f32(const char* name, Access access = Access::in) { return typed(name, access, Type::float32); }
    View f32_or_none(const char* name, Access access = Access::in) {
        return typed_or_none(name, access, Type::float32);
    }
    View typed(const char* name, Access access, Type type);
    View typed_or_none(const char* name, Access access,
                       Type type);                   // None, or left out where no later argument is given
    View pixels(const char* name, bool* are_bytes);  // uint8 or float32
    View word(const char* name, Access access);      // any type of 4 bytes
    View memory(const char* name, Access access);    // any type, as so many bytes

    View ids(const char* name) { return ids(name, next(name)); }  // int32, one dimension
    efl_index index(const char* name);
    float real(const char* name);
    efl_int64 integer(const char* name);
    void pair(const char* name, efl_int64* first, efl_int64* second);

    // Refusals.
    [[noreturn]] void refuse(const std::string& name, const std::string& value, const std::string& expected) const;
    [[noreturn]] void reject(const char* name, Words value, Words expected) const;
    void expect_divisor(const char* name, efl_int64 value, efl_int64 of) const;
    void expect_dims(const View& view, size_t least, size_t most) const;
    void expect_shape(const View& view, const Shape& shape) const;  // a View of None passes
    void expect_size(const View& view, efl_int64 size) const;       // a View of None passes
    void expect_status(efl_status status, const std::string& what) const;
    void end() const;
    const std::vector<Ids>& ids_read() const { return ids_; }

private:
    _object* take(const char* name);  // null if it was left out
    _object* next(const char* name);
    View ids(const char* name, _object* value);
    View checked(const char* name, _object* value, Access access, Type type) const;
    Array array(const char* name, _object* value, Access access) const;

    const char* op_;
    _object *const args_, *const named_;
    const size_t positions_, names_;
    size_t at_ = 0, named_read_ = 0;
    const char* left_out_ = nullptr;
    std::vector<Ids> ids_;
};

// A call that has been checked, and what to say if it still fails: the operation, and the ids where those are the
// reason.
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

const Op& find(const std::string& name);
Checked make_call(const Op& op, _object* args, _object* named);
// An operation as a Python function; a new reference.
_object* function(const std::string& name, const std::string& signature, const std::string& documentation);

// The operations by family, as in edgefl/kernels/table.py.
#define EFL_FAMILY(name) extern const std::vector<Op> name##_ops;
#include "families.h"
#undef EFL_FAMILY

}  // namespace efl
