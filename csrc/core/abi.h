// The C ABI as C++ sees it: C linkage, and the only symbols that libedgefl.so exports.
#pragma once

#pragma GCC visibility push(default)
extern "C" {
#include "../edgefl.h"
}
#pragma GCC visibility pop
