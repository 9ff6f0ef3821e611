// What every instruction set's file needs before it opens its target region: standard headers, the ABI, the table, the
// threads. Only these may be included outside a region; no code of these headers is compiled with an instruction set's
// instructions.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

#include "../core/cores.h"
#include "../core/dispatch.h"
#include "../core/geometry.h"
#include "../core/scratch.h"
#include "../core/sparse_convolution.h"
#include "../core/sparse_linear.h"
#include "../core/threads.h"

#if defined(__clang__)
#define EFL_PRAGMA(text) _Pragma(#text)
#define EFL_TARGET_BEGIN(features) \
    EFL_PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
#define EFL_TARGET_END _Pragma("clang attribute pop")
#else
#define EFL_PRAGMA(text) _Pragma(#text)
#define EFL_TARGET_BEGIN(features) _Pragma("GCC push_options") EFL_PRAGMA(GCC target(features))
#define EFL_TARGET_END _Pragma("GCC pop_options")
#endif

#define EFL_UNROLL EFL_PRAGMA(GCC unroll 24)
