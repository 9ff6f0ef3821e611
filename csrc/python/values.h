// What Python's values hold. These functions use pybind11, whose headers take 5 s of processor time to compile. Only
// values.cc and python.cc include them.
#pragma once
#include <cstddef>
#include <string>

#include "../core/check.h"

struct _object;  // PyObject

namespace efl {

// A numpy array. The extents belong to the array.
struct Array {
    void* data;
    const std::ptrdiff_t* extents;
    std::size_t dims;
    bool is_contiguous, is_writeable;  // is_contiguous: in C's order
};

enum class Type { float32, float64, uint8, int32, uint32, int64 };

bool read_array(_object* value, Array* found);  // false: `value` is not a numpy array
bool holds(_object* array, Type type);
efl_int64 item_bytes(_object* array);

// Each returns false if `value` is something else. An integer with the value of a float is no integer.
bool read_real(_object* value, float* found);
bool read_integer(_object* value, efl_int64* found);
bool read_pair(_object* value, efl_int64* first, efl_int64* second);

// For messages.
std::string dtype_of(_object* array);
std::string shown(_object* value);
std::string shown_keys(_object* dictionary);

// Inside a catch block: sets the Python error for the exception.
void set_error();

}  // namespace efl
