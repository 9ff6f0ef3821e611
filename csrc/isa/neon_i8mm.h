// Opens the region of this instruction set around a part of its bodies, EFL_PART: NEON with FEAT_I8MM.
#if defined(__aarch64__)
#include "isa.h"
#include <arm_neon.h>
EFL_TARGET_BEGIN("arch=armv8.2-a+i8mm")
namespace efl::neon_i8mm {
#include "../simd/neon.h"
#include EFL_PART
}  // namespace efl::neon_i8mm
EFL_TARGET_END
#endif
