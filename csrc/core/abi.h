// The C ABI: the only symbols that libedgefl.so exports.
#pragma once

#pragma GCC visibility push(default)
#include "../edgefl.h"
#pragma GCC visibility pop
