// Opens the region of this instruction set around one part of its bodies, EFL_PART.
#if defined(__x86_64__)
#include "isa.h"
#include <immintrin.h>
EFL_TARGET_BEGIN("avx2,fma,f16c,bmi2,popcnt")
namespace efl::avx2 {
#include "../simd/avx2.h"
#include EFL_PART
}  // namespace efl::avx2
EFL_TARGET_END
#endif
