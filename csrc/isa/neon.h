// Opens the region of this instruction set around one part of its bodies, EFL_PART. Every 64-bit ARM has these
// instructions.
#if defined(__aarch64__)
#include "isa.h"
#include <arm_neon.h>
namespace efl::neon {
#include "../simd/neon.h"
#include EFL_PART
}  // namespace efl::neon
#endif
