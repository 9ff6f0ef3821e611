// Opens the region of this instruction set around one part of its bodies, EFL_PART.
#include "isa.h"
namespace efl::scalar {
#include "../simd/scalar.h"
#include EFL_PART
}  // namespace efl::scalar
