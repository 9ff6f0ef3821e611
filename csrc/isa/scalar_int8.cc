#define EFL_PART "int8.h"
#define EFL_CODES "../simd/codes/scalar.h"
#include "scalar.h"
