// Opens the region of this instruction set around a part of its bodies, EFL_PART: AVX-512 with VNNI.
#if defined(__x86_64__)
#include "isa.h"
#include <immintrin.h>
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // _mm512_undefined_ps inside GCC 12's own intrinsics
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
EFL_TARGET_BEGIN("avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi2,popcnt")
namespace efl::avx512_vnni {
namespace avx512 = avx512_vnni;  // by this name the words call each other
#include "../simd/avx512.h"
#include EFL_PART
}  // namespace efl::avx512_vnni
EFL_TARGET_END
#endif
