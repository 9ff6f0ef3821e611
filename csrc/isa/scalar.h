// The region of this tier around one part of its bodies, EFL_PART.
#include "tier.h"
namespace efl::scalar {
#include "../simd/scalar.h"
#include EFL_PART
}  // namespace efl::scalar
