// Opens the region of this instruction set around one part of its bodies, EFL_PART.
#if defined(__x86_64__)
#include "isa.h"
#include <immintrin.h>
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // _mm512_undefined_ps inside GCC 12's own intrinsics
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
EFL_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi2,popcnt")
namespace efl::avx512 {
#include "../simd/avx512.h"
#include EFL_PART
}  // namespace efl::avx512
EFL_TARGET_END
#endif
