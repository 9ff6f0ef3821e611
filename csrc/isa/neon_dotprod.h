// Opens the region of this instruction set around a part of its bodies, EFL_PART: NEON with FEAT_DotProd.
#if defined(__aarch64__)
#include "isa.h"
#include <arm_neon.h>
EFL_TARGET_BEGIN("arch=armv8.2-a+dotprod")
namespace efl::neon_dotprod {
#include "../simd/neon.h"
#include EFL_PART
}  // namespace efl::neon_dotprod
EFL_TARGET_END
#endif
