#define EFL_PART "int8.h"
#define EFL_CODES "../simd/codes/neon.h"
#include "neon.h"
