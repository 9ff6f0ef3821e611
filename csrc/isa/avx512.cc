#include "tier.h"
#if defined(__x86_64__)
#include <immintrin.h>
EFL_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,bmi2,popcnt")
namespace efl::avx512 {
#include "../simd/avx512.h"
#include "bodies.h"
}
EFL_TARGET_END
#endif
