#define EFL_PART "int8.h"
#define EFL_CODES "../simd/codes/dotprod.h"
#include "neon_dotprod.h"
