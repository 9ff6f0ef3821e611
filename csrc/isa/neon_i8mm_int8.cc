#define EFL_PART "int8.h"
#define EFL_CODES "../simd/codes/i8mm.h"
#include "neon_i8mm.h"
