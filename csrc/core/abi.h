// The C ABI: the only symbols that libedgefl.so exports; the header is generated (csrc/generate.py).
#pragma once

#pragma GCC visibility push(default)
#include "edgefl.h"
#pragma GCC visibility pop
