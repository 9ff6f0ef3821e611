// The headers that the files of all instruction sets read, which the build compiles once (csrc/native_build.py). Those
// files include what they need, so that they compile without this one.
#pragma once
#include "isa.h"
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif
