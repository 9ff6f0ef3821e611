#include "tier.h"
namespace efl::scalar {
#include "../simd/scalar.h"
#include "bodies.h"
}  // namespace efl::scalar
